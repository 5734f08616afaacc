"""The live page in a real browser: what it shows, that it keeps up, and that anyone can use it."""

import numpy as np
import pytest
from coordinators import ADMIN, MEANS, Caller, OnSocket, made_settings, message, messages

import kfed

pytestmark = pytest.mark.usefixtures("few_compared_in_module")

MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture
def open_page(browser):
    """Open pages; none of them may complain, or ask anything of another machine."""
    complaints, asked, pages = [], [], []
    expected = {"401", "403"}

    def open_one(url, **options):
        page = browser.new_page(**options)
        page.set_default_timeout(15_000)
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(str(url))
        pages.append(page)
        return page

    open_one.expected = expected
    yield open_one
    for page in pages:
        page.close()
    assert not [text for text in complaints if not any(status in text for status in expected)]
    assert asked
    assert all(url.startswith(("http://127.0.0.1", "data:")) for url in asked)


@pytest.fixture(scope="module")
def of_three(tmp_path_factory, few_compared_in_module):
    """Calls a coordinator with the clusters of three devices whose costs are large: for tests that change nothing."""
    running = OnSocket(made_settings(str(tmp_path_factory.mktemp("three") / "kfed.db")))
    caller = Caller(running.client)
    names = [MARKUP, "device-0001", "device-0002"]
    far = [
        kfed.DeviceMessage(name, one.centers * 97, one.counts, [1e5, 1e5], 9.0)
        for name, one in zip(names, messages(3), strict=True)
    ]
    caller.create_aggregated(far)
    yield caller
    running.stop()


@pytest.mark.slow
def test_it_shows_a_federation_and_keeps_up_by_itself(socket_caller, open_page):
    socket_caller.create(quorum=6, feature_names=["age", "height"])
    page = open_page(socket_caller.http.base_url)
    page.get_by_role("heading", name="clinics").wait_for()
    page.get_by_text("gathering", exact=True).wait_for()
    page.get_by_text("No device has sent a center yet").wait_for()
    sent = messages(6)
    for number, one in enumerate(sent[:5], start=1):
        socket_caller.put(one)
        page.locator(f"#n-devices:text-is('{number}')").wait_for()
    page.get_by_role("img", name="10 device centers in two dimensions, not clustered yet").wait_for()
    socket_caller.put(sent[5])
    page.get_by_text("aggregated", exact=True).wait_for()
    page.get_by_role("img", name="12 device centers in two dimensions, in 4 clusters").wait_for()
    page.get_by_role("img", name="Points in each cluster").wait_for()
    page.get_by_role("img", name="there are 4 clusters").wait_for()
    assert len(set(page.locator("#map .dot").evaluate_all("dots => dots.map((dot) => dot.style.fill)"))) == 4
    socket_caller.put(message("a-late-one"))
    row = page.get_by_role("row", name="a-late-one")
    row.wait_for()
    assert "late" in row.inner_text()
    assert "a-late-one joined late" in page.get_by_role("status").last.inner_text()


@pytest.mark.slow
def test_it_says_what_to_look_at_and_on_how_many_devices_clusters_rest(socket_caller, open_page):
    sent = [*messages(6), message("liar", (0,), means=MEANS + 900)]
    page = open_page(socket_caller.http.base_url)
    socket_caller.create_aggregated(sent, min_devices=2, min_devices_shown=3)
    [notice] = [one["text"] for one in socket_caller.show()["notices"] if one["code"] == "other scale"]
    assert "'liar'" in notice
    said = page.get_by_role("list", name="What to look at")
    said.get_by_text(notice).wait_for()
    assert "other scale" in said.locator("strong").all_inner_texts()
    page.get_by_text("devices needed for a cluster: 2; for its center to be shown: 3").wait_for()


@pytest.mark.slow
def test_it_says_how_to_begin_where_there_is_nothing(socket_caller, open_page):
    page = open_page(socket_caller.http.base_url)
    page.get_by_role("heading", name="Nothing to show yet").wait_for()
    socket_caller.create("newborn")
    page.get_by_role("heading", name="newborn").wait_for()


@pytest.mark.slow
def test_it_is_used_by_keyboard_alone(socket_caller, open_page):
    for name in ("alpha", "omega"):
        socket_caller.create(name)
    page = open_page(socket_caller.http.base_url)
    page.get_by_role("heading", name="alpha").wait_for()
    focused = "document.activeElement.textContent"
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "Skip to the federation"
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "Sign in"
    page.keyboard.press("Tab")
    assert page.evaluate(focused).startswith("alpha")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="omega").wait_for()
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.get_by_role("link", name="omega").get_attribute("aria-current") == "page"


def test_every_landmark_chart_and_table_has_a_name_for_a_screen_reader(of_three, open_page):
    page = open_page(of_three.http.base_url)
    page.get_by_role("img", name="in 4 clusters").wait_for()
    assert page.get_by_role("navigation", name="Federations").count() == 1
    assert page.get_by_role("main").count() == 1
    assert page.locator("html").get_attribute("lang") == "en"
    unnamed = "nodes => nodes.filter((node) => !node.getAttribute('aria-label')).length"
    assert page.locator("[role=img]").evaluate_all(unnamed) == 0
    page.get_by_role("img", name="Stability and silhouette for 2 to 5 clusters").wait_for()
    assert page.locator("[role=img]").count() == 5
    devices = page.get_by_role("region", name="Devices as they arrive")
    assert devices.get_by_role("columnheader").all_inner_texts() == ["Device", "Arrived", "Centers", "Bytes"]


@pytest.mark.slow
def test_on_a_phone_the_comparison_begins_with_what_decides_and_costs_have_all_their_digits(of_three, open_page):
    page = open_page(of_three.http.base_url, viewport={"width": 375, "height": 800})
    table = page.get_by_role("region", name="Comparison")
    table.wait_for()
    heads = ["k", "Stability", "Weakest", "Silhouette", "Of one cloud", "C-H", "Explained", "Cost"]
    assert table.get_by_role("columnheader").all_inner_texts() == heads
    found = of_three.http.get("/v1/federations/clinics/comparison").json()
    row = table.get_by_role("row").nth(1).get_by_role("cell").all_inner_texts()
    assert row[-1] == f"{found['costs'][0]:,.0f}"
    mean, low, high = found["stability"][0]
    assert row[0] == f"{mean:.2f} ({low:.2f}\N{EN DASH}{high:.2f})"
    is_in_sight = "(node) => node.getBoundingClientRect().right <= innerWidth"
    assert table.get_by_role("columnheader", name="Weakest").evaluate(is_in_sight)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "least"), [(375, 200), (1200, 200)])
def test_the_picture_of_numbers_has_the_range_of_stability_and_is_large_enough(of_three, open_page, width, least):
    page = open_page(of_three.http.base_url, viewport={"width": width, "height": 800})
    picture = page.get_by_role("img", name="Stability and silhouette for 2 to 5 clusters")
    picture.wait_for()
    assert picture.bounding_box()["height"] >= least
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = of_three.http.get("/v1/federations/clinics/comparison").json()
    corners = picture.locator("polygon.range").get_attribute("points").split()
    assert len(corners) == 2 * len(found["n_clusters"])
    heights = [float(corner.split(",")[1]) for corner in corners]
    low, high = found["stability"][-1][1:]
    assert (heights[len(corners) // 2 - 1] > heights[len(corners) // 2]) == (low < high)


CONTRAST = """
() => {
  const value = (text) => text.match(/[\\d.]+/g).slice(0, 3).map((c) => c / 255)
    .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = (text) => { const [r, g, b] = value(text); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (!colour.endsWith(", 0)")) return colour;
    }
  };
  const nodes = [...document.querySelectorAll("h1, h2, p, dt, dd, th, td, a, .badge, .pill")];
  return nodes.filter((node) => node.offsetParent && node.textContent.trim()).map((node) => {
    const [a, b] = [light(getComputedStyle(node).color), light(behind(node))].sort((x, y) => y - x);
    return [node.textContent.trim().slice(0, 30), (a + 0.05) / (b + 0.05)];
  });
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_in_dark(socket_caller, open_page, scheme):
    socket_caller.create(quorum=3)
    for one in messages(3):
        socket_caller.put(one)
    page = open_page(socket_caller.http.base_url, color_scheme=scheme)
    page.get_by_role("img", name="in 4 clusters").wait_for()
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 200) == (scheme == "dark")
    contrasts = page.evaluate(CONTRAST)
    assert len(contrasts) > 20
    assert not [pair for pair in contrasts if pair[1] < 4.5]  # what WCAG asks of text


@pytest.mark.slow
def test_where_others_can_reach_it_it_takes_the_admin_token(run_server, tmp_path, open_page):
    caller = Caller(run_server(str(tmp_path / "kfed.db"), open_to_loopback=False))
    caller.create("hidden-one")
    page = open_page(caller.http.base_url)
    page.get_by_role("heading", name="A token is required").wait_for()
    assert "hidden-one" not in page.content()
    page.get_by_label("Admin token").fill("a-wrong-token-that-is-long")
    page.keyboard.press("Enter")
    page.get_by_text("This is not the admin token").wait_for()
    page.get_by_label("Admin token").fill(ADMIN)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="hidden-one").wait_for()
    kept = page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie, location.href])")
    assert ADMIN not in kept + page.content()
    page.reload()  # which forgets the token
    page.get_by_role("heading", name="A token is required").wait_for()


@pytest.mark.slow
def test_a_link_works_once_and_shows_without_letting_touch(run_server, tmp_path, open_page):
    caller = Caller(run_server(str(tmp_path / "kfed.db"), open_to_loopback=False))
    caller.create("hidden-one")
    link = f"{caller.http.base_url}/#/link={caller.invite()}"
    page = open_page(link)
    page.get_by_role("heading", name="hidden-one").wait_for()
    assert "link=" not in page.url
    token = page.evaluate("sessionStorage.getItem('kfed-token')")
    page.reload()
    page.get_by_role("heading", name="hidden-one").wait_for()
    other = open_page(link)
    other.get_by_text("this link was used before or has expired").wait_for()
    assert "hidden-one" not in other.content()
    own = {"Authorization": f"Bearer {token}"}
    assert caller.http.get("/v1/federations", headers=own).status_code == 200
    assert caller.http.post("/v1/federations/hidden-one/close", headers=own).status_code == 403


@pytest.mark.slow
@pytest.mark.parametrize("hash_", ["#%E0%A4%A", "#/%", "#/nobody"])
def test_an_address_that_names_nothing_shows_the_first_federation_and_asks_once(socket_caller, open_page, hash_):
    socket_caller.create("alpha")
    page = open_page(f"{socket_caller.http.base_url}/{hash_}")
    page.get_by_role("heading", name="alpha").wait_for()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(1200)
    assert not [url for url in asked if url.endswith("/v1/events")]


def test_a_name_that_is_markup_is_text(of_three, open_page):
    page = open_page(of_three.http.base_url)
    page.get_by_role("cell", name=MARKUP).wait_for()
    assert page.locator("td img").count() == 0


def test_the_api_is_described_for_people(of_three, open_page):
    page = open_page(of_three.http.base_url.join("/docs"))
    page.get_by_role("heading", name="PUT /v1/federations/{name}/devices/{device_id}/message").wait_for()
    create = page.locator("section").filter(has=page.get_by_role("heading", name="POST /v1/federations", exact=True))
    said = create.inner_text()
    for part in ("Idempotency-Key", "n_clusters", "at most 1,000,000", "curl -X POST", "-d '{", "409", "422", "429"):
        assert part in said
    document = of_three.http.get("/openapi.json").json()
    n_calls = sum(map(len, document["paths"].values()))
    assert page.locator("#api section").count() == page.locator("#index li").count() == n_calls


@pytest.mark.slow
def test_after_aggregating_nobody_is_called_missing_and_the_page_says_what_answered(socket_caller, open_page):
    rng = np.random.default_rng(0)
    rows = [np.concatenate([mean + rng.normal(size=(40, 2)) for mean in MEANS]) for _ in range(4)]
    socket_caller.create(quorum=5, n_clusters=None)
    for number, one in enumerate(kfed.cluster_fleet(rows, random_state=0)):
        socket_caller.put(one.to_message(f"site-{number}"))
    page = open_page(socket_caller.http.base_url)
    page.get_by_text("quorum 5: 1 missing").wait_for()
    of_summaries = page.locator("#curve-note").get_by_text("Of summaries they show no number of clusters")
    of_summaries.wait_for()  # before and after
    assert socket_caller.aggregate().status_code == 200
    page.get_by_text("all of them aggregated").wait_for()
    page.get_by_text("from 4 devices (pooled rule)").wait_for()
    page.get_by_text("rule: default (used: pooled)").wait_for()
    of_summaries.wait_for()
    reason = socket_caller.show()["reason"]
    page.locator("#compare p.good").get_by_text(f"{reason}.", exact=True).wait_for()
    of_row = "row => [...row.children].map((cell) => getComputedStyle(cell).backgroundColor)"
    assert (
        len(set(page.locator("#compare tr.chosen").evaluate(of_row))) == 1
    )  # its first cell, which stays in place, too
    asked = {"first": 2, "last": 3}
    socket_caller.http.post("/v1/federations/clinics/comparison", json=asked, headers=socket_caller.admin)
    page.reload()
    page.locator("#compare").get_by_text("4 clusters are in use").wait_for()
    page.locator("#compare").get_by_text("not compared here").wait_for()
