"""Which code a run depends on: a fingerprint of what `run_one` reaches, so that stored runs know what made them.

Functions and constants of the experiments are followed name by name, so that a change of a summary or of a picture does
not count. Other modules of kfed count as a whole, with all that they import. Words never count: comments, docstrings
and the strings of errors; outside the experiments, every string with a space between or beside words, such as a warning
or a part of it. In experiments such a string may be the name of a case, and counts.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import kfed

Place = tuple[str, str]
"""A module, and a name in it; the whole module if the name is empty."""

FRONT_DOOR = "kfed"
"""The module whose names are followed to where they are defined."""

SENTENCE = re.compile(r"\w[^\w\s]* \w|^[^\w\s]* | $")
"""Text for people: a space between two words, or at the end of a part that others are put beside."""


def fingerprint(function: Callable[..., Any]) -> str:
    """Fingerprint the code behind a function; that of its name alone if there is no source.

    Examples
    --------
    >>> from kfed.experiments.scaling import run_one
    >>> len(fingerprint(run_one)), fingerprint(run_one) == fingerprint(run_one)
    (16, True)
    """
    module, name = getattr(function, "__module__", ""), getattr(function, "__name__", "")
    own, imported = _reached(module, name)
    return _digest([module, name, *own, *(_code(_tree(module)) for module in sorted(_closure(imported)))])


def _reached(module: str, name: str) -> tuple[list[str], set[str]]:
    """The definitions that a name leads to in its module and in other experiments, and the other modules of kfed."""
    wanted, seen, code, modules = [(module, name)], set(), [], set()
    while wanted:
        place = wanted.pop()
        if place in seen:
            continue
        seen.add(place)
        where, what = place
        node, imported = _definitions(_tree(where)).get(what), _imports(_tree(where).body)
        if where == FRONT_DOOR and what in (exported := _imports(ast.walk(_tree(where)))):  # the lazy ones, too
            wanted.append(exported[what])
        elif not what or not (where == module or _is_experiment(where)):
            modules |= {where} if where.partition(".")[0] == "kfed" else set()
        elif node is not None:
            code.append(_plain(node))
            wanted += _used(node, where)
        elif what in imported:
            wanted.append(imported[what])
    return sorted(code), modules


def _is_experiment(module: str) -> bool:
    return f"{module}.".startswith("kfed.experiments.")


def _used(node: ast.AST, module: str) -> Iterator[Place]:
    """The names that a definition uses, each where it is defined."""
    imports = {**_imports(_tree(module).body), **_imports(ast.walk(node))}
    attributes = {part.value: part for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            where, what = imports.get(part.id, (module, part.id))
            own: ast.expr = part
            while not what and own in attributes:  # kfed.datasets.mixture is a name in a module in a module
                own = attributes[own]
                where, what = _inside(where, own.attr)
            yield (where, what)


def _inside(module: str, name: str) -> Place:
    """What a name of a module is: a module in it, or something that it defines."""
    inner = f"{module}.{name}"
    return (module, name) if _path_of(inner) is None else (inner, "")


def _imports(nodes: Any) -> dict[str, Place]:
    """What the names that some statements import from kfed are."""
    found: dict[str, Place] = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "kfed":
            found |= {alias.asname or alias.name: _inside(node.module, alias.name) for alias in node.names}
        if isinstance(node, ast.Import):
            every = (alias for alias in node.names if alias.name.partition(".")[0] == "kfed")
            found |= {alias.asname or "kfed": (alias.name if alias.asname else "kfed", "") for alias in every}
    return found


@lru_cache(maxsize=512)
def _definitions(tree: ast.Module) -> dict[str, ast.stmt]:
    return {target: node for node in tree.body for target in _targets(node)}


def _targets(node: ast.stmt) -> list[str]:
    """The names that a statement at the top of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
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
            wanted |= _imported(_tree(module))
    return found


@lru_cache(maxsize=512)
def _imported(tree: ast.Module) -> frozenset[str]:
    """The modules of kfed that a module imports, at its top or in its functions."""
    return frozenset(where for where, _ in _imports(ast.walk(tree)).values())


def _path_of(module: str) -> Path | None:
    """Where a module of kfed, or an experiment of one's own, is; None if there is no such module."""
    loaded = sys.modules.get(module)
    if loaded is not None and getattr(loaded, "__file__", None):
        return Path(str(loaded.__file__))
    return _path_in_kfed(module)


@lru_cache(maxsize=2048)
def _path_in_kfed(module: str) -> Path | None:
    folder = Path(kfed.__file__).parent.joinpath(*module.split(".")[1:])
    places = (folder / "__init__.py", folder.with_suffix(".py")) if module.startswith("kfed.") else ()
    return next((path for path in places if path.is_file()), None)


def _tree(module: str) -> ast.Module:
    """The code of a module, without words."""
    return _parsed(_path_of(module), module.partition(".")[0] != "kfed" or _is_experiment(module))


@lru_cache(maxsize=512)
def _parsed(path: Path | None, may_name_cases: bool) -> ast.Module:
    tree = ast.parse(path.read_text(encoding="utf-8") if path else "")
    return _WithoutWords(may_name_cases).visit(tree)  # type: ignore[no-any-return]


class _WithoutWords(ast.NodeTransformer):
    """Take away docstrings, the strings inside `raise`, and sentences where strings name no cases.

    A parser has left out comments already.
    """

    def __init__(self, may_name_cases: bool) -> None:
        self._may_name_cases = may_name_cases
        self._is_raised = False

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_docstring = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_docstring else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        self._is_raised = True
        self.generic_visit(node)
        self._is_raised = False
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.Constant("") if self._is_raised else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant("") if isinstance(node.value, str) and self._is_for_people(node.value) else node

    def _is_for_people(self, text: str) -> bool:
        return self._is_raised or (not self._may_name_cases and bool(SENTENCE.search(text)))


@lru_cache(maxsize=512)
def _code(tree: ast.Module) -> str:
    return _plain(tree)


def _plain(value: Any) -> str:
    """A syntax tree as text, without empty fields: versions of Python do not agree on these, nor on `ast.dump`."""
    if isinstance(value, list):
        return f"[{' '.join(map(_plain, value))}]"
    if not isinstance(value, ast.AST):
        return repr(value)
    fields = (f"{name}={_plain(own)}" for name, own in ast.iter_fields(value) if own is not None and own != [])
    return f"{type(value).__name__}({' '.join(fields)})"


def _digest(parts: list[str]) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
