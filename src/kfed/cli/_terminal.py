"""What all commands share: where text goes, how errors are shown, and which files may be written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from kfed._base import files
from kfed._base.files import about as about
from kfed._base.files import reason_of
from kfed._base.text import plural as plural
from kfed.errors import InvalidInputError, KFedError


def option(metavar: str, about: str, *names: str, **more: Any) -> Any:
    """An option of a command: what stands for its value in `--help`, and what it is about."""
    return typer.Option(*names, metavar=metavar, help=about, **more)


def flag(name: str, about: str) -> Any:
    """An option without a value: whether it is on, and what that is about."""
    return typer.Option(name, help=about)


Json = Annotated[bool, flag("--json", "Print the result as JSON, and nothing else.")]
Force = Annotated[bool, flag("--force", "Overwrite files that exist.")]
Yes = Annotated[bool, flag("--yes", "Do not ask for confirmation.")]

_NOT_CSV = (".parquet", ".feather", ".xlsx", ".xls", ".npy", ".gz", ".zst")


def number_or_auto(text: str) -> int | Literal["auto"]:
    """Read a number of clusters, or the word auto."""
    if text == "auto":
        return "auto"
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise typer.BadParameter(f"must be a whole number of at least 1, or auto; got {text!r}")


def number_range_or_auto(text: str) -> int | range | Literal["auto"]:
    """Read a number of clusters, numbers to compare such as 2-12, or the word auto."""
    first, dash, last = text.partition("-")
    if dash and all(part.isascii() and part.isdigit() and int(part) > 0 for part in (first, last)):
        if int(first) > int(last):
            raise typer.BadParameter(f"the smaller number comes first, as in {int(last)}-{int(first)}; got {text}")
        return range(int(first), int(last) + 1)
    try:
        return number_or_auto(text)
    except typer.BadParameter:
        raise typer.BadParameter(f"must be a number such as 7, numbers such as 2-12, or auto; got {text!r}") from None


def csv_path(text: str) -> Path:
    """Read the name of a file that will be CSV; a name of another format would mislead whatever opens the file."""
    if text.lower().endswith(_NOT_CSV):
        raise typer.BadParameter(f"must be the name of a CSV file, such as labels.csv; got {text!r}")
    return Path(text)


class Commands(TyperGroup):
    """The commands; an error that the caller can cause is one line on stderr, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; exit with 1 on such an error."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (KFedError, OSError) as error:
            note(reason_of(error))
            raise typer.Exit(1) from None
        except MemoryError:
            note("not enough memory; ask for fewer clusters, or use fewer rows at a time")
            raise typer.Exit(1) from None


def note(text: str) -> None:
    """Print a line on stderr, for people; stdout may be a pipe."""
    typer.echo(f"kfed: {text}", err=True)


def say(*parts: Any) -> None:
    """Print text or tables on stdout, with colours on a terminal."""
    console = Console(highlight=False, emoji=False, soft_wrap=True)
    for part in parts:
        console.print(part)
    console.file.flush()  # so that a log file shows it at once


def print_json(result: Any) -> None:
    """Print a result as JSON, for programs."""
    typer.echo(json.dumps(result, indent=2, ensure_ascii=False))


def rich_table(
    title: str | None, columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1, whole: bool = False
) -> Table:
    """Rows under headings; the first `left` columns hold words, the others numbers, not broken if they stay `whole`."""
    built = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    built.show_header = any(columns)
    for position, column in enumerate(columns):
        is_number = position >= left
        built.add_column(column, justify="right" if is_number else "left", overflow="fold", no_wrap=whole and is_number)
    for row in rows:
        built.add_row(*row)
    return built


def claim(outputs: Sequence[Path], *, inputs: Sequence[str | os.PathLike[str]] = (), force: bool) -> None:
    """Raise unless all outputs can be written and none of them is an input."""
    for output in outputs:
        if any(output.exists() and os.path.exists(path) and os.path.samefile(output, path) for path in inputs):
            raise InvalidInputError(f"{output} is an input of this command; choose another name for the output")
        if output.is_dir() or not output.parent.is_dir():
            raise InvalidInputError(
                f"{output} cannot be written: its folder must exist, and it must not be a folder itself"
            )
        if not force:
            files.check_free(output)


@contextmanager
def about_table(path: Path) -> Iterator[None]:
    """Let an error from within name the table, unless it does so already."""
    try:
        yield
    except KFedError as error:
        if str(error).startswith(str(path)):
            raise
        raise type(error)(f"{path}: {error}") from error


def printable(name: str) -> str:
    """Escape a name that holds control characters, which could drive the terminal."""
    return name if name.isprintable() else repr(name)
