"""Hypothesis profiles: `dev` looks for new examples, `ci` tries the same and more of them every time.

``HYPOTHESIS_PROFILE`` chooses one; by default it is `ci` where ``CI`` is set, and `dev` elsewhere.
"""

import os
import shutil
import sys
from functools import cache

import pytest
import typer.testing
from _pytest.doctest import DoctestModule
from hypothesis import settings

import kfed
from few_numbers import compare_few
from kfed._base import figures

settings.register_profile("dev", max_examples=10, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


typer.testing._get_command = cache(typer.testing._get_command)  # to make all commands anew takes most of a short run

FULL_DPI, figures.DPI = figures.DPI, 40  # to draw and pack four times as many pixels each way shows nothing more


@pytest.fixture
def full_dpi(monkeypatch):
    """Draw pictures at the size that users get."""
    monkeypatch.setattr(figures, "DPI", FULL_DPI)


@pytest.fixture
def few_compared(monkeypatch):
    """Where nobody says how many clusters there are, compare few numbers, by few resamplings."""
    compare_few(monkeypatch)


@pytest.fixture(scope="module")
def few_compared_in_module():
    """What `few_compared` does, for all tests of a module."""
    with pytest.MonkeyPatch.context() as patched:
        compare_few(patched)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for no examples in docstrings of tests: there are none, and to look takes each worker seconds."""
    return [found for found in (yield) if not isinstance(found, DoctestModule)]


@pytest.fixture
def write(tmp_path):
    """Write a file of text; gives its path."""

    def write(text, name="site.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder of data sets, and a cache, both empty."""
    monkeypatch.setenv("KFED_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "data"


@pytest.fixture(scope="session")
def world():
    """Four clusters on six devices, for modules that need no world of their own."""
    from worlds import mixture_world

    return mixture_world(4, 5)


@pytest.fixture(scope="session")
def result(world):
    """The clusters of `world`."""
    return kfed.aggregate(world.messages(), 4)


@pytest.fixture(scope="module")
def browser():
    """Chromium; for one module, since no test can call `asyncio.run` while Playwright's loop runs in this process."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("chromium is not installed (Debian package chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        launched = running.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def dask_client():
    """A Dask cluster of two workers in this process."""
    yield from _dask_cluster(processes=False)


@pytest.fixture(scope="module")
def dask_processes():
    """A Dask cluster of two processes."""
    yield from _dask_cluster(processes=True)


def _dask_cluster(processes):
    distributed = pytest.importorskip("distributed")
    how = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(processes=processes, **how) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(params=[True, False], ids=["by pyarrow", "by line"])
def reading(request, monkeypatch):
    """Both ways to read CSV."""
    if not request.param:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
