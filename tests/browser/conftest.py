"""Node, Chromium and a coordinator for the tests of what runs in a browser."""

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kfed

sys.path.insert(0, str(Path(__file__).parents[1] / "coordinator"))  # for `coordinators`

SOURCES = Path(kfed.__file__).parent / "coordinator" / "browser"


@pytest.fixture(scope="session")
def node():
    """The program Node, version 20 or newer."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed (Debian package nodejs)")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version[1:].split(".")[0]) < 20:
        pytest.skip(f"node must be version 20 or newer; got {version.strip()}")
    return found


@pytest.fixture(scope="session")
def in_node(node):
    """Run jobs of `drive.mjs` in one process; gives their results, or the words of an error."""

    def run(jobs):
        for job in jobs:
            for name in ("table", "answer"):
                if isinstance(job.get(name), bytes):
                    job[name] = base64.b64encode(job[name]).decode()
        driver = Path(__file__).with_name("drive.mjs")
        done = subprocess.run(
            [node, driver, SOURCES], input=json.dumps(jobs), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="session")
def chromium():
    """A browser."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("chromium is not installed (Debian package chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        launched = running.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield launched
        launched.close()


@pytest.fixture
def caller(tmp_path):
    """Calls a coordinator on a socket of its own, as its administrator."""
    from coordinators import ADMIN, Caller, OnSocket

    from kfed.coordinator.http import ServiceSettings
    from kfed.coordinator.security import hashed

    running = OnSocket(ServiceSettings(str(tmp_path / "kfed.db"), hashed(ADMIN)))
    yield Caller(running.client)
    running.stop()
