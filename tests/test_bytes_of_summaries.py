"""A device says how many bytes its summary may take, and its message takes no more."""

import numpy as np
import pandas as pd
import pytest

import kfed
from consoles import invoked as run
from kfed.device import cluster_columns, with_moments
from kfed.simulate import Round
from kfed.site import cluster_file
from kfed.wire import Column, FeatureSchema

ROWS = np.random.default_rng(0).normal(size=(400, 30))


@pytest.mark.parametrize("max_bytes", [900, 2_000, 6_000, 50_000])
@pytest.mark.parametrize("width", [2, 30])
def test_the_message_of_an_array_takes_no_more(max_bytes, width):
    local = kfed.cluster_device(ROWS[:, :width], random_state=0, max_bytes=max_bytes)
    message = local.to_message("a site of a long name, which is part of the message")
    assert len(message.to_bytes()) <= max_bytes
    assert message.n_points == 400
    again = kfed.LocalClustering.from_bytes(local.to_bytes())
    assert again.to_message(message.device_id) == message


def test_more_bytes_are_more_centers_or_finer_ones():
    sent = [kfed.cluster_device(ROWS, random_state=0, max_bytes=n).to_message("a") for n in (900, 2_000, 6_000)]
    assert sorted({one.n_local_clusters for one in sent}) == [one.n_local_clusters for one in sent]
    free, roomy = (kfed.cluster_device(ROWS, random_state=0, max_bytes=n).to_message("a") for n in (None, 50_000))
    np.testing.assert_allclose(roomy.centers, free.centers, atol=0.01)  # without a bound, 16 bits keep it below 20 kB


@pytest.mark.parametrize("bits", [None, 16, 8, 4])
@pytest.mark.parametrize("max_bytes", [2_500, pytest.param(4_000, marks=pytest.mark.slow), 10_000])
def test_the_message_of_a_table_takes_no_more_whatever_the_bits(bits, max_bytes):
    frame = pd.DataFrame(ROWS[:, :5] * 10 + 50, columns=list("abcde"))
    frame["ward"] = np.where(ROWS[:, 5] > 0, "north", "south")
    frame.loc[::7, "a"] = np.nan
    message = cluster_file(frame, None, "site", bits=bits, max_bytes=max_bytes).to_message()
    assert len(message.to_bytes()) <= max_bytes
    assert message.n_local_clusters > 1
    if bits is not None:
        assert message.details.bits == bits


@pytest.mark.parametrize("bits", [16, 8, 4])
def test_numbers_as_they_are_take_no_more_whatever_the_bits(bits, tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    message = cluster_file(tmp_path / "rows.npy", None, "site", bits=bits, max_bytes=1_500).to_message()
    assert len(message.to_bytes()) <= 1_500
    assert message.details.bits == bits


def test_a_fleet_a_round_and_the_estimator_keep_to_it_too():
    parts = {"a": ROWS[:200], "b": ROWS[200:]}
    alone = kfed.cluster_device(ROWS[:200], random_state=0, device_id="a", max_bytes=1_200)
    fleet = kfed.cluster_fleet(parts, random_state=0, max_bytes=1_200)
    np.testing.assert_array_equal(fleet[0].centers, alone.centers)
    done = Round.run(parts, 3, random_state=0, max_bytes=1_200)
    model = kfed.KFed(3, max_bytes=1_200, random_state=0).fit(list(parts.values()))
    for result in (done.aggregation, model.aggregation_):
        assert all(len(result.messages.message(z).to_bytes()) <= 1_200 for z in result.messages.device_ids)


def test_cluster_columns_keeps_to_it():
    schema = FeatureSchema.of_columns(map(Column, "abc"))
    local = cluster_columns(ROWS[:, :3], schema, random_state=0, max_bytes=2_000)
    assert len(local.to_message("a").to_bytes()) <= 2_000


def test_what_cannot_be_so_small_is_refused_with_its_size():
    with pytest.raises(kfed.InvalidInputError, match=r"the message takes \d+ bytes; max_bytes is 100: allow more"):
        kfed.cluster_device(ROWS, random_state=0, max_bytes=100)
    for how in ({"n_local_clusters": 3}, {"privacy": kfed.Privacy(epsilon=1.0, delta=1e-5, radius=9.0)}):
        with pytest.raises(kfed.InvalidInputError, match="max_bytes bounds a summary"):
            kfed.cluster_device(ROWS, random_state=0, max_bytes=5_000, **how)


def test_the_scatter_counts_and_a_refusal_says_what_it_costs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(ROWS).add_prefix("c").to_csv("site.csv", index=False)
    refused = run("device", "site.csv", "--as-is", "--moments", "--max-bytes", "5000")
    assert refused.exit_code == 1
    assert "7,200 of them for the scatter that moments ask for" in " ".join(refused.stderr.split())
    assert run("device", "site.csv", "--as-is", "--moments", "--max-bytes", "12000").exit_code == 0
    message = kfed.DeviceMessage.load("site.kfed")
    assert len(message.to_bytes()) <= 12_000
    assert message.details.scatter.shape == (30, 30)


def test_the_command_says_what_the_scatter_costs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(ROWS).add_prefix("c").to_csv("site.csv", index=False)
    said = run("device", "site.csv", "--as-is", "--moments")
    assert "7,200 of them for the scatter (--moments)" in " ".join(said.stdout.split())
    assert "scatter" not in run("device", "site.csv", "--as-is", "--force", "--max-bytes", "3000").stdout
    assert (tmp_path / "site.kfed").stat().st_size <= 3_000
    assert "--max-bytes" in run("join", "--help").stdout


def test_moments_of_an_array_are_within_or_refused():
    local = kfed.cluster_device(ROWS, random_state=0, max_bytes=3_000)
    with pytest.raises(kfed.InvalidInputError, match="for the scatter"):
        with_moments(local, ROWS).to_message("a")
