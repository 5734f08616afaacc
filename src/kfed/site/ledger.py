"""`release_file` and its `Ledger`: every private release of a table, written to a file beside it before it leaves.

Releases of the same rows compose: whoever has two messages knows more of a row than either promises. The ledger says to
what they add up, and refuses a release that would pass a budget. It is a line of JSON for each release, and is only
appended to.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from kfed._base import checks
from kfed._base.accounting import composed, epsilon_of
from kfed._base.text import plural
from kfed.device import Privacy
from kfed.errors import InvalidInputError, PrivacyWarning
from kfed.site.kept import LocalFile, cluster_file
from kfed.wire import DeviceMessage, Promise

try:
    import fcntl
except ImportError:  # on Windows, two commands at once can both pass the budget
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Entry:
    """One release: its name, when it was made, what it promised, and the digest of the message."""

    device_id: str
    when: str
    epsilon: float
    delta: float
    mu: float
    digest: str


class Ledger:
    """The private releases of one table.

    Parameters
    ----------
    path : path
        The file; it is made by the first release.

    Examples
    --------
    >>> import tempfile
    >>> points = np.random.default_rng(0).normal(size=(2000, 2))
    >>> message = kfed.cluster_device(points, 1, privacy=kfed.Privacy(epsilon=1.0, radius=4.0)).to_message("site7")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(Path(folder) / "site7.csv.ledger")
    ...     ledger.spend(message)
    ...     ledger.spend(message)  # the same message again tells nothing new
    ...     len(ledger.entries()), round(ledger.epsilon(1e-6), 3)
    (1, 1.0)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @classmethod
    def beside(cls, table: str | os.PathLike[str]) -> Ledger:
        """The ledger of a table: its name with ``.ledger`` after it."""
        return cls(f"{os.fspath(table)}.ledger")

    def entries(self) -> list[Entry]:
        """All releases so far, oldest first."""
        if not self.path.exists():
            return []
        return [self._entry(line) for line in self.path.read_text(encoding="utf-8").splitlines()]

    def epsilon(self, delta: float, *more: float) -> float:
        """The epsilon of all releases together, at this delta; with `more` releases of these mu, if given."""
        return epsilon_of(composed([*(entry.mu for entry in self.entries()), *more]) or 1e-9, delta)

    def check(self, promise: Promise, budget: float | None) -> None:
        """Raise unless one more release with this promise stays within a budget, an epsilon at its delta."""
        total = self.epsilon(promise.delta, promise.mu)
        if budget is None or total <= checks.positive_number(budget, "budget") * (1 + 1e-6):
            return
        made = plural(len(self.entries()), "release")
        raise InvalidInputError(
            f"{self.path}: after {made}, this one would bring epsilon to {total:.3g} at delta {promise.delta:g}, more "
            f"than the budget of {budget:g}; send an earlier message again, or ask for a smaller epsilon"
        )

    def spend(self, message: DeviceMessage, budget: float | None = None) -> None:
        """Write a release down, before it leaves; one that is there already costs nothing. Raises as `check` does."""
        promise = None if message.details is None else message.details.promise
        if promise is None:
            raise InvalidInputError("the message must be private to be written to a ledger")
        digest = message.digest().hex()
        with self._locked() as file:
            if any(entry.digest == digest for entry in self.entries()):
                return
            self.check(promise, budget)
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            entry = Entry(message.device_id, when, promise.epsilon, promise.delta, promise.mu, digest)
            file.write(json.dumps(asdict(entry)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def has(self, message: DeviceMessage) -> bool:
        """Whether this very message was released before."""
        return message.digest().hex() in {entry.digest for entry in self.entries()}

    @contextmanager
    def _locked(self) -> Iterator[Any]:
        """The file to append to; one process at a time."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    def _entry(self, line: str) -> Entry:
        try:
            entry = Entry(**json.loads(line))
            Promise(entry.epsilon, entry.delta, entry.mu, 1.0)
        except (TypeError, ValueError, RecursionError):
            raise InvalidInputError(
                f"{self.path}: this ledger is damaged, so it is not known what was released; restore it from a backup"
            ) from None
        return entry


def release_file(
    path: str | os.PathLike[str],
    n_local_clusters: int | Literal["auto"] | None,
    device_id: str,
    *,
    privacy: Privacy,
    budget: float | None = None,
    schema: Any = None,
    as_is: bool | None = None,
    **options: Any,
) -> LocalFile:
    """Cluster the table of a site as `cluster_file` does, and write the private release to the ledger of the table.

    Without a schema, numbers are taken as they are. Raises, and releases nothing, if all releases of the table would
    add up to more than `budget`, or if this one would promise less than it seems to (a `PrivacyWarning`).
    """
    ledger = Ledger.beside(path)
    ledger.check(privacy.promise, budget)
    as_is = True if as_is is None and schema is None else as_is
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        try:
            kept = cluster_file(
                path, n_local_clusters, device_id, privacy=privacy, schema=schema, as_is=as_is, **options
            )
        except PrivacyWarning as warning:
            raise InvalidInputError(f"{warning}; nothing was released") from None
    ledger.spend(kept.to_message(), budget)
    return kept
