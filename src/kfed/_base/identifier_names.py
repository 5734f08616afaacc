"""Names of columns that tell rows or people apart, such as index, patient_id, surname and MRN.

`coordinator/browser/kinds.js` has the same words, for tables that are read in a browser.
"""

from __future__ import annotations

import re

_WHO = r"(pat|patient|patienten|person|personen|subj|subject|participant|proband|client|customer|user|member|kis|sap)"
_CASE = r"(fall|case|episode|encounter|admission)"
_CALLED = r"(ids?|nr|no|num|number|nummer|key|ref|reference|names?)"
_OF_ONE = (
    r"(mrn|pid|ptid|u?subjid|ssn|bsn|nhs|svnr|ahvn?|ipp|nino|pseudonym|pseudo_?id|surname|lastname|firstname|forename|fullname"
    r"|maidenname|vorname|nachname|zuname|familienname|(first|last|full|given|family|maiden|birth)[\W_]*name|pr[eé]nom"
    r"|e?[\W_]?mail([\W_]*(address|adresse))?|(tele)?phone([\W_]*(no|number))?|telefon|tel|fax|address|adresse|street"
    r"|stra(ss|ß)e|iban)"
)
_PERSONAL = re.compile(
    rf"(.*[\W_])?({_OF_ONE}|{_WHO}[\W_]*{_CALLED}|{_CASE}[\W_]*ids?|ids?[\W_]+({_WHO}|{_CASE}))|names?", re.IGNORECASE
)
_PERSONAL_CAPITALS = re.compile(r"[a-z](MRN|Mrn|Pseudonym)$")

_OF_PEOPLE = r"(ids?|uuid|guid|uid|eid|names?)"
_PERSON = re.compile(
    rf"{_WHO}s?|fall|case|id[\W_].+|(.*[\W_])?({_OF_PEOPLE}|({_WHO}|{_CASE})[\W_]*({_CALLED}|code))", re.IGNORECASE
)
_CAPITALS = re.compile(r"[a-z](ID|Id|Name)$")

_SUFFIX = re.compile(r"(^|[\W_])(key|nr|no|num|number|ref|reference)$|nummer$", re.IGNORECASE)
_CAPITALS_OF_ROWS = re.compile(r"[a-z](Nr|No|Num|Number|Key|Ref|Reference)$")
_ROW = re.compile(
    r"(index|row|record|line|case|obs|observation)s?([\W_]*(names?|index|id|nr|no|num|number))?", re.IGNORECASE
)
_COUNT = re.compile(r"(nr|no|num|number)$", re.IGNORECASE)
_RUNNING = re.compile(r"(lfd|laufende|seq|serial)?[\W_]*(nr|nummer)|(seq|serial)[\W_]*(no|number)", re.IGNORECASE)
_INDEX = re.compile(r"Unnamed: 0(\.\d+)?|__index_level_\d+__")
"""What pandas calls a first column without a name, and an index without one."""


def names_rows(name: str) -> bool:
    """Whether a column with this name and different values in all rows identifies them.

    Examples
    --------
    >>> [names_rows(name) for name in ("index", "Row.names", "Lfd. Nr.", "patientID", "thyroid", "body_mass_index")]
    [True, True, True, True, False, False]
    """
    word = _word(name)
    is_one = _SUFFIX.search(word) or _CAPITALS_OF_ROWS.search(word) or _ROW.fullmatch(word)
    return bool(is_one) or is_index_name(name) or names_people(name)


def names_people(name: str) -> bool:
    """Whether a column with this name identifies people, though some have several rows, if it has many values.

    Examples
    --------
    >>> [names_people(name) for name in ("patient_id", "ward_id", "PatNr", "Fall", "visit_no", "index", "fallout")]
    [True, True, True, True, False, False, False]
    """
    word = _word(name, digits=True)
    return bool(_PERSON.fullmatch(word) or _CAPITALS.search(word)) or names_a_person(name)


def names_a_person(name: str) -> bool:
    """Whether a column with this name identifies people, however few values it has.

    Examples
    --------
    >>> [names_a_person(name) for name in ("Name", "Pat.-Nr.", "id_patient", "mrn2", "ward_id", "drug_name", "case_count")]
    [True, True, True, True, False, False, False]
    """
    word = _word(name, digits=True)
    return bool(_PERSONAL.fullmatch(word) or _PERSONAL_CAPITALS.search(word))


def may_count(name: str) -> bool:
    """Whether such a name could be that of a count as well, as in cell_number.

    Examples
    --------
    >>> [may_count(name) for name in ("cell_number", "visit_no", "study_key", "patient_no", "Lfd. Nr.")]
    [True, True, False, False, False]
    """
    word = _word(name)
    is_plain = _RUNNING.fullmatch(word) or (word.lower() == "no" and word != name)
    return _COUNT.search(word) is not None and not is_plain and not names_people(name)


def is_index_name(name: str) -> bool:
    """Whether pandas gave this name to names of rows."""
    return _INDEX.fullmatch(name) is not None


def _word(name: str, *, digits: bool = False) -> str:
    """A name without what follows its last word, and digits there; "#" after a word is "no"."""
    name = re.sub(r"(?<=\w)\s*#\s*$", " no" if not re.search(r"(^|[\W_])ids?\s*#", name, re.IGNORECASE) else "", name)
    return re.sub(r"[\W_\d]+$" if digits else r"[\W_]+$", "", name)
