"""Clustering that ends before it converged says so: once, wherever it was started."""

import pickle
import sys
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import kfed
from kfed.cli import main
from kfed.device import cluster_columns
from kfed.site import cluster_file

NOISE = np.random.default_rng(0).normal(size=(300, 4))
CALM = np.repeat([[0.0] * 4, [9.0] * 4], 150, axis=0) + NOISE / 100


def told(fit):
    """The warnings of what is called."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [own.message for own in caught]


def test_a_device_that_is_cut_short_warns_where_it_was_called():
    with pytest.warns(kfed.KFedWarning, match=r"this device stopped at max_iterations=1 before converging") as caught:
        kfed.cluster_device(NOISE, 16, random_state=0, max_iterations=1)
    assert [own.message.code for own in caught] == ["not converged"]
    assert isinstance(caught[0].message, ConvergenceWarning)
    assert caught[0].filename == __file__


def test_a_fleet_warns_once_with_the_number_of_devices():
    with pytest.warns(kfed.KFedWarning, match=r"2 of 3 devices stopped at max_iterations=2") as caught:
        kfed.cluster_fleet([NOISE, CALM, NOISE[::-1]], 2, random_state=0, max_iterations=2)
    assert len(caught) == 1
    assert isinstance(caught[0].message, ConvergenceWarning)
    assert caught[0].filename == __file__


def test_the_warning_survives_a_process_boundary():
    (warning,) = told(lambda: kfed.cluster_device(NOISE, 16, random_state=0, max_iterations=1))
    again = pickle.loads(pickle.dumps(warning))
    assert (type(again), str(again), again.code) == (type(warning), str(warning), "not converged")


@pytest.mark.parametrize(
    "fit",
    [
        lambda: kfed.cluster_device(NOISE, 4, random_state=0),
        lambda: kfed.cluster_fleet([NOISE, CALM], 4, random_state=0),
        lambda: kfed.cluster_device(NOISE, random_state=0, max_iterations=1),
        lambda: kfed.cluster_fleet([NOISE, CALM], random_state=0, max_iterations=1),
    ],
    ids=["a device", "a fleet", "a summary", "summaries"],
)
def test_what_converges_and_summaries_say_nothing(fit):
    assert told(fit) == []


@pytest.mark.parametrize(
    "fit",
    [
        lambda: kfed.LocalKMeans(8, max_iter=2, random_state=0).fit(NOISE),
        lambda: kfed.KFed(4, 4, max_iter=2, random_state=0).fit(NOISE, groups=np.arange(300) % 3),
    ],
    ids=["LocalKMeans", "KFed"],
)
def test_estimators_say_it_in_the_words_of_scikit_learn_alone(fit):
    about = [own for own in told(fit) if "before converging" in str(own)]
    assert [type(own) for own in about] == [ConvergenceWarning]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table whose clustering is cut short."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kfed.site.clustered.cluster_columns", partial(cluster_columns, max_iterations=1))
    np.savetxt(tmp_path / "site.csv", NOISE, delimiter=",", header="a,b,c,d", comments="")
    return tmp_path / "site.csv"


def test_a_table_that_is_cut_short_has_a_notice(table):
    with pytest.warns(kfed.KFedWarning, match="before converging"):
        notices = cluster_file(table, 8, "north").notices
    assert [own.code for own in notices] == ["not converged"]
    assert "stopped after 1 step, while some rows still changed their cluster" in notices[0].text
    assert cluster_file(table, None, "north").notices == ()


def test_the_command_line_tells_the_notice_and_not_the_warning(table, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["kfed", "device", str(table), "-k", "8"])
    with warnings.catch_warnings(), pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    said = " ".join("".join(capsys.readouterr()).split())
    assert said.count("clustering stopped after 1 step") == 1
    assert "max_iterations" not in said


def test_a_device_that_only_rounding_keeps_moving_has_converged():
    points = np.array(
        [[5.1096597, 5.728551], [999.7829, 999.52637], [5.0917826, 5.825089], [5.0956135, 5.968078]], np.float32
    )
    local = kfed.cluster_device(points, 3, random_state=684, min_cluster_size=1)
    assert local.n_iterations == 300, "two clusters exchange a point without end, as float32 does not tell them apart"
    assert local.converged
