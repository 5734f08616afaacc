"""TFF's archives of federated data sets."""

import hashlib
import lzma
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kfed
from data_files import ROWS, leaf_json, lines_csv, put, write_leaf
from kfed import datasets
from kfed.datasets import sources, tff
from kfed.datasets.sources import File
from kfed.errors import CorruptFileError

# TFF's archives -------------------------------------------------------------------------------------------------


def varint(number):
    """A number in protobuf's encoding; a negative one as its two's complement."""
    number %= 2**64
    pieces = []
    while number > 127:
        pieces.append(number % 128 + 128)
        number //= 128
    return bytes([*pieces, number])


def chunk(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def record(**features):
    """A `tf.train.Example` as TensorFlow writes it: floats and integers packed."""
    entries = b""
    for name, value in features.items():
        if isinstance(value, bytes):
            own = chunk(1, chunk(1, value))
        elif isinstance(value, int):
            own = chunk(3, chunk(1, varint(value)))
        else:
            own = chunk(2, chunk(1, np.asarray(value, "<f4").tobytes()))
        entries += chunk(1, chunk(1, name.encode()) + chunk(2, own))
    return chunk(1, entries)


def archive(path, rows):
    """A SQLite file in TFF's layout, packed as it is published; its bytes."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "CREATE TABLE examples (split_name TEXT NOT NULL, client_id TEXT NOT NULL, "
            "serialized_example_proto BLOB NOT NULL)"
        )
        database.executemany("INSERT INTO examples VALUES (?, ?, ?)", rows)
    return lzma.compress(path.read_bytes())


def put_archive(home, monkeypatch, tmp_path, name, file_name, rows):
    payload = archive(tmp_path / "plain.sqlite", rows)
    (home / "tff").mkdir(parents=True)
    (home / "tff" / file_name).write_bytes(payload)
    monkeypatch.setitem(
        sources.SOURCES, name, (File("tff", file_name, hashlib.sha256(payload).hexdigest(), len(payload)),)
    )


PIXELS = [
    ("all_train", "f0002", record(pixels=[1.0, 0.25], label=3)),
    ("all_train", "f0001", record(pixels=[0.0, 1.0], label=36)),
    ("all_train", "f0002", record(pixels=[0.5, 0.5], label=0)),
    ("all_test", "f0001", record(pixels=[0.5, 0.5], label=5)),
]


def test_femnist_is_read_from_the_archive_of_tff_writer_by_writer(home, monkeypatch, tmp_path):
    put_archive(home, monkeypatch, tmp_path, "tff-femnist", "emnist_all.sqlite.lzma", PIXELS)
    data = datasets.femnist()
    np.testing.assert_allclose(data.points, [[1, 0], [0, 0.75], [0.5, 0.5]])
    assert data.classes.tolist() == [36, 3, 0]
    assert data.owners.tolist() == ["f0001", "f0002", "f0002"]
    assert datasets.femnist(n_classes=10).owners.tolist() == ["f0002", "f0002"]
    assert datasets.femnist(n_writers=1).owners.tolist() == ["f0001"]
    writer, pixels, classes = next(datasets.stream_femnist("test"))
    assert (writer, pixels.shape, classes.tolist()) == ("f0001", (1, 2), [5])


def test_digits_are_those_of_femnist_where_it_is_at_hand(home, monkeypatch, tmp_path):
    assert sources.digits_files() == ("mnist", "mnist-writers")
    put_archive(home, monkeypatch, tmp_path, "tff-femnist", "emnist_all.sqlite.lzma", PIXELS)
    assert sources.digits_files() == ("tff-femnist",)
    data = datasets.digits_by_writer()
    assert (data.name, data.classes.tolist()) == ("FEMNIST", [3, 0])


SNIPPETS = [
    ("train", "HAMLET_HAMLET", record(snippets=b"To be, or not to be,")),
    ("test", "HAMLET_HAMLET", record(snippets=b"that is the question")),
    ("train", "HAMLET_GHOST", record(snippets="Murder most foul …".encode())),
]


def test_roles_are_read_from_the_archive_of_tff_where_there_is_no_table_of_lines(home, monkeypatch, tmp_path):
    put_archive(home, monkeypatch, tmp_path, "tff-shakespeare", "shakespeare.sqlite.lzma", SNIPPETS)
    source, roles = datasets.shakespeare_roles()
    assert source == "Shakespeare, TFF"
    assert roles == {"HAMLET_GHOST": "Murder most foul …", "HAMLET_HAMLET": "To be, or not to be, that is the question"}
    data = datasets.shakespeare(window_length=18, n_features=64)
    assert data.points.shape == (3, 64)
    assert data.owners.tolist() == ["HAMLET_GHOST", "HAMLET_HAMLET", "HAMLET_HAMLET"]


def test_roles_of_leaf_come_first_and_are_put_together_from_overlapping_windows(home, monkeypatch, tmp_path):
    write_leaf(home, "shakespeare", leaf_json({"HAMLET": (["to be", "o be ", " be o"], [" ", "o", "r"])}))
    put(home, monkeypatch, "shakespeare-lines", {"shakespeare_lines.csv.gz": lines_csv(ROWS)})
    assert datasets.shakespeare_roles() == ("Shakespeare, LEAF", {"HAMLET": "to be or"})


def test_the_table_of_lines_is_used_where_it_alone_is_at_hand(home, monkeypatch):
    assert sources.shakespeare_files() == ("tff-shakespeare",)
    put(home, monkeypatch, "shakespeare-lines", {"shakespeare_lines.csv.gz": lines_csv(ROWS)})
    source, roles = datasets.shakespeare_roles()
    assert source == "Shakespeare, table of lines"
    assert roles["Macbeth: HAMLET"] == "another of that name"
    assert datasets.shakespeare(window_length=20, n_features=64).name == source


def test_an_archive_that_is_damaged_is_named(home, monkeypatch, tmp_path):
    cut = record(pixels=[1.0], label=3)[:-2]
    put_archive(home, monkeypatch, tmp_path, "tff-femnist", "emnist_all.sqlite.lzma", [("all_train", "f0001", cut)])
    with pytest.raises(kfed.CorruptFileError, match=r"emnist_all\.sqlite is not a SQLite file of tf\.train\.Example"):
        datasets.femnist()
    broken = tmp_path / "half.sqlite.lzma"
    broken.write_bytes(lzma.compress(bytes(1000))[:-8])
    with pytest.raises(kfed.CorruptFileError, match=r"half\.sqlite\.lzma is not a whole LZMA archive"):
        tff.unpacked_archive(broken)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5), st.binary(max_size=200))
def test_an_example_is_read_as_it_was_written(numbers, content):
    packed = chunk(3, chunk(1, b"".join(map(varint, numbers))))
    unpacked = chunk(3, b"".join(varint(8) + varint(number) for number in numbers))
    for own in (packed, unpacked):
        entries = chunk(1, chunk(1, b"n") + chunk(2, own)) + chunk(
            1, chunk(1, b"c") + chunk(2, chunk(1, chunk(1, content)))
        )
        found = tff.example(chunk(1, entries))
        assert found["n"].tolist() == numbers
        assert found["c"] == [content]


@pytest.mark.parametrize("content", [None, "text", 7, bytes([8, 1])])
def test_a_record_that_is_no_example_is_named_as_a_damaged_file(tmp_path, content):
    path = tmp_path / "damaged.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB)")
        database.execute("INSERT INTO examples VALUES ('train', 'a', ?)", (content,))
        database.commit()
    with pytest.raises(CorruptFileError, match=r"damaged\.sqlite"):
        list(tff.clients(path, "train"))


def test_two_runs_may_unpack_one_archive_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(tff, "cache_folder", lambda: tmp_path / "cache")
    packed = tmp_path / "archive.sqlite.lzma"
    packed.write_bytes(lzma.compress(bytes(range(256)) * 4000))
    copy = shutil.copyfileobj

    def beside_another(source, target, *sizes):
        """Before the first has written anything, the second unpacks from start to end."""
        monkeypatch.setattr(shutil, "copyfileobj", copy)
        tff.unpacked_archive(packed)
        copy(source, target, *sizes)

    monkeypatch.setattr(shutil, "copyfileobj", beside_another)
    target = tff.unpacked_archive(packed)
    assert target.read_bytes() == bytes(range(256)) * 4000
    assert [path.name for path in target.parent.iterdir()] == [target.name]
