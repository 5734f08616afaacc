"""What pytest leaves out where an extra is not installed: Flower has an environment of its own, see `make flower`."""

from importlib.util import find_spec

import numpy as np
import pytest

import kfed

HELPERS = [f"tests/flower/{name}.py" for name in ("deployment", "nodes", "simulation")]

collect_ignore_glob = ["docs/gallery/*", "docs/api/*"]  # made by Sphinx
if not find_spec("flwr"):
    collect_ignore_glob += ["src/kfed/adapters/flower*.py", *HELPERS]


@pytest.fixture(autouse=True)
def _names_of_examples(doctest_namespace):
    """Give every docstring's example `np` and `kfed`, so that none has to import them."""
    doctest_namespace.update(np=np, kfed=kfed)
