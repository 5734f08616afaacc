"""The theorem on mixtures, for a mixture that is known."""

import numpy as np
import pytest

import kfed
import kfed.separation.problem
from kfed.separation import mixture_report, separation_report

# Known mixtures -------------------------------------------------------------------------------------------------

GROUPS = [range(first, first + 4) for first in range(0, 16, 4)]


@pytest.mark.parametrize(
    "widths",
    [np.ones(16), np.geomspace(0.1, 3.0, 16), np.array([3.0] + [0.1] * 15)],
    ids=["as wide everywhere", "up to 30 times as wide", "wide in one direction"],
)
def test_a_mixture_that_the_theorem_covers_gives_points_that_the_main_theorem_covers(widths):
    """Whatever is drawn: the condition on the mixture is sufficient for the corollary's on its points.

    And all points satisfy the proximity condition, as the theorem ends.
    """
    rng = np.random.default_rng(0)
    weights = rng.uniform(1, 3, 16)
    n_points = np.round(400 * weights / weights.min()).astype(int)
    directions = np.linalg.qr(rng.normal(size=(16, 16)))[0]
    # norm(A - C) is a little above sigma_max sqrt(n)
    about = {"weights": n_points, "size_imbalance": 2.05, "polylog": 1.05, "sigma_max": widths.max()}
    unit = mixture_report(directions, GROUPS, **about)
    means = directions / np.sqrt(2) * unit.required_separations[0, 1] * 1.0001
    report = mixture_report(means, GROUPS, **about)
    assert report.verdict == "guaranteed with high probability"
    assert report.is_heterogeneous
    labels = np.repeat(np.arange(16), n_points)
    devices = 2 * (labels // 4) + np.concatenate([np.arange(n) % 2 for n in n_points])
    noise = widths * rng.normal(size=(len(labels), 16))
    measured = separation_report(means[labels] + noise, labels, devices)
    assert (measured.corollary_attained[~np.eye(16, dtype=bool)] >= 1).all()
    assert measured.verdict == "guaranteed for every point"
    assert not measured.local_failures.any()
    assert not measured.fails_globally.any()


@pytest.mark.parametrize(
    ("options", "unmet"),
    [
        ({}, []),
        ({"sigma_max": 2.0}, ["components that share a device are far enough apart"]),
        ({"size_imbalance": 4.0}, ["components that share a device are far enough apart"]),
        ({"weights": [1] * 15 + [0.1]}, ["components that share a device are far enough apart"]),
        ({"held": [range(8), range(8, 16)]}, ["k' is at most sqrt(k)"]),
        ({"held": GROUPS[:3]}, ["every component is on a device"]),
        ({"required_ratio": 99.0}, ["c is at least 100"]),
    ],
)
def test_each_condition_of_the_theorem_on_mixtures_can_fail_alone(options, unmet):
    options = {"held": GROUPS, **options}
    report = mixture_report(6_400 * np.sqrt(0.5) * np.eye(16) * 1.0001, **options)
    assert [condition.name for condition in report.conditions if condition.is_met is not True] == unmet
    assert report.is_guaranteed is (None if "required_ratio" in options else not unmet)
    assert str(report).startswith(report.verdict)
    assert report.to_dict()["required_separations"][0][0] is None


def test_the_size_imbalance_is_at_least_the_number_of_devices_that_hold_a_component():
    means = 6_400 * np.sqrt(0.5) * np.eye(16) * 1.0001
    assert mixture_report(means, GROUPS).size_imbalance == 1
    report = mixture_report(means, GROUPS * 5)
    assert report.size_imbalance == 5
    assert report.verdict.startswith("not guaranteed: 24 of 120 pairs of clusters are nearer")


@pytest.mark.parametrize("far", [1.001, 0.999])
def test_what_is_guaranteed_of_a_mixture_is_guaranteed_of_its_points_on_small_devices_too(far):
    """With one component on each of very many devices it is the smallest device that decides."""
    m0, n_points = 100, 3000
    about = {"held": [[r] for r in range(16) for _ in range(m0)], "polylog": 1.05}
    means = np.eye(16) / np.sqrt(2) * mixture_report(np.eye(16), **about).required_separations[0, 1] * far
    report = mixture_report(means, **about)
    assert report.is_guaranteed is (far > 1)
    labels, devices = np.repeat(np.arange(16), n_points), np.repeat(np.arange(16 * m0), n_points // m0)
    points = means[labels] + np.random.default_rng(0).normal(size=(len(labels), 16))
    measured = separation_report(points, labels, devices)
    assert measured.size_imbalance == report.size_imbalance == m0
    assert measured.verdict == "guaranteed for every point"
    assert np.nanmin(measured.attained) < 1.1  # it asks for hardly more than is needed


def test_the_report_on_a_mixture_is_drawn_and_reads_well(tmp_path):
    report = mixture_report(100 * np.eye(16), GROUPS)
    report.plot(tmp_path / "pairs.png")
    assert "not guaranteed: 120 of 120 pairs of clusters are nearer" in report.verdict
    assert [row[:2] for row in report.pair_table().rows] == [("active", "24"), ("inactive", "96")]


@pytest.mark.parametrize(
    ("held", "options", "words"),
    [
        ([[0, 2]], {}, "held must name components from 0 to 1"),
        ([], {}, "held must name components .* got none"),
        ([[0, -1]], {}, "held must name components .* got -1"),
        ([[0.5, 1]], {}, "held must name components .* got something else than whole numbers"),
        ([[[0, 1]]], {}, "held must name components .* got something else than whole numbers"),
        ([[True]], {}, "held must name components .* got something else than whole numbers"),
        (["01"], {}, "held must name components .* got a str for a device"),
        ("01", {}, "held must name components .* got a str"),
        ([0, 1], {}, "held must name components .* got a int for a device"),
        (1, {}, "held must name components .* got a int"),
        ([[2**70]], {}, "held must name components"),
        ([[0, 1]], {"weights": [1, 0]}, "weights must be 2 positive numbers"),
        ([[0, 1]], {"sigma_max": -1}, "sigma_max must be"),
        ([[0, 1]], {"size_imbalance": 0.5}, "at least 1, as component 0 is on 1 device; got 0.5"),
        ([[0, 1], [1]], {"size_imbalance": 1.9}, "at least 2, as component 1 is on 2 devices; got 1.9"),
    ],
)
def test_a_mixture_that_is_none_is_an_error(held, options, words):
    with pytest.raises(kfed.InvalidInputError, match=words):
        mixture_report(np.eye(2), held, **options)
