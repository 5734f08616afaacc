"""`Notice`: something that a user should know, with a code for programs."""

from __future__ import annotations

from typing import NamedTuple


class Notice(NamedTuple):
    """What to look at, in words, and a code that stays the same however the words change."""

    code: str
    text: str
