"""A federation is run from the page alone, in a real browser: from its creation over names and files to its end."""

import re

import numpy as np
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
    token, address, command = page.locator("#once code").all_inner_texts()
    assert address == f"{socket_caller.http.base_url}/join"
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
    page.get_by_text(re.compile("^4 clusters: stable")).wait_for()
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


@pytest.mark.slow
def test_a_coordinator_away_and_a_damaged_federation_are_said(socket_caller, signed_in, open_page):
    open_page.expected |= {"503", "ERR_FAILED"}
    socket_caller.create_aggregated(messages(6))
    socket_caller.create("healthy")
    socket_caller.http.app.state.desk.coordinator.find("clinics").disable(
        "its clusters cannot be read", can_be_mended=True
    )
    page = signed_in(socket_caller, "#/clinics")
    page.get_by_text("Damaged, and not served until it is mended: its clusters cannot be read").wait_for()
    assert not page.get_by_role("heading", name="Device centers").is_visible()
    page.get_by_role("button", name="Aggregate now").click()
    page.get_by_role("heading", name="Device centers").wait_for()
    page.route("**/v1/events", lambda route: route.abort())
    page.reload()
    page.get_by_role("status").get_by_text("The coordinator has not answered since").wait_for()
    page.unroute("**/v1/events")
    page.get_by_role("heading", name="clinics").wait_for()
    assert not page.locator("#away").is_visible()


@pytest.mark.slow
def test_one_stray_leaves_room_for_all_others_in_the_picture(socket_caller, open_page):
    socket_caller.create_aggregated([*messages(60), message("stray", (0,), means=MEANS + 1e5)], min_devices=2)
    page = open_page(socket_caller.http.base_url)
    page.get_by_text("1 far outside is drawn at the edge").wait_for()
    boxes = page.locator("#map .dot").evaluate_all("dots => dots.map((dot) => dot.getBoundingClientRect().x)")
    assert max(boxes[:100]) - min(boxes[:100]) > 150


@pytest.mark.slow
def test_the_first_steps_fit_a_phone_and_say_where_sites_join(socket_caller, signed_in):
    page = signed_in(socket_caller, viewport={"width": 390, "height": 844})
    width = "document.documentElement.scrollWidth"
    page.get_by_text("kfed join").wait_for()
    assert page.evaluate(width) == 390
    page.get_by_role("main").get_by_role("button", name="New federation").click()
    page.get_by_label("Name", exact=True).fill("clinics")
    page.get_by_label("Columns").fill("age, bmi")
    assert page.evaluate(width) == 390
    page.get_by_role("button", name="Create").click()
    page.get_by_role("heading", name="The join token").wait_for()
    page.get_by_label("Invite a site by its name").fill("a hospital with a rather long name, ward 3 (north wing)")
    page.keyboard.press("Enter")
    page.get_by_text("Missing: a hospital").wait_for()
    assert page.evaluate(width) == 390
    address = page.locator("#no-devices").get_by_text(f"{socket_caller.http.base_url}/join", exact=True)
    assert address.is_visible()


FOCUSED = """
() => {
  const node = document.activeElement, label = node.labels?.[0]?.textContent ?? "";
  return node.ariaLabel || label || node.textContent.trim();
}
"""


def tab_to(page, words):
    """Go on with the Tab key to what has this name; a keyboard reaches nothing else."""
    for _ in range(90):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED).startswith(words):
            return
    raise AssertionError(f"the Tab key does not reach {words!r}")


@pytest.mark.slow
def test_a_federation_is_run_by_keyboard_and_the_focus_is_never_lost(socket_caller, open_page):
    page = open_page(socket_caller.http.base_url)
    press, write = page.keyboard.press, page.keyboard.type
    tab_to(page, "Sign in")
    press("Enter")
    write(ADMIN)
    press("Enter")
    page.get_by_role("button", name="Sign out").wait_for()
    tab_to(page, "New federation")
    press("Enter")
    page.locator("#create-name:focus").wait_for()
    write("clinics")
    tab_to(page, "Columns")
    press("Shift+Tab")
    press("ArrowDown")  # numbers as they are
    tab_to(page, "Features")
    write("age, height")
    press("Enter")
    page.locator("[aria-label='The join token']:focus").wait_for()
    token = page.locator("#once code").first.inner_text()
    socket_caller.join["clinics"] = {"Authorization": f"Bearer {token}"}
    tab_to(page, "Done")
    press("Space")
    assert page.evaluate("document.activeElement.id") == "main"
    for one in messages(8):
        socket_caller.put(one)
    page.locator("#n-devices:text-is('8')").wait_for()
    tab_to(page, "Aggregate now")
    press("Enter")
    page.locator("button:focus:text-is('Aggregate anew')").wait_for()
    page.get_by_role("button", name="Use 3 clusters").wait_for()
    tab_to(page, "Use 3 clusters")
    press("Enter")
    page.locator("[aria-label=Comparison]:focus").wait_for()
    page.get_by_text("Name the clusters").wait_for()
    tab_to(page, "Name the clusters")
    press("Enter")
    tab_to(page, "0")
    write("young")
    press("Enter")
    page.get_by_role("columnheader", name="young").first.wait_for()
    assert page.evaluate(FOCUSED).startswith("Name the clusters")
    page.evaluate("document.getElementById('main').focus()")
    tab_to(page, "Close to new devices")
    press("Enter")
    tab_to(page, "Close")
    press("Enter")
    page.locator("#closed").wait_for()
    assert page.evaluate("document.getElementById('actions').contains(document.activeElement)")


@pytest.mark.slow
def test_a_screen_reader_hears_roles_names_and_states_of_the_whole_page(socket_caller, signed_in):
    socket_caller.create_aggregated([*messages(6), message("liar", (0,), means=MEANS + 900)], min_devices=2)
    page = signed_in(socket_caller, "#/clinics")
    page.get_by_text("Name the clusters").wait_for()
    page.get_by_text("How to read this").wait_for()
    page.get_by_label("Invite a site by its name").wait_for()
    page.get_by_role("button", name="Remove liar").wait_for()
    tree = page.locator("body").aria_snapshot()
    for said in (
        'link "Skip to the federation"',
        "banner",
        'navigation "Federations"',
        "main",
        'heading "clinics" [level=1]',
        'group "Actions"',
        'button "Download report"',
        'list "What to look at"',
        'region "How many clusters?"',
        'region "Comparison"',
        'columnheader "Stability"',
        'rowheader "4"',
        'button "Use 3 clusters"',
        'region "What the clusters are"',
        'textbox "Invite a site by its name"',
        'region "Devices as they arrive"',
        'button "Remove liar"',
        'img "Points in each cluster',
    ):
        assert said in tree, (said, tree)
    is_named = (
        "node.labels?.length || node.ariaLabel || node.textContent.trim() || node.getAttribute('aria-labelledby')"
    )
    nameless = f"nodes => nodes.filter((node) => node.checkVisibility() && !({is_named})).map((node) => node.outerHTML)"
    assert page.locator("button, a, input, select, summary, [role=img], [tabindex]").evaluate_all(nameless) == []


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


@pytest.mark.slow
def test_that_no_number_stands_out_is_said_once(socket_caller, signed_in, few_compared):
    rng = np.random.default_rng(0)
    sent = [kfed.cluster_device(rng.normal(size=(200, 2)), None, random_state=0).to_message(name) for name in "abc"]
    reason = socket_caller.create_aggregated(sent, n_clusters=None)["reason"]
    assert reason.startswith("no number of clusters stands out")
    page = signed_in(socket_caller, "#/clinics")
    page.get_by_role("region", name="Comparison").wait_for()
    page.get_by_role("heading", name="Where they live").wait_for()
    why = reason.split(": ", 1)[1]
    assert page.locator("#main").inner_text().count(why) == 1
    assert "No number of clusters stands out (2 at best)." in page.locator("#compare").inner_text()
