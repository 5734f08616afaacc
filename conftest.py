"""What pytest leaves out where it is not installed: Flower, vantage6 and NVFlare have environments of their own."""

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


@pytest.fixture(autouse=True)
def _names_of_examples(doctest_namespace):
    """Give every docstring's example `np` and `kfed`, so that none has to import them."""
    doctest_namespace.update(np=np, kfed=kfed)
