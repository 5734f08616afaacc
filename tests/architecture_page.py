"""The page on the architecture as data, and which files of kfed a way leads through."""

import re
import sys
import threading
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest import mock

from kfed._base import pool

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "src/kfed"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FILE = re.compile(r"`([\w./]+\.(?:py|md|toml))`")


def section(title):
    return PAGE.partition(f"\n## {title}")[2].partition("\n## ")[0]


def files_of(title, until):
    return set(FILE.findall(section(title).partition(until)[0]))


ROW = files_of("The way of a row", "\nA table whose numbers")
MORE = files_of("Without a number", "\n##") - ROW
HELPERS = files_of("Helpers", "\n##")
MESSAGE = files_of("The way of a message", "\nAt the device")
MESSAGE_HELPERS = set(FILE.findall(section("The way of a message").partition("\nBeside them")[2]))


@contextmanager
def followed():
    """The files of kfed in which a function is called meanwhile, on this thread and on those that begin meanwhile.

    Work that is shared among cores is done by the thread that asks: workers may have begun before.
    """
    found = set()

    def note_file(frame, event, _):
        if event == "call" and (name := in_house(frame.f_code.co_filename)):
            found.add(name)

    threading.setprofile(note_file)
    sys.setprofile(note_file)
    try:
        with mock.patch.object(pool, "available_cores", return_value=1):
            yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@cache
def in_house(path):
    return Path(path).relative_to(HOUSE).as_posix() if Path(path).is_relative_to(HOUSE) else None
