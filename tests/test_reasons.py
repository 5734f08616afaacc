"""What is said of a table names the true reason, all that is wrong, and never a cell."""

import numpy as np
import pytest

from kfed.errors import InvalidInputError
from kfed.site import cluster_file, read_columns
from kfed.wire import Column

NUMBERS = np.random.default_rng(0).normal(size=(120, 2)).round(4)


@pytest.fixture
def write(tmp_path):
    """Write a table of columns; gives its path."""

    def written(**columns):
        lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
        path = tmp_path / "site.csv"
        path.write_text("\n".join(lines) + "\n")
        return path

    return written


def notice(kept, code):
    (text,) = [one.text for one in kept.notices if one.code == code]
    return text


@pytest.mark.filterwarnings("ignore::kfed.TableWarning")
def test_ids_are_named_as_the_reason_if_they_are_too_few(write):
    path = write(age=NUMBERS[:, 0], dose=NUMBERS[:, 1], person=["p7"] * 120)
    text = notice(cluster_file(path, None, "north", id_column="person"), "nothing sent")
    assert "needs about 15 different ids in 'person', and there is 1;" in text
    text = notice(cluster_file(path, 2, "north", id_column="person", as_is=True), "nothing sent")
    assert "fewer than 5 different ids in 'person'" in text
    few = write(age=NUMBERS[:9, 0], dose=NUMBERS[:9, 1])
    assert "needs about 15 different rows;" in notice(cluster_file(few, None, "north"), "nothing sent")
