"""The command line for tests: commands in this process, and the tables of four sites to run them on."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import typer
from typer.testing import CliRunner

from kfed.cli import app

COMMAND = typer.main.get_command(app)
SITES = {"north": (0, 1), "south": (1, 2), "east": (2, 3), "west": (0, 3)}
"""Which two of four groups each site has."""


def said(*arguments):
    """Run a command in this process; gives its exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = exit_code(*arguments)
    return code, out.getvalue(), err.getvalue()


def exit_code(*arguments):
    """Run a command in this process, with its output where that of the process goes."""
    try:
        COMMAND([str(argument) for argument in arguments])
    except SystemExit as left:
        return left.code or 0
    raise AssertionError("a command must end with an exit code")


def run(*arguments, code=0):
    """Run a command that ends with this code; gives stdout, or stderr if it fails."""
    found, out, err = said(*arguments)
    assert found == code, err
    assert "Traceback" not in err
    return out if code == 0 else err


def invoked(*arguments):
    """Run a command as Typer's tests do; gives its result, whatever its exit code."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def printed_by(code):
    """The words that Python code prints in a process of its own."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def write_sites(folder, means, columns, spread):
    """Write a table of twenty rows of each group for every site; the first of `columns` is its id column."""
    rng = np.random.default_rng(0)
    for site, groups in SITES.items():
        rows = np.concatenate([rng.normal(means[group], spread, size=(20, 2)) for group in groups])
        lines = [f"{site}-{columns[0]}-{i:02},{x!r},{y!r}" for i, (x, y) in enumerate(rows.tolist())]
        (Path(folder) / f"{site}.csv").write_text("\n".join([",".join(columns), *lines, ""]))
