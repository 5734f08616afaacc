"""Verdicts of experiments beyond the paper go by the yardstick: a difference within the noise of the runs is none."""

import pytest

from kfed.experiments import Result, robustness, rules_on_mnist


def robust_results(**rows):
    """Two runs of each trouble; a row gives the paper's rule, the robust one and refined labels, run by run."""
    usual = {"clean": [(1, 1, 1)] * 2, "5 outliers": [(0.5, 0.9, 1)] * 2, "20 outliers": [(0.1, 0.6, 0.9)] * 2}
    return [
        Result({"trouble": trouble, "least": 1, "run": run}, dict(zip(robustness.WAYS, own, strict=True)), 1.0)
        for trouble, runs in (usual | rows).items()
        for run, own in enumerate(runs)
    ]


@pytest.mark.parametrize(
    ("rows", "failed"),
    [
        ({}, []),
        ({"5 outliers": [(0.5, 0.51, 1), (0.5, 0.51, 1)]}, [0]),
        ({"20 outliers": [(0.1, 0.1, 0.9), (0.1, 0.6, 0.9)]}, [0, 2]),  # ahead by 0.25, within the noise
        ({"5 outliers": [(0.5, 0.9, 0.9)] * 2}, [1]),
        ({"clean": [(1, 1, 1.0), (1, 1, 0.97)]}, [1]),
        ({"clean": [(1, 0.95, 1)] * 2}, [2]),
        ({"clean": [(1, 0.99, 1), (1, 0.95, 1)]}, [2]),
    ],
)
def test_the_claims_of_robustness_hold_or_fail_beyond_the_noise(rows, failed):
    found = robustness.summarize(robust_results(**rows)).findings
    assert [i for i, finding in enumerate(found) if finding.verdict != "reproduced"] == failed


def test_robustness_says_what_is_tested_and_what_20_outliers_leave():
    helps, refines, harmless = robustness.summarize(robust_results()).findings
    assert helps.claim == "the robust rule is ahead of the paper's where centers of several outliers are sent"
    assert helps.ours == "mean ARI 0.900 against 0.500 (5 outliers), 0.600 against 0.100 (20 outliers)"
    assert "every row but 20 outliers (0.900)" in refines.ours
    worse = robustness.summarize(robust_results(clean=[(1, 0.99, 1), (1, 0.95, 1)])).findings[2]
    assert "noise of the runs: clean, clusters of 1 or more sent" in worse.reason
    assert "noise" not in harmless.reason


def mnist_results(leads, savings):
    """The robust rule's lead in agreement, by k, and the share of the cost that it saves, both run by run."""
    return [
        Result(
            {"split": "two digits", "k": k, "n_devices": 4, "run": run},
            {f"{way}: ARI": 0.5 for way in rules_on_mnist.WAYS}
            | {f"{way}: cost": 40.0 for way in rules_on_mnist.WAYS}
            | {"robust: ARI": 0.5 + lead, "robust: cost": 40 * (1 - savings[run])},
            1.0,
        )
        for k, own in leads.items()
        for run, lead in enumerate(own)
    ]


@pytest.mark.parametrize(
    ("leads", "savings", "expected"),
    [
        ({10: [0.1, 0.1], 25: [-0.1, -0.08]}, [0.01, 0.011], ["reproduced", "reproduced"]),
        ({10: [0.1, 0.1], 25: [0.09, 0.09]}, [0.01, 0.011], ["not reproduced", "reproduced"]),
        ({10: [0.1, 0.1], 25: [0.1, -0.1]}, [-0.01, 0.02], ["not reproduced", "not reproduced"]),
    ],
)
def test_the_rules_on_mnist_are_compared_beyond_the_noise(leads, savings, expected):
    found = rules_on_mnist.summarize(mnist_results(leads, savings)).findings
    assert [finding.verdict for finding in found] == expected
    assert all(f"{sum(own) / 2:+.3f} at k = {k}" in found[0].ours for k, own in leads.items())
