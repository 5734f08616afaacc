"""Names of columns that tell rows or people apart, such as index, patient_id, surname and MRN.

`coordinator/browser/identifiers.js` has the same words, for tables that are read in a browser.
"""

from __future__ import annotations

import re

# Names are compared in small letters, with one space between words: " ?" is one word or two.
_WHO = r"(pat|patient(en)?|person(en)?|subj(ect)?|participant|proband|client|customer|user|member|kis|sap)"
_CASE = r"(fall|case|episode|encounter|admission)"
_NUMBERED = r"nr|no|num|number"
_CALLED = rf"(ids?|{_NUMBERED}|nummer|key|ref|reference|names?)"
_OF_ONE = (
    r"mrn|pid|ptid|u?subjid|ssn|bsn|nhs|svnr|ahvn?|ipp|nino|pseudonym|pseudo ?id"
    r"|(sur|fore|vor|nach|zu|familien|(first|last|full|given|family|maiden|birth) ?)name|pr[eé]nom"
    r"|(e ?)?mail( ?add?resse?)?|(tele)?phone( ?(no|number))?|telefon|tel|fax|add?resse?|street|stra(ss|ß)e|iban"
)
_PERSONAL = re.compile(rf"(.* )?({_OF_ONE}|{_WHO} ?{_CALLED}|{_CASE} ?ids?|ids? ({_WHO}|{_CASE}))|names?")
_PEOPLE = re.compile(rf"{_WHO}s?|fall|case|id .+|(.* )?(ids?|[ueg]?u?id|names?|({_WHO}|{_CASE}) ?({_CALLED}|code))")
_ROWS = re.compile(
    rf"(.* )?({_NUMBERED}|key|ref|reference)|.*nummer"
    rf"|(index|row|record|line|case|obs|observation)s?( ?(names?|index|id|{_NUMBERED}))?"
)
_COUNTS = re.compile(rf".*({_NUMBERED})")
_RUNNING = re.compile(r"((lfd|laufende|seq|serial) ?)?(nr|nummer|no)|(seq|serial) ?number")
_INDEX = re.compile(r"Unnamed: 0(\.\d+)?|__index_level_\d+__")
"""What pandas calls a first column without a name, and an index without one."""


def names_rows(name: str) -> bool:
    """Whether a column with this name and different values in all rows identifies them.

    Examples
    --------
    >>> [names_rows(name) for name in ("index", "Row.names", "Lfd. Nr.", "patientID", "thyroid", "body_mass_index")]
    [True, True, True, True, False, False]
    """
    return _ROWS.fullmatch(_word(name)) is not None or is_index_name(name) or names_people(name)


def names_people(name: str) -> bool:
    """Whether a column with this name identifies people, though some have several rows, if it has many values.

    Examples
    --------
    >>> [names_people(name) for name in ("patient_id", "ward_id", "PatNr", "Fall", "visit_no", "index", "fallout")]
    [True, True, True, True, False, False, False]
    """
    return _PEOPLE.fullmatch(_bare(name)) is not None or names_a_person(name)


def names_a_person(name: str) -> bool:
    """Whether a column with this name identifies people, however few values it has.

    Examples
    --------
    >>> [names_a_person(name) for name in ("Name", "Pat.-Nr.", "id_patient", "mrn2", "ward_id", "case_count")]
    [True, True, True, True, False, False]
    """
    return _PERSONAL.fullmatch(_bare(name)) is not None


def may_count(name: str) -> bool:
    """Whether such a name could be that of a count as well, as in cell_number.

    Examples
    --------
    >>> [may_count(name) for name in ("cell_number", "visit_no", "study_key", "patient_no", "Lfd. Nr.")]
    [True, True, False, False, False]
    """
    word = _word(name)
    return bool(_COUNTS.fullmatch(word)) and not _RUNNING.fullmatch(word) and not names_people(name)


def is_index_name(name: str) -> bool:
    """Whether pandas gave this name to names of rows."""
    return _INDEX.fullmatch(name) is not None


def _word(name: str) -> str:
    """A name in small letters with one space between its words; "#" at its end is "no", but after "id"."""
    name = re.sub(r"(ids?)?\s*#\s*$", lambda found: found[1] or " no", name, flags=re.IGNORECASE)
    name = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return re.sub(r"[\W_]+", " ", name).strip().lower()


def _bare(name: str) -> str:
    """The same without digits at its end."""
    return re.sub(r"[ \d]+$", "", _word(name))
