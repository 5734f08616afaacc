"""Which code a run depends on: a fingerprint of what `run_one` reaches, so that stored runs know what made them.

The functions and constants that `run_one` uses in its own module are followed name by name, so that a change of words,
of a summary or of a picture does not count. Other modules of kfed count as a whole, with all that they import.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import kfed

IMPORT = re.compile(r"^\s*from (kfed[\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
NAME = re.compile(r"\b\w+\b")


def fingerprint(function: Callable[..., Any]) -> str:
    """Fingerprint the code behind a function; that of its name alone if there is no source.

    Examples
    --------
    >>> from kfed.experiments.scaling import run_one
    >>> len(fingerprint(run_one)), fingerprint(run_one) == fingerprint(run_one)
    (16, True)
    """
    module, name = getattr(function, "__module__", ""), getattr(function, "__name__", "")
    own, imported = _reached(_source(module), name)
    return _digest([module, name, *own, *map(_source, sorted(_closure(imported)))])


def _reached(source: str, name: str) -> tuple[list[str], set[str]]:
    """The definitions that a name leads to within its module, and the modules of kfed that they import."""
    defined = {target: node for node in ast.parse(source).body for target in _targets(node)}
    wanted, seen, code, modules = [name], set(), [], set()
    while wanted:
        current = wanted.pop()
        node = defined.get(current)
        if current in seen or node is None:
            continue
        seen.add(current)
        modules |= _imported(ast.unparse(node))
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            code.append(ast.dump(node))
        wanted += [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
    return sorted(code), modules


def _targets(node: ast.stmt) -> list[str]:
    """The names that a statement at the top of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [part.id for target in targets if target for part in ast.walk(target) if isinstance(part, ast.Name)]


def _closure(modules: set[str]) -> set[str]:
    """Modules of kfed with all modules of kfed that they import, directly or not."""
    found: set[str] = set()
    wanted = set(modules)
    while wanted:
        module = wanted.pop()
        if module not in found and _path_of(module) is not None:
            found.add(module)
            wanted |= _imported(_source(module))
    return found


def _imported(source: str) -> set[str]:
    """The modules that a source imports from kfed; what a name is, module or not, is found out later."""
    found = set()
    for module, names in IMPORT.findall(source):
        found |= {module, *(f"{module}.{name}" for name in NAME.findall(names))}
    return found


@lru_cache(maxsize=512)
def _path_of(module: str) -> Path | None:
    """Where a module of kfed, or an experiment of one's own, is; None if there is no such module."""
    loaded = sys.modules.get(module)
    if loaded is not None and getattr(loaded, "__file__", None):
        return Path(str(loaded.__file__))
    folder = Path(kfed.__file__).parent.joinpath(*module.split(".")[1:])
    places = (folder / "__init__.py", folder.with_suffix(".py")) if module.startswith("kfed.") else ()
    return next((path for path in places if path.is_file()), None)


@lru_cache(maxsize=512)
def _source(module: str) -> str:
    path = _path_of(module)
    return path.read_text(encoding="utf-8") if path else ""


def _digest(parts: list[str]) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
