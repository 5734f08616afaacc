"""Verdicts that the quick presets must keep: written down from runs of several seeds, checked before a change lands.

::

    kfed reproduce all --quick --seed 1 -o FOLDER
    python -m kfed.experiments.expected write tests/expected_verdicts.json FOLDER FOLDER FOLDER docs/reproduction
    python -m kfed.experiments.expected check tests/expected_verdicts.json FOLDER
    python -m kfed.experiments.expected write tests/expected_verdicts.json docs/reproduction  # after full runs alone

What is written down for a claim is the worst verdict of all seeds, if every seed has the claim: other processors change
numbers far less than other seeds do. It is never above the verdict of the full preset, if one of the folders has that:
what a small run seems to show and a large one refutes is nothing to hold on to.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kfed._base import files
from kfed._base.report import VERDICTS, Verdict
from kfed._base.text import plural
from kfed.experiments.yardstick import is_below, worst

Verdicts = dict[str, dict[str, Verdict]]
"""By experiment and claim."""

UNSEEDED = ("privacy",)
"""Experiments whose noise comes from the operating system: no seed repeats them, so nothing is written down."""

USAGE = "use: python -m kfed.experiments.expected write FILE FOLDER..., or check FILE FOLDER"


def verdicts_in(folder: Path) -> Verdicts:
    """The verdicts that `kfed reproduce` left in a folder; none of experiments that were skipped."""
    every = (json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json")))
    return {one["name"]: {own["claim"]: own["verdict"] for own in one["findings"]} for one in every if one["runs"]}


def full_in(folder: Path) -> Verdicts:
    """The verdicts of the full preset in a folder; of several claims that differ in their brackets only, the worst."""
    every = (json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json")))
    found: Verdicts = {}
    for one in every:
        if one["preset"] == "full" and one["runs"]:
            own = found.setdefault(one["name"], {})
            for finding in one["findings"]:
                claim = _plain(finding["claim"])
                own[claim] = worst([finding["verdict"], own.get(claim, VERDICTS[-1])])
    return found


def _plain(claim: str) -> str:
    """A claim without the numbers of rounds, devices and points, which differ between the presets.

    Examples
    --------
    >>> _plain("costs less (digits, 25 devices, k = 10)"), _plain("2 of its 300 rounds")
    ('costs less (digits, N devices, k = 10)', 'N of its N rounds')
    """
    return re.sub(r"\d+(?= devices| of its| rounds)", "N", claim)


def capped_by(held: Verdicts, full: Verdicts) -> Verdicts:
    """Lower what quick presets hold to what the full ones have; leave out what those refute.

    Examples
    --------
    >>> capped_by({"a": {"x": "reproduced", "y": "reproduced"}}, {"a": {"x": "direction only", "y": "not reproduced"}})
    {'a': {'x': 'direction only'}}
    """
    lower = {
        name: {claim: worst([own, full.get(name, {}).get(_plain(claim), own)]) for claim, own in claims.items()}
        for name, claims in held.items()
    }
    return {name: {claim: own for claim, own in claims.items() if own != VERDICTS[0]} for name, claims in lower.items()}


def held_by_all(found: Sequence[Verdicts]) -> Verdicts:
    """The worst verdict of each claim that is in all of them; claims that fail in one are left out.

    Examples
    --------
    >>> held_by_all([{"a": {"x": "exceeded", "y": "reproduced"}}, {"a": {"x": "reproduced", "y": "not reproduced"}}])
    {'a': {'x': 'reproduced'}}
    """
    first, *others = found
    held = {}
    for name, claims in first.items():
        if name in UNSEEDED:
            continue
        kept = {
            claim: worst([verdict, *(own.get(name, {}).get(claim, VERDICTS[0]) for own in others)])
            for claim, verdict in claims.items()
        }
        held[name] = {claim: verdict for claim, verdict in kept.items() if verdict != VERDICTS[0]}
    return held


def problems(expected: Verdicts, found: Verdicts) -> Iterator[str]:
    """Say which experiments did not run, and which claims are missing or have a worse verdict than expected.

    Examples
    --------
    >>> list(problems({"a": {"x": "reproduced"}, "b": {"y": "reproduced"}}, {"a": {"x": "direction only"}}))
    ['a: x is direction only; expected reproduced', 'b did not run; expected: y']
    """
    for name, claims in expected.items():
        if name not in found:
            yield f"{name} did not run; expected: {', '.join(claims)}"
            continue
        for claim, verdict in claims.items():
            if claim not in found[name]:
                yield f"{name}: {claim} is not claimed any more; write the expected verdicts again"
            elif is_below(found[name][claim], verdict):
                yield f"{name}: {claim} is {found[name][claim]}; expected {verdict}"


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code is 1 if a verdict is missing or worse than expected, 2 if arguments are wrong."""
    if len(arguments) < 3 or arguments[0] not in ("write", "check") or (arguments[0] == "check" and len(arguments) > 3):
        sys.stderr.write(f"{USAGE}\n")
        return 2
    action, file, folders = arguments[0], Path(arguments[1]), [Path(folder) for folder in arguments[2:]]
    if action == "write":
        earlier: Any = json.loads(file.read_bytes()) if file.exists() else {}
        full = [full_in(folder) for folder in folders]
        found = [
            verdicts_in(folder)
            for folder, own in zip(folders, full, strict=True)
            if not own and any(folder.glob("*.json"))
        ]
        held = earlier | (held_by_all(found) if found else {})
        held = capped_by(held, {name: own for each in full for name, own in each.items()})
        files.write(file, f"{json.dumps(held, indent=1, ensure_ascii=False)}\n".encode())
        return 0
    found = [verdicts_in(folder) for folder in folders]
    expected = json.loads(file.read_bytes())
    wrong = sorted(problems(expected, found[0]))
    n_checked = sum(len(claims) for name, claims in expected.items() if name in found[0])
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    sys.stdout.write(f"{plural(n_checked, 'expected verdict')} checked; {plural(len(wrong), 'problem')}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
