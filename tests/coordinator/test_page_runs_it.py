"""A federation is run from the page alone, in a real browser: from its creation over names and files to its end."""

import re

import pytest
from coordinators import ADMIN, MEANS, SECRET, Caller, message, messages
from test_page import open_page  # noqa: F401

import kfed
from kfed.wire import load


@pytest.fixture
def signed_in(open_page):
    """Open a page and sign in as its administrator."""

    def sign_in(caller, where="", **options):
        page = open_page(f"{caller.http.base_url}/{where}", **options)
        page.get_by_role("button", name="Sign in").first.click()
        page.get_by_label("Admin token").fill(ADMIN)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Sign out").wait_for()
        return page

    return sign_in


def agree(page, name):
    """Answer the question that the page asks before it changes something for good."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name=name).click()
    dialog.wait_for(state="hidden")


@pytest.mark.slow
def test_an_administrator_needs_no_terminal(socket_caller, signed_in, tmp_path, open_page):
    open_page.expected.add("404")  # a picture may be asked for in the moment in which the federation is deleted
    page = signed_in(socket_caller)
    page.get_by_role("main").get_by_role("button", name="New federation").click()
    page.get_by_label("Name", exact=True).fill("clinics")
    page.get_by_label("What sites have").select_option("features")
    page.get_by_label("Features").fill("age, height")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("heading", name="The join token").wait_for()
    token, command = page.locator("#once code").all_inner_texts()
    assert f"kfed join {socket_caller.http.base_url} --federation clinics --token-file clinics.token" in command
    socket_caller.join["clinics"] = {"Authorization": f"Bearer {token}"}

    page.get_by_label("Invite a site by its name").fill("a-north")
    page.get_by_role("button", name="Invite", exact=True).click()
    page.get_by_role("heading", name="The invitation of a-north").wait_for()
    link, invitation, _ = page.locator("#once code").all_inner_texts()
    assert link.endswith(f"/join#federation=clinics&device=a-north&token={invitation}")
    page.get_by_text("Missing: a-north").wait_for()
    for one in messages(9):
        assert socket_caller.put(one).status_code == 201
    invited = {"Authorization": f"Bearer {invitation}", "Kfed-Device-Secret": SECRET}
    sent = message("a-north")
    path = f"{socket_caller.path('a-north')}/message"
    assert socket_caller.http.put(path, content=sent.to_bytes(), headers=invited).status_code == 201
    page.get_by_text("All who were invited have joined.").wait_for()

    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_text(re.compile("^k = 4 stands out")).wait_for()
    page.get_by_role("button", name="Use 4 clusters").click()
    page.get_by_text("Aggregated in 4 clusters.").wait_for()
    page.get_by_text("in use").wait_for()

    page.get_by_text("rows of 10 devices are in 4 clusters").wait_for()
    page.get_by_text("Name the clusters").click()
    page.locator("#name-2").fill("the <b>tall</b>")
    page.get_by_role("button", name="Save names").click()
    page.get_by_role("columnheader", name="the <b>tall</b>").first.wait_for()
    assert page.locator("b").count() == 0

    for which, ending in (("report", "html"), ("centers", "csv"), ("aggregation", "kfed")):
        with page.expect_download() as downloaded:
            page.get_by_role("button", name=f"Download {which}").click()
        downloaded.value.save_as(tmp_path / f"got.{ending}")
    assert load(tmp_path / "got.kfed", kfed.Aggregation).messages.n_devices == 10
    assert "the &lt;b&gt;tall&lt;/b&gt;" in (tmp_path / "got.html").read_text()

    page.get_by_role("button", name="Remove device-0003").click()
    agree(page, "Cancel")
    assert socket_caller.show()["n_devices"] == 10
    page.get_by_role("button", name="Remove device-0003").click()
    agree(page, "Remove")
    page.locator("#n-devices:text-is('9')").wait_for()
    page.get_by_role("button", name="Close to new devices").click()
    agree(page, "Close")
    page.locator("#closed").wait_for()
    page.get_by_role("button", name="Delete…").click()
    agree(page, "Delete")
    page.get_by_role("heading", name="Nothing to show yet").wait_for()
    kept = page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie, location.href])")
    assert ADMIN not in kept


@pytest.mark.slow
def test_who_only_watches_sees_no_button_that_changes_anything(run_server, tmp_path, open_page):
    caller = Caller(run_server(str(tmp_path / "kfed.db"), open_to_loopback=False))
    caller.create_aggregated(messages(6))
    page = open_page(f"{caller.http.base_url}/#/link={caller.invite()}")
    page.get_by_text("How to read this").wait_for()
    assert page.get_by_role("button").all_inner_texts() == ["Sign in"]
    assert page.get_by_role("heading", name="What the clusters are").count() == 0


@pytest.mark.slow
def test_an_error_of_the_coordinator_is_shown_in_its_words(socket_caller, signed_in, open_page):
    open_page.expected.add("409")
    socket_caller.create("taken")
    page = signed_in(socket_caller)
    page.get_by_role("button", name="New federation").click()
    page.get_by_label("Name", exact=True).fill("taken")
    page.get_by_label("Columns").fill("age")
    page.get_by_role("button", name="Create").click()
    page.get_by_text("A federation named 'taken' exists already; choose another name.").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("heading", name="taken").wait_for()


OVERLAPS = """
() => {
  const boxes = [...document.querySelectorAll("#map text.number")].map((node) => node.getBoundingClientRect());
  let overlaps = 0;
  boxes.forEach((a, i) => boxes.slice(0, i).forEach((b) => {
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4) overlaps += 1;
  }));
  return [boxes.length, overlaps];
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_twelve_clusters_of_many_devices_are_told_apart_on_a_phone_too(socket_caller, open_page, scheme):
    means = MEANS[[0, 1, 2, 3] * 3] + [[i, (3 * i) % 5] for i in range(12)]
    socket_caller.create_aggregated(messages(60, means=means), n_clusters=12)
    page = open_page(socket_caller.http.base_url, color_scheme=scheme, viewport={"width": 390, "height": 844})
    page.get_by_role("img", name="120 device centers in two dimensions, in 12 clusters").wait_for()
    page.get_by_text("How to read this").wait_for()
    colours = page.locator("#map .dot").evaluate_all("dots => dots.map((dot) => getComputedStyle(dot).fill)")
    assert len(set(colours)) == 12
    assert page.evaluate(OVERLAPS) == [12, 0]
    assert page.evaluate("document.documentElement.scrollWidth") == 390
