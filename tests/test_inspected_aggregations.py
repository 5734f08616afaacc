"""`kfed inspect` of an aggregation names all that it holds of what devices sent."""

import json
from importlib.resources import files

import numpy as np
import pytest

import kfed
from consoles import run
from kfed.site import cluster_file

pd = pytest.importorskip("pandas")


def inspected(tmp_path, messages):
    kfed.aggregate(messages, 2).save(tmp_path / "clusters.kfed")
    return " ".join(run("inspect", tmp_path / "clusters.kfed").split())


def table(seed, n_rows=60):
    rng = np.random.default_rng(seed)
    ages = rng.normal(50, 9, n_rows)
    return pd.DataFrame({"age": ages, "ward": np.where(ages > 50, "A", "B")})


def test_spreads_filled_cells_levels_and_rows_that_were_left_out_are_named(tmp_path):
    sent = [cluster_file(table(seed), 3, f"site {seed}", moments=seed == 0).to_message() for seed in range(3)]
    text = inspected(tmp_path, sent)
    assert "of each of these centers and each column, how many cells were filled, and how far they spread" in text
    assert "the levels of categories that devices named: ward (A, B)" in text
    assert "of devices that sent it (--moments), how all rows together spread" in text
    assert "how far its rows are from it: a sum of squares" in text


def test_the_deviation_is_called_an_upper_estimate_everywhere(tmp_path):
    words = "one number, the largest singular value or up to 4 % above it"
    points = np.random.default_rng(0).normal(size=(80, 40))
    sent = [kfed.cluster_device(points, 2, random_state=0).to_message(name) for name in "ab"]
    assert words in inspected(tmp_path, sent)
    sent[0].save(tmp_path / "a.kfed")
    assert words in " ".join(run("inspect", tmp_path / "a.kfed").split())
    in_browsers = files("kfed.coordinator") / "browser" / "words.js"
    assert words in in_browsers.read_text(encoding="utf-8")


def test_what_no_device_sent_is_not_named(tmp_path):
    sent = [kfed.DeviceMessage(name, [[0.0], [9.0]], [20, 20]) for name in "ab"]
    text = inspected(tmp_path, sent)
    assert "4 centers of 1 number (float64) with their counts" in text
    for word in ("sum of squares", "filled", "levels", "--moments", "singular", "privacy"):
        assert word not in text


def test_the_promise_of_private_devices_is_named(tmp_path):
    rng = np.random.default_rng(0)
    points = np.repeat([[-1.0, 0.0], [1.0, 0.0]], 2000, axis=0) + rng.normal(scale=0.1, size=(4000, 2))
    privacy = kfed.Privacy(epsilon=2.0, delta=1e-6, radius=2.0)
    sent = [kfed.cluster_device(points, 2, privacy=privacy).to_message(name) for name in "ab"]
    assert "the promise of privacy of 2 devices, with epsilon up to 2" in inspected(tmp_path, sent)


def test_an_answer_and_a_model_name_columns_levels_and_the_scale_of_all_rows(tmp_path):
    sent = [cluster_file(table(seed), None, f"site {seed}").to_message() for seed in range(3)]
    result = kfed.aggregate(sent, 2)
    result.identity("site 0").save(tmp_path / "site.identity")
    kfed.ClusterModel.of(result).save(tmp_path / "model.kfed")
    for name in ("site.identity", "model.kfed"):
        text = " ".join(run("inspect", tmp_path / name).split())
        assert "what the columns are: age, ward (category: A, B)" in text
        assert "the mean and the spread of each column over the rows of all devices" in text
        facts = json.loads(run("inspect", tmp_path / name, "--json"))
        assert facts["feature_names"] == ["age", "ward=A", "ward=B"]
        assert facts["scale"]["shift"][0] == pytest.approx(50, abs=5)
        assert facts["schema"]["columns"][1]["levels"] == ["A", "B"]


def test_an_answer_of_plain_numbers_has_no_scale_to_name(tmp_path):
    points = np.random.default_rng(0).normal(size=(80, 4))
    result = kfed.aggregate([kfed.cluster_device(points, 2, random_state=0).to_message("a")], 2)
    result.identity("a").save(tmp_path / "a.identity")
    assert "spread of each column" not in run("inspect", tmp_path / "a.identity")
    assert json.loads(run("inspect", tmp_path / "a.identity", "--json"))["scale"] is None
