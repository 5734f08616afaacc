"""`Notice`: something that a user should know, with a code for programs; and who else may be told of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class _Words(NamedTuple):
    code: str
    text: str


class Notice(_Words):
    """What to look at, in words, and a code that stays the same however the words change.

    The words are for whoever aggregates, or for the site itself, and may name devices. A device is told what is about
    all, or about itself, and never learns the names of others: so unless a notice says which devices may be told of it,
    none is.

    Attributes
    ----------
    code, text : str
    told_to : tuple of str or None
        The devices that may be told, as a coordinator does; None if all may.
    told : str
        The words for devices; those of `text` if empty.

    Examples
    --------
    >>> notice = Notice.about_all("rows left out", "9 rows were not used; by device: 'a', 'b'", told="9 rows ...")
    >>> notice.for_device("a")
    Notice(code='rows left out', text='9 rows ...')
    >>> Notice.about(["b"], "no center", "'b' sent no center").for_device("a") is None
    True
    """

    told_to: tuple[str, ...] | None
    told: str

    def __new__(cls, code: str, text: str, told_to: Iterable[str] | None = (), told: str = "") -> Notice:
        """Make a notice; code and text alone are the tuple, and what is compared."""
        own = super().__new__(cls, code, text)
        own.told_to, own.told = None if told_to is None else tuple(told_to), told
        return own

    @classmethod
    def about_all(cls, code: str, text: str, told: str = "") -> Notice:
        """A notice that every device may be told; in the words of `told`, if `text` names devices."""
        return cls(code, text, None, told)

    @classmethod
    def about(cls, device_ids: Iterable[str], code: str, text: str, told: str = "") -> Notice:
        """A notice that these devices may be told; in the words of `told`, if `text` names other devices, too."""
        return cls(code, text, device_ids, told)

    def for_device(self, device_id: str) -> Notice | None:
        """What a device is told; None if nothing."""
        if self.told_to is not None and device_id not in self.told_to:
            return None
        return Notice(self.code, self.told or self.text)
