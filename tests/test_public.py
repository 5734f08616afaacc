"""The public surface: what `import kfed` gives, and how little it costs."""

import inspect
import subprocess
import sys
import types

import pytest

import kfed
from kfed import errors


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


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_import_leaves_heavy_libraries_alone():
    heavy = ["sklearn", "matplotlib", "typer", "click", "rich", "scipy", "pandas", "polars", "pyarrow", "faiss"]
    heavy += ["dask", "distributed", "flwr"]
    code = f"import sys, kfed; print(*[name for name in {heavy} if name in sys.modules])"
    assert run(code) == []


def test_a_round_in_memory_leaves_heavy_libraries_alone():
    code = """
import sys, numpy, kfed
local = kfed.cluster_device(numpy.random.default_rng(0).normal(size=(50, 3)), 2, random_state=0)
result = kfed.aggregate([local.to_message("a")], 2, rule="robust")
local.induced_labels(result.identity("a"))
print(*[name for name in ("sklearn", "rich", "typer", "matplotlib", "pandas") if name in sys.modules])
"""
    assert run(code) == []


def test_import_takes_less_than_four_tenths_of_a_second_on_top_of_numpy():
    code = "import numpy, time; t = time.perf_counter(); import kfed; print(time.perf_counter() - t)"
    assert min(float(run(code)[0]) for _ in range(3)) < 0.4
