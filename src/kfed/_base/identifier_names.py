"""Names of columns that tell rows or people apart, such as index, patient_id and MRN."""

from __future__ import annotations

import re

_SUFFIX = re.compile(r"(^|[\W_])(id|ids|key|nr|no|num|number|mrn|uuid|guid|pid|ssn)$", re.IGNORECASE)
_CAPITALS = re.compile(r"[a-z](ID|Id)$")
_ROW = re.compile(
    r"(index|row|record|line|case|obs|observation)s?([\W_]*(names?|index|id|nr|no|num|number))?", re.IGNORECASE
)
_INDEX = re.compile(r"Unnamed: 0(\.\d+)?|__index_level_\d+__")
"""What pandas calls a first column without a name, and an index without one."""

_WHO = r"(pat|patient|person|subj|subject|participant|proband|client|customer|user|member)"
_PERSON = re.compile(rf"{_WHO}s?|(.*[\W_])?{_WHO}[\W_]*(id|nr|no|num|number|code|key)", re.IGNORECASE)
_PERSON_SUFFIX = re.compile(r"(^|[\W_])(id|ids|mrn|uuid|guid|pid|ssn)$", re.IGNORECASE)


def names_rows(name: str) -> bool:
    """Whether a column with this name and different values in all rows identifies them.

    Examples
    --------
    >>> [names_rows(name) for name in ("index", "Row.names", "study_no", "patientID", "thyroid", "body_mass_index")]
    [True, True, True, True, False, False]
    """
    return bool(_SUFFIX.search(name) or _ROW.fullmatch(name)) or is_index_name(name) or names_people(name)


def names_people(name: str) -> bool:
    """Whether a column with this name identifies people, though some have several rows.

    Examples
    --------
    >>> [names_people(name) for name in ("patient_id", "MRN", "PatNr", "visit_no", "index")]
    [True, True, True, False, False]
    """
    return bool(_PERSON_SUFFIX.search(name) or _CAPITALS.search(name) or _PERSON.fullmatch(name))


def is_index_name(name: str) -> bool:
    """Whether pandas gave this name to names of rows."""
    return _INDEX.fullmatch(name) is not None
