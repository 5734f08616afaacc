"""The notebook of the examples runs from start to end, and shows tables and pictures on the way."""

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "examples" / "notebook" / "hospitals.ipynb"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def executed():
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    book = nbformat.read(NOTEBOOK, as_version=4)
    folder = {"metadata": {"path": str(NOTEBOOK.parent)}}
    return nbclient.NotebookClient(book, timeout=120, kernel_name="python3", resources=folder).execute()


def shown(book):
    """The kinds of data that each cell of code shows."""
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    return [sorted(kind for output in cell.outputs for kind in output.get("data", {})) for cell in cells]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # of the kernel's own parts
def test_the_notebook_runs_from_start_to_end_and_shows_what_is_stored_in_it(executed):
    nbformat = pytest.importorskip("nbformat")
    assert shown(executed) == shown(nbformat.read(NOTEBOOK, as_version=4))
    kinds = [kind for own in shown(executed) for kind in own]
    assert kinds.count("image/png") == 3
    assert kinds.count("text/html") >= 6
    pages = "".join(str(output.get("data", {})) for cell in executed.cells for output in cell.get("outputs", []))
    for name in ("DeviceMessage", "KComparison", "Aggregation", "Profile"):
        assert f"<b>{name}</b>" in pages
