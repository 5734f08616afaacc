"""Take the pictures of a coordinator's pages, in a real browser: `python docs/images/pages.py` (needs chromium).

Everything in them is made up: hospitals of the kind that `examples/hospitals/make_data.py` writes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from playwright.sync_api import Browser, Locator, Page, sync_playwright

import kfed
from kfed.coordinator.client import DeviceClient, Line

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[1] / "examples" / "hospitals"))

from make_data import GROUPS, patient  # noqa: E402

KFED = str(Path(sys.executable).with_name("kfed"))
ADMIN = "an-administrator-of-no-real-coordinator"
COLUMNS = "age,bmi,systolic,glucose,ward,smoker,admitted"
SITES = ["aachen", "bonn", "celle", "dijon", "essen", "fulda", "gent", "hof"]
SITES += ["ivrea", "jena", "kiel", "lund", "metz", "nancy", "oslo", "pisa"]
WARD = "St. Mary's Hospital, Department of Internal Medicine, Ward 3 (north wing)"


def main() -> None:
    """Take all pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with served(Path(folder)) as coordinator:
            take_hospitals(browser, coordinator)
            page = take_invitation(browser, coordinator)
            take_many(browser, coordinator)
            take_joining(browser, coordinator)
        page.get_by_text("The coordinator has not answered since").wait_for()
        take(page, "administrator-away")
        browser.close()


@dataclass(frozen=True)
class Coordinator:
    """A coordinator that runs, and the folder of all that its sites have."""

    url: str
    folder: Path

    def federation(self, *command: object) -> None:
        """Run `kfed federation`."""
        self.run("federation", *command, "--url", self.url)

    def join(self, site: str, federation: str, rows: pd.DataFrame, *options: object) -> None:
        """Send the centers of a table, and do not wait."""
        rows.to_csv(self.folder / f"{site}.csv", index=False)
        token = f"{federation}.token"
        own = ("--federation", federation, "--token-file", token, "--data", f"{site}.csv", "--no-wait")
        self.run("join", self.url, *own, *options)

    def run(self, *command: object) -> None:
        """Run a command of kfed as an administrator."""
        words = [KFED, *map(str, command)]
        subprocess.run(words, cwd=self.folder, env=_environment(), check=True, stdout=subprocess.DEVNULL)


@contextmanager
def served(folder: Path) -> Iterator[Coordinator]:
    """A coordinator that runs meanwhile."""
    command = [KFED, "serve", "--port", "0", "--open-on-loopback", "--json"]
    process = subprocess.Popen(command, env=_environment(), stdout=subprocess.PIPE, text=True, cwd=folder)
    try:
        assert process.stdout is not None
        said = "".join(iter(process.stdout.readline, "}\n"))
        yield Coordinator(json.loads(f"{said}}}")["url"], folder)
    finally:
        process.terminate()
        process.wait()


def take_hospitals(browser: Browser, coordinator: Coordinator) -> None:
    """Sixteen hospitals in four clusters: two came late, and one has another unit."""
    rng = np.random.default_rng(5)
    coordinator.federation("create", "hospitals", "--columns", COLUMNS, "-k", 4, "--quorum", 14)
    coordinator.federation("create", "phones", "--features", "a,b", "--quorum", 100)
    for number, site in enumerate(SITES):
        rows = patients(rng, 2 + number % 2)
        if site == "hof":
            rows["glucose"] = (rows["glucose"] / 18.02).round(2)  # in mmol/L; all others have mg/dL
        coordinator.join(site, "hospitals", rows, "--id-column", "patient")
    for colors in ("light", "dark"):
        page = opened(browser, f"{coordinator.url}/#/hospitals", (1000, 823), colors, scale=1.56)
        page.locator("#map .dot").first.wait_for()
        take(page, f"coordinator-{colors}")
    page = signed_in(browser, f"{coordinator.url}/#/hospitals", (1000, 760))
    page.get_by_text("How to read this").wait_for()
    take(page, "administrator-k", page.locator("section", has=page.locator("#compare")), stay=True)
    coordinator.federation("rename", "hospitals", *names(page))
    page.get_by_role("columnheader", name="frail").first.wait_for()
    take(page, "administrator", stay=True)
    page.emulate_media(color_scheme="dark")
    take(page, "administrator-clusters", page.locator("#result-card"))


def names(page: Page) -> Iterator[str]:
    """A name for each cluster: that of the group whose age and blood pressure are nearest."""
    with page.expect_download() as download:
        page.get_by_role("button", name="Download aggregation").click()
    found = kfed.Aggregation.load(download.value.path())
    profile = found.profile()
    at = [profile.names.index(column) for column in ("age", "systolic")]
    groups = {name: np.array(means)[[0, 2]] for name, (means, *_) in GROUPS.items()}
    for cluster, means in enumerate(profile.means[:, at]):
        yield f"{cluster}={min(groups, key=lambda name: float(np.linalg.norm(groups[name] - means)))}"


def take_invitation(browser: Browser, coordinator: Coordinator) -> Page:
    """An invitation; then another one, on a page that stays open."""
    coordinator.federation("create", "clinics", "--columns", "age,bmi,systolic", "--quorum", 4)
    address = f"{coordinator.url}/#/clinics"
    invite(page := signed_in(browser, address, (1180, 900)), WARD)
    take(page, "administrator-invite")
    invite(page := signed_in(browser, address, (1180, 520), "dark"), "harbour")
    return page


def invite(page: Page, site: str) -> None:
    """Invite a site from the page of a federation."""
    page.get_by_label("Invite a site by its name").fill(site)
    page.get_by_role("button", name="Invite", exact=True).click()
    page.get_by_role("heading", name="The invitation of").wait_for()


def take_many(browser: Browser, coordinator: Coordinator) -> None:
    """Two hundred sites in twelve clusters, of which one is on another scale."""
    rng = np.random.default_rng(3)
    means = np.array([(20 + 20 * (place % 4), 95 + 30 * (place // 4)) for place in range(12)], float)
    terms = ("--features", "age,systolic", "-k", 12, "--quorum", 200, "--min-devices", 2)
    coordinator.federation("create", "wards", *terms)
    token = (coordinator.folder / "wards.token").read_text().strip()
    with Line(coordinator.url) as line:
        for site in range(200):
            own = rng.choice(12, 1 if site == 70 else 2, replace=False)
            centers = (means[own] + rng.normal(size=(len(own), 2))) * (30 if site == 70 else 1)
            counts, squares = rng.integers(20, 40, len(own)), np.full(len(own), 900.0)
            message = kfed.DeviceMessage(f"ward-{site:03d}", centers, counts, squares, 9.0)
            DeviceClient(line, "wards", message.device_id, "a-secret-of-no-real-device").send(message, token)
    page = signed_in(browser, f"{coordinator.url}/#/wards", (1180, 1330))
    page.get_by_text("aggregated", exact=True).first.wait_for()
    page.locator("#map .dot").first.wait_for()
    take(page, "administrator-many")


def take_joining(browser: Browser, coordinator: Coordinator) -> None:
    """A site joins from its browser, after two others; before that it tries a table that lacks a column."""
    rng, columns = np.random.default_rng(8), "age,bmi,systolic,ward,smoker,admitted"
    terms = ("--columns", columns, "-k", 4, "--quorum", 3, "--min-devices-shown", 1)
    coordinator.federation("create", "regions", *terms)
    for site in ("south", "west"):
        coordinator.join(site, "regions", patients(rng, 4), "--id-column", "patient")
    coordinator.federation("invite", "regions", "north")
    token = (coordinator.folder / "regions-north.token").read_text().strip()
    page = opened(browser, f"{coordinator.url}/join#federation=regions&device=north&token={token}", (1180, 700))
    rows, path = patients(rng, 4), coordinator.folder / "north.csv"
    for table, step, name in (
        (rows.drop(columns="bmi"), "#problem:not(:empty)", "browser-problem"),
        (rows, "text=What is in it", "browser-columns"),
    ):
        table.to_csv(path, index=False)
        page.set_input_files("#file", path)
        page.locator(step).first.wait_for()
        take(page, name, stay=True)
    page.get_by_label("Whose is a row?").select_option("patient")
    page.get_by_label("Groups to look for").fill("4")
    for button, step, name in (
        ("Group the rows", "This would leave, and nothing else", "browser-leaves"),
        ("Send", "The clusters", "browser-answer"),
    ):
        page.get_by_role("button", name=button).click()
        page.get_by_role("heading", name=step, exact=True).wait_for()
        take(page, name, stay=True, whole=True)
    page.close()


def patients(rng: np.random.Generator, n_groups: int) -> pd.DataFrame:
    """The table of a hospital: 60 patients of each of its groups; a few cells are missing."""
    groups = rng.choice(list(GROUPS), n_groups, replace=False)
    rows = pd.DataFrame([patient(rng, group) for group in rng.permutation(np.repeat(groups, 60))])
    rows = rows.mask(rng.random(rows.shape) < 0.05)
    rows.insert(0, "patient", [f"P{row:04d}" for row in range(len(rows))])
    return rows


def signed_in(browser: Browser, url: str, size: tuple[int, int], colors: str = "light") -> Page:
    """A page that an administrator has signed in to."""
    page = opened(browser, url, size, colors)
    page.get_by_role("button", name="Sign in").first.click()
    page.get_by_label("Admin token").fill(ADMIN)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Sign out").wait_for()
    return page


def opened(browser: Browser, url: str, size: tuple[int, int], colors: str = "light", scale: float = 1.0) -> Page:
    """A page in a window of this size."""
    width, height = size
    window = {"width": width, "height": height}
    page = browser.new_page(viewport=window, color_scheme=colors, device_scale_factor=scale)
    page.set_default_timeout(60_000)
    page.goto(url)
    return page


def take(page: Page, name: str, part: Locator | None = None, *, stay: bool = False, whole: bool = False) -> None:
    """Write a picture of a page, or of a part of it."""
    path = HERE / f"{name}.png"
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_timeout(500)  # until what moves has come to rest
    if part is None:
        page.screenshot(path=path, full_page=whole)
    else:
        part.screenshot(path=path)
    if not stay:
        page.close()


def _environment() -> dict[str, str]:
    return {**os.environ, "KFED_ADMIN_TOKEN": ADMIN}


if __name__ == "__main__":
    main()
