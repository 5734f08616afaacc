"""The example's walk-through runs word for word, as a simulation."""

import re
import shlex
import shutil
import subprocess

import pytest

import kfed

pytest.importorskip("flwr", reason="needs kfed[flower], in an environment of its own: make flower")
pytest.importorskip("ray", reason="needs flwr[simulation]")
from deployment import ROOT, end_left_behind, environment

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path):
    made = tmp_path / "home"
    made.mkdir()
    yield made
    end_left_behind(made)


def test_the_simulation_of_the_readme_finds_the_four_groups(home, tmp_path):
    app = tmp_path / "flower-kfed"
    shutil.copytree(ROOT / "examples" / "flower-kfed", app)
    block = re.search(r"```console\n(.*?)```", (app / "README.md").read_text(encoding="utf-8"), re.DOTALL).group(1)
    command = shlex.split(block.strip().splitlines()[-1].removeprefix("$ "))
    assert command[:2] == ["flwr", "run"]
    where = ["--run-config", f'output="{tmp_path / "clusters.kfed"}"']
    done = subprocess.run(
        [*command, *where], cwd=app, env=environment(home), capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "clusters of [60, 60, 60, 60] rows; late: 0" in done.stdout + done.stderr
    assert kfed.Aggregation.load(tmp_path / "clusters.kfed").n_devices == 4
