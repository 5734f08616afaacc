"""One yardstick for every verdict: the claim's direction, beyond the noise of our runs, and half of its effect.

An effect is a number that is positive if a claim holds, one for each run: accuracy won, or a logarithm of costs saved.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kfed._base.report import VERDICTS, Verdict

ENOUGH = 0.5
"""Share of the paper's effect from which on a claim counts as reproduced."""

N_ERRORS = 2.0
"""The noise of a mean, in standard errors."""

WITHIN_NOISE = "on average it is, but not beyond the noise of the runs"
"""Why a bar that the mean keeps is not kept."""


def leads(
    effects: Sequence[float], paper: float | None = None, *, least: float = 0.0, same_setting: bool = False
) -> Verdict:
    """Judge a claim that has a direction.

    Parameters
    ----------
    effects : sequence of float
        One for each run, positive in the direction of the claim.
    paper : float, optional
        The effect that the paper gives.
    least : float
        An effect that is none, whatever the noise; all that there is to go by with one run.
    same_setting : bool
        Whether the setting is the paper's: otherwise its number cannot be exceeded.

    Examples
    --------
    >>> leads([1.4, 1.6, 1.5], paper=2.0), leads([0.4, 0.6, 0.5], paper=2.0), leads([2.4, 2.6], 2.0, same_setting=True)
    ('reproduced', 'direction only', 'exceeded')
    >>> leads([-0.5, 1.0, 0.2]), leads([0.1], least=0.2)
    ('not reproduced', 'not reproduced')
    """
    mean, beyond = float(np.mean(effects)), max(least, noise_of(effects))
    if not mean > beyond:
        return "not reproduced"
    if paper is None or paper <= 0:
        return "reproduced"
    if mean < ENOUGH * paper:
        return "direction only"
    return "exceeded" if same_setting and mean - beyond > paper else "reproduced"


def similar(effects: Sequence[float], margin: float) -> Verdict:
    """Judge a claim of "as good as": not worse by more than a margin, beyond the noise.

    Examples
    --------
    >>> similar([-0.1, 0.05, -0.2], margin=0.5), similar([-0.4, -0.5, -0.7], margin=0.5)
    ('reproduced', 'not reproduced')
    """
    return leads([margin + effect for effect in effects])


def at_most(values: Sequence[float], bound: float) -> Verdict:
    """Judge a claim that a number, one for each run, is below a bar, beyond the noise.

    Examples
    --------
    >>> at_most([1.01, 1.02, 1.03], 1.05), at_most([1.0, 1.09, 1.03], 1.05), at_most([1.06], 1.05)
    ('reproduced', 'not reproduced', 'not reproduced')
    """
    return leads([bound - value for value in values])


def reaches(ours: Sequence[float], paper: Sequence[float], noise: float, *, same_setting: bool = False) -> Verdict:
    """Judge levels that the paper gives, row by row: each reached up to the noise, exceeded if some are beyond it.

    Examples
    --------
    >>> reaches([98.9, 100.0], [98.8, 100.0], noise=0.5), reaches([97.0, 100.0], [98.8, 100.0], noise=0.5)
    ('reproduced', 'not reproduced')
    """
    gains = np.subtract(ours, paper)
    if gains.min() < -noise:
        return "not reproduced"
    return "exceeded" if same_setting and gains.min() >= 0 and gains.max() > noise else "reproduced"


def holds(condition: bool) -> Verdict:
    """Judge a claim that is true or false.

    Examples
    --------
    >>> holds(True)
    'reproduced'
    """
    return "reproduced" if condition else "not reproduced"


def noise_of(effects: Sequence[float]) -> float:
    """Twice the standard error of the mean of the runs; 0 of a single run, which tells nothing of noise.

    Examples
    --------
    >>> noise_of([1.0, 3.0]), noise_of([1.0])
    (2.0, 0.0)
    """
    return float(N_ERRORS * np.std(effects, ddof=1) / np.sqrt(len(effects))) if len(effects) > 1 else 0.0


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Judge a claim of several parts by the one that holds least.

    Examples
    --------
    >>> worst(["exceeded", "direction only"])
    'direction only'
    """
    return min(verdicts, key=VERDICTS.index)


def is_below(found: Verdict, expected: Verdict) -> bool:
    """Whether a verdict is worse than another.

    Examples
    --------
    >>> is_below("direction only", "reproduced"), is_below("exceeded", "reproduced")
    (True, False)
    """
    return VERDICTS.index(found) < VERDICTS.index(expected)
