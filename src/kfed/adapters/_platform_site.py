"""A site of a platform: it clusters its own table when a task asks, replies with a message, and keeps its labels.

A task says how to cluster. Which table, with which floor, by whose ids, and where labels are kept, the operator of the
site says, in its environment; no task can change that. The first task that is answered fixes the rest, see `AskedNote`.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kfed._base import checks, files
from kfed._base.text import quoted
from kfed.adapters._platform_note import ENDING, AskedNote, RefusedError
from kfed.adapters._platform_words import ERROR, LABELLED, MESSAGE, SITE, WARNINGS, read_from_text, to_text
from kfed.errors import InvalidInputError, KFedError
from kfed.site import MIN_TABLE_CLUSTER_SIZE, LocalFile, cluster_file
from kfed.wire import FeatureSchema, Identity

OPTIONS = (
    "as_is",
    "bits",
    "columns",
    "id_column",
    "kinds",
    "min_cluster_size",
    "missing",
    "n_local_clusters",
    "random_state",
    "schema",
)
"""What a task may say of how a table is clustered; as the options of `kfed device`, and with the same defaults."""

_FILE_NAME = re.compile(r"\w[\w .@+=,-]*")
_QUOTED_OR_NUMBER = re.compile(r"""(?<!\w)(['"]).*?\1(?!\w)|\b\d+(?:[.,]\d+)*""")


@dataclass(frozen=True)
class SiteTerms:
    """What the operator of a site decides, whatever a task asks for.

    Attributes
    ----------
    min_cluster_size : int
        The floor (KFED_MIN_CLUSTER_SIZE); a task may ask for more, never for less.
    id_column : str or None
        The column that says whose a row is (KFED_ID_COLUMN); a task may name one where the operator does not.
    labels : str or None
        The file for the labels of rows (KFED_LABELS).
    table : str or None
        The table, where the platform does not read it (KFED_TABLE).
    asked : str or None
        The folder for the notes of what was asked about each table (KFED_ASKED).
    """

    min_cluster_size: int = MIN_TABLE_CLUSTER_SIZE
    id_column: str | None = None
    labels: str | None = None
    table: str | None = None
    asked: str | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> SiteTerms:
        """Read the terms from environment variables; empty ones count as unset."""
        names = ("id_column", "labels", "table", "asked")
        given = {name: environment.get(f"KFED_{name.upper()}") or None for name in names}
        floor = environment.get("KFED_MIN_CLUSTER_SIZE") or str(MIN_TABLE_CLUSTER_SIZE)
        if not floor.isdecimal() or int(floor) < 1:
            raise InvalidInputError("KFED_MIN_CLUSTER_SIZE must be a whole number, at least 1")
        return cls(int(floor), **given)

    def path(self, name: str, site: str) -> Path:
        """The path of the table or the labels, with the name of the site for ``{site}``."""
        path = getattr(self, name)
        if path is None:
            raise InvalidInputError(f"KFED_{name.upper()} is not set at this site; its operator sets it to a file")
        if "{site}" in path and not _FILE_NAME.fullmatch(site):
            raise InvalidInputError(f"the name of a site must be a valid file name, since paths use it; got {site!r}")
        return Path(path.replace("{site}", site))

    def note(self, table: str, folder: Path | None = None) -> AskedNote:
        """The note of what was asked about a table, in KFED_ASKED or else in `folder`; a task cannot choose either."""
        folder = folder if self.asked is None else Path(self.asked)
        if folder is None:
            raise RefusedError(
                "KFED_ASKED is not set at this site; its operator sets it to a folder that stays when a task is over"
            )
        if Path(table).name != table:
            raise RefusedError("the name of the table must be a valid file name")
        return AskedNote(folder / f"{table}{ENDING}")


def message_reply(
    table: Any, site: str, options: Mapping[str, Any], terms: SiteTerms, note: AskedNote
) -> dict[str, Any]:
    """Cluster the table; the reply holds the message and the codes of warnings.

    The words of a warning may count few rows, so they stay here; so do all other facts about the table.
    """
    kept = _clustered(table, site, options, terms, note)
    codes = sorted({notice.code for notice in kept.notices})
    return {SITE: site, MESSAGE: to_text(kept.to_message()), WARNINGS: codes}


def labels_reply(
    table: Any, site: str, options: Mapping[str, Any], terms: SiteTerms, note: AskedNote, identity: Any, digest: str
) -> dict[str, Any]:
    """Cluster the table as before, and write the label of each row to the file that the operator named.

    Parameters
    ----------
    identity : str
        The answer to the message of this site, as text.
    digest : str
        Which message it is the answer to.
    """
    path, answer = terms.path("labels", site), read_from_text(Identity, identity)
    kept = _clustered(table, site, options, terms, note)
    if kept.to_message().digest().hex() != digest:
        raise InvalidInputError("the table, or how it is read, has changed since the message was sent; ask again")
    with _without_path(table):
        again = kept.read_rows(table).values if kept.clustering.is_summary else None
    text = kept.labels_csv(kept.labels(answer, again))
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, text.encode(), private=True)
    return {SITE: site, LABELLED: True}


def safe_reply(site: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The reply, or the reason why there is none. It holds no value of a row, and neither counts nor names rows.

    The texts of kfed's errors hold no value, but say which row is at fault, so their numbers stay here. The texts of
    other errors may hold one, so only the kind of error, and the line of code, is told.
    """
    try:
        return work()
    except RefusedError as error:
        return {SITE: site, ERROR: str(error)}
    except KFedError as error:
        return {SITE: site, ERROR: _without_numbers(str(error))}
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}, line {place.lineno}"
        return {SITE: site, ERROR: f"it raised {type(error).__name__} ({where})"}


def _without_numbers(text: str) -> str:
    """The text with N for each number, except in names, which are quoted."""
    return _QUOTED_OR_NUMBER.sub(lambda found: found[0] if found[1] else "N", text.replace(" (counted from 0)", ""))


@contextmanager
def _without_path(table: Any) -> Iterator[None]:
    """Let errors from within say "the table" instead of where it lies."""
    try:
        yield
    except KFedError as error:
        if isinstance(table, str | os.PathLike):
            raise type(error)(str(error).replace(os.fspath(table), "the table")) from error
        raise


def _clustered(table: Any, site: str, options: Mapping[str, Any], terms: SiteTerms, note: AskedNote) -> LocalFile:
    """Cluster the table if this is the first question about it, or the same as before and the message, too."""
    note.check(site, options)
    with _without_path(table):
        kept = _clustered_as_asked(table, site, options, terms)
    note.keep(site, options, kept.to_message().digest().hex())
    return kept


def _clustered_as_asked(table: Any, site: str, options: Mapping[str, Any], terms: SiteTerms) -> LocalFile:
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise RefusedError(f"a task may set {quoted(OPTIONS, len(OPTIONS))}; got {quoted(unknown)}")
    how = dict(options)
    floor = checks.positive_integer(how.pop("min_cluster_size", terms.min_cluster_size), "min_cluster_size")
    if floor < terms.min_cluster_size:
        raise RefusedError(f"min_cluster_size must be at least {terms.min_cluster_size} at this site; got {floor}")
    if how.get("schema") is not None:
        how["schema"] = FeatureSchema.restored(how["schema"])
    how["id_column"] = terms.id_column or how.get("id_column")
    return cluster_file(table, how.pop("n_local_clusters", None), site, min_cluster_size=floor, **how, warn=False)


def terms_here() -> SiteTerms:
    """The terms of this site, from its environment."""
    return SiteTerms.of(os.environ)
