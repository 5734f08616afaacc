"""The example's walk-through runs word for word, as a simulation."""

import pytest

import kfed

pytest.importorskip("flwr", reason="needs kfed[flower], in an environment of its own: make flower")
pytest.importorskip("ray", reason="needs flwr[simulation]")
from simulation import commands_of, simulate

pytestmark = pytest.mark.slow


def test_the_simulation_of_the_readme_finds_the_four_groups(home, tmp_path):
    said = simulate("flower-kfed", tmp_path, home)
    assert "clusters of [60, 60, 60, 60] rows; late: 0" in said


def test_a_second_simulation_serves_nodes_from_the_file_of_the_first(home, tmp_path):
    path = tmp_path / "clusters.kfed"
    assert "4 nodes in 4 clusters (rule: " in simulate("flower-kfed", tmp_path, home, output=str(path))
    before = path.read_bytes()
    assert kfed.Aggregation.from_bytes(before).messages.n_devices == 4
    said = simulate("flower-kfed", tmp_path, home, output=str(path))
    assert "late: 4" in said
    assert path.read_bytes() == before


@pytest.mark.parametrize("example", ["flower-kfed", "flower-training"])
def test_the_set_up_of_a_readme_is_that_of_these_tests(example):
    venv, install, path, folder, flwr = commands_of(example)
    assert venv == ["python3", "-m", "venv", ".venv-flower"]
    assert install[:3] == [".venv-flower/bin/pip", "install", "--constraint"]
    assert {"constraints-flower.txt", "--editable", "flwr[simulation]"} < set(install)
    assert path == ["export", "PATH=$PWD/.venv-flower/bin:$PATH"]
    assert (folder, flwr[:2]) == (["cd", f"examples/{example}"], ["flwr", "run"])
