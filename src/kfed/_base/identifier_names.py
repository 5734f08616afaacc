"""Names of columns that tell rows or people apart, such as index, patient_id and MRN."""

from __future__ import annotations

import re

_OF_PEOPLE = r"(ids?|mrn|uuid|guid|pid|ssn|bsn|nhs|svnr|ahvn?|pseudonym|pseudo_?id)"
_SUFFIX = re.compile(rf"(^|[\W_])({_OF_PEOPLE}|key|nr|no|num|number|ref|reference)$|nummer$", re.IGNORECASE)
_CAPITALS = re.compile(r"[a-z](ID|Id|MRN|Mrn|Pseudonym)$")
_CAPITALS_OF_ROWS = re.compile(r"[a-z](Nr|No|Num|Number|Key|Ref|Reference)$")
_COUNT = re.compile(r"(nr|no|num|number)$", re.IGNORECASE)
_ROW = re.compile(
    r"(index|row|record|line|case|obs|observation)s?([\W_]*(names?|index|id|nr|no|num|number))?", re.IGNORECASE
)
_INDEX = re.compile(r"Unnamed: 0(\.\d+)?|__index_level_\d+__")
"""What pandas calls a first column without a name, and an index without one."""

_WHO = r"(pat|patient|patienten|person|personen|subj|subject|participant|proband|client|customer|user|member)"
_CASE = r"(fall|case|episode|encounter|admission)"
_CALLED = r"(id|nr|no|num|number|nummer|code|key|ref|reference)"
_PERSON = re.compile(rf"{_WHO}s?|(.*[\W_])?({_WHO}|{_CASE})[\W_]*{_CALLED}", re.IGNORECASE)
_PERSON_SUFFIX = re.compile(rf"(^|[\W_]){_OF_PEOPLE}$", re.IGNORECASE)


def names_rows(name: str) -> bool:
    """Whether a column with this name and different values in all rows identifies them.

    Examples
    --------
    >>> [names_rows(name) for name in ("index", "Row.names", "study_no", "patientID", "thyroid", "body_mass_index")]
    [True, True, True, True, False, False]
    """
    is_one = _SUFFIX.search(name) or _CAPITALS_OF_ROWS.search(name) or _ROW.fullmatch(name)
    return bool(is_one) or is_index_name(name) or names_people(name)


def names_people(name: str) -> bool:
    """Whether a column with this name identifies people, though some have several rows.

    Examples
    --------
    >>> [names_people(name) for name in ("patient_id", "MRN", "PatNr", "visit_no", "index")]
    [True, True, True, False, False]
    """
    return bool(_PERSON_SUFFIX.search(name) or _CAPITALS.search(name) or _PERSON.fullmatch(name))


def may_count(name: str) -> bool:
    """Whether such a name could be that of a count as well, as in cell_number.

    Examples
    --------
    >>> [may_count(name) for name in ("cell_number", "visit_no", "study_key", "patient_no")]
    [True, True, False, False]
    """
    return _COUNT.search(name) is not None and not names_people(name)


def is_index_name(name: str) -> bool:
    """Whether pandas gave this name to names of rows."""
    return _INDEX.fullmatch(name) is not None
