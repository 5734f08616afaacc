"""What pytest leaves out where it is not installed: Flower, vantage6 and NVFlare have environments of their own."""

import gc
from importlib.util import find_spec

import numpy as np
import pytest

import kfed

HELPERS = [f"tests/flower/{name}.py" for name in ("deployment", "nodes", "simulation")]

collect_ignore_glob = ["docs/gallery/*", "docs/api/*"]  # made by Sphinx
if not find_spec("flwr"):
    collect_ignore_glob += ["src/kfed/adapters/flower*.py", *HELPERS]
# Their tests are in folders of other names: `tests` is on the path, and a folder there would be found as a package.
collect_ignore_glob += [f"src/kfed/adapters/{name}.py" for name in ("nvflare", "vantage6") if not find_spec(name)]

gc.disable()  # what is imported to collect tests stays: to look through it again and again takes each worker a second


def pytest_collection_modifyitems(items):
    """Begin with what trains models, so that one worker does it: PyTorch takes each two seconds to get ready."""
    items.sort(key=lambda item: not _trains_models(item.nodeid.partition("::")[0]))


def _trains_models(path):
    return "federated" in path or path == "README.md"


def pytest_collection_finish():
    """Collect garbage again, but only among what the tests make, and not at every 700th object."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


FETCHED = {"locate": "mnist", "mnist": "mnist", "mnist_by_writer": "mnist-writers"}
"""Examples that need the published files of a data set."""
LEAF = {"digits_by_writer", "femnist", "stream_femnist", "leaf_shakespeare", "shakespeare", "shakespeare_roles"}
"""Examples with small files in LEAF's layout."""


@pytest.fixture(autouse=True)
def _data_of_examples(request):
    """Give examples of data sets the files that they speak of; skip those whose published files are not here."""
    name = request.node.name.removeprefix("kfed.datasets.").split(".")[-1]
    if not request.node.name.startswith("kfed.datasets.") or name not in {*FETCHED, *LEAF, "shakespeare_lines"}:
        return
    from kfed.datasets import sources

    if name in FETCHED:
        if not sources.at_hand(FETCHED[name]):
            pytest.skip(f"the files of {FETCHED[name]} are not here")
        return
    from small_data import leaf_folder, table_of_lines

    folder, monkeypatch = request.getfixturevalue("tmp_path"), request.getfixturevalue("monkeypatch")
    monkeypatch.setenv("KFED_DATA", str(folder))
    if name in LEAF:
        leaf_folder(folder)
    else:
        monkeypatch.setitem(sources.SOURCES, "shakespeare-lines", (table_of_lines(folder),))


@pytest.fixture(autouse=True)
def _names_of_examples(doctest_namespace):
    """Give every docstring's example `np` and `kfed`, so that none has to import them."""
    doctest_namespace.update(np=np, kfed=kfed)
