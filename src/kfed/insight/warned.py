"""What an aggregation warns of, in words that go with what was measured of its clusters."""

from __future__ import annotations

from kfed.insight.assessment import Assessment
from kfed.server import Aggregation, ComparisonWords, KChoice


def warnings_of(aggregation: Aggregation, assessment: Assessment) -> list[str]:
    """What the notices of an aggregation say; where one device decides, that stability is one over many devices."""
    return [
        on_average(notice.text, aggregation.k_choice, assessment) if notice.code == "unsure k" else notice.text
        for notice in aggregation.notices
    ]


def on_average(said: str, choice: KChoice | None, assessment: Assessment) -> str:
    """What is said of a number that stands out, beside clusters that a single device changes."""
    if choice is None or not (choice.stands_out and assessment.instability):
        return said
    doubt = "" if choice.comparison is None else ComparisonWords(choice.comparison).doubt
    return f"when devices are resampled, {f'{choice.finding}: {doubt}' if doubt else said}"
