"""The public surface: what `import kfed` gives, how little it costs, and what holds for every module behind it."""

import ast
import inspect
import re
import types
from collections import defaultdict
from pathlib import Path

import pytest

import kfed
from consoles import printed_by
from kfed import errors

SOURCES = Path(kfed.__file__).parent
MODULES = {str(path.relative_to(SOURCES)): path.read_text(encoding="utf-8") for path in sorted(SOURCES.rglob("*.py"))}
MAX_LINES = 300


@pytest.fixture(scope="module")
def trees():
    """Every module, parsed."""
    return {module: ast.parse(text) for module, text in MODULES.items()}


def test_all_is_sorted_and_every_name_of_it_is_there():
    assert list(kfed.__all__) == sorted(kfed.__all__)
    assert len(set(kfed.__all__)) == len(kfed.__all__)
    for name in kfed.__all__:
        assert getattr(kfed, name) is not None
    assert set(kfed.__all__) <= set(dir(kfed))


def test_all_is_complete():
    visible = {
        name
        for name, value in vars(kfed).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and name not in ("Any", "TYPE_CHECKING")
    }
    assert visible <= set(kfed.__all__)
    assert {name for name, _ in inspect.getmembers(errors, inspect.isclass)} <= set(kfed.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kfed.nothing


def test_every_public_name_says_what_it_is():
    for name in kfed.__all__:
        value = getattr(kfed, name)
        assert inspect.getdoc(value), name
        if inspect.isclass(value) and not issubclass(value, Exception):
            for member, function in inspect.getmembers(
                value, lambda m: inspect.isfunction(m) or isinstance(m, property)
            ):
                assert member.startswith("_") or inspect.getdoc(function), f"{name}.{member}"


def test_the_tree_of_exceptions_is_the_one_that_is_drawn():
    drawn = inspect.getdoc(errors)
    for name, error in inspect.getmembers(errors, inspect.isclass):
        assert name in drawn
        assert issubclass(error, UserWarning if name.endswith("Warning") else kfed.KFedError)
    assert issubclass(kfed.InvalidInputError, ValueError)
    assert issubclass(kfed.MessageError, ValueError)
    assert issubclass(kfed.UnknownDeviceError, LookupError)
    assert issubclass(kfed.OutputExistsError, OSError)
    assert issubclass(kfed.MissingExtraError, ImportError)


def test_import_leaves_heavy_libraries_alone():
    heavy = ["sklearn", "matplotlib", "typer", "click", "rich", "scipy", "pandas", "polars", "pyarrow", "faiss"]
    heavy += ["dask", "distributed", "flwr"]
    code = f"import sys, kfed; print(*[name for name in {heavy} if name in sys.modules])"
    assert printed_by(code) == []


def test_a_round_in_memory_leaves_heavy_libraries_alone():
    code = """
import sys, numpy, kfed
local = kfed.cluster_device(numpy.random.default_rng(0).normal(size=(50, 3)), 2, random_state=0)
result = kfed.aggregate([local.to_message("a")], 2, rule="robust")
local.induced_labels(result.identity("a"))
print(*[name for name in ("sklearn", "rich", "typer", "matplotlib", "pandas") if name in sys.modules])
"""
    assert printed_by(code) == []


def test_import_takes_less_than_four_tenths_of_a_second_of_a_processor_on_top_of_numpy():
    code = "import numpy, time; t = time.process_time(); import kfed; print(time.process_time() - t)"
    assert any(float(printed_by(code)[0]) < 0.4 for _ in range(3))


# Every module --------------------------------------------------------------------------------------------------


def test_a_class_name_exists_once(trees):
    homes = defaultdict(list)
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(module)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


def test_a_public_function_name_exists_once(trees):
    homes = defaultdict(list)
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _may_repeat(module, node.name):
                homes[node.name].append(module)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


def _may_repeat(module, name):
    """Whether a function is private, or has a name that others read: nobody else calls it by that name."""
    room, _, file = module.rpartition("/")
    return (
        name.startswith("_")
        or name == "main"  # what a command line starts
        or (room == "cli" and not file.startswith("_"))  # commands have the name of what they do
        or (room == "coordinator/http" and file.endswith("_routes.py"))  # routes too
        or (room == "experiments" and name in ("run_one", "summarize", "plot"))  # what every experiment has
    )


def test_no_module_is_too_long_to_read():
    lengths = {module: text.count("\n") for module, text in MODULES.items()}
    assert {module: lines for module, lines in lengths.items() if lines > MAX_LINES} == {}


def test_errors_say_what_came_after_a_semicolon(trees):
    """ "X must be at least 1; got 0", and not "X must be at least 1, and is 0"."""
    texts = [(module, text) for module, tree in trees.items() for text in _texts_that_are_raised(tree)]
    assert len(texts) > 100
    assert [(module, text) for module, text in texts if re.search(r", and (is|are|has|have) ", text)] == []


def _texts_that_are_raised(tree):
    """Yield the literals of raise statements; what is put into a literal is shown as {}."""
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Raise):
            for node in ast.walk(statement):
                if isinstance(node, ast.JoinedStr):
                    yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
