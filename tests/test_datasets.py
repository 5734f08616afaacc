"""Data sets: loaders on tiny files, where files are looked for, downloads, and mixtures of Gaussians."""

import gzip
import hashlib
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import kfed
from data_files import ROWS, leaf_json, lines_csv, put, write_leaf
from kfed import datasets
from kfed.datasets import locate, sources
from kfed.datasets.images import read_idx
from kfed.datasets.shakespeare import read_roles
from kfed.datasets.sources import File, fetch

needs_data = pytest.mark.skipif(not os.environ.get("KFED_DATA"), reason="KFED_DATA does not name a folder of data sets")


def idx(array):
    """An array in the IDX format, packed."""
    codes = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}
    header = bytes([0, 0, codes[array.dtype.str[1:]], array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(header + array.astype(array.dtype.newbyteorder(">")).tobytes())


# Images ---------------------------------------------------------------------------------------------------------


@given(hnp.arrays(st.sampled_from(["u1", "i1", "i2", "i4", "f4", "f8"]), hnp.array_shapes(max_dims=3), elements={}))
def test_what_is_written_as_idx_is_read_again(tmp_path_factory, array):
    path = tmp_path_factory.mktemp("idx") / "array.gz"
    path.write_bytes(idx(array))
    found = read_idx(path)
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


@pytest.mark.parametrize("payload", [b"", b"\x1f\x8bnot gzip", b"\0\0\x07\1\0\0\0\1a", b"\0\0\x08\1\0\0\0\5abc"])
def test_a_file_that_is_not_idx_is_named(tmp_path, payload):
    path = tmp_path / "images.gz"
    path.write_bytes(payload)
    with pytest.raises(kfed.CorruptFileError, match=r"images\.gz is not a valid IDX file"):
        read_idx(path)


@pytest.fixture
def tiny_mnist(home, monkeypatch):
    """Six images of 2 x 2 to train with, two to test with, and their writers."""
    images = np.arange(24, dtype=np.uint8).reshape(6, 2, 2) * 10
    labels = np.array([3, 1, 4, 1, 5, 9], np.uint8)
    files = {"train-images-idx3-ubyte.gz": idx(images), "train-labels-idx1-ubyte.gz": idx(labels)}
    files |= {"t10k-images-idx3-ubyte.gz": idx(images[:2]), "t10k-labels-idx1-ubyte.gz": idx(labels[:2])}
    put(home, monkeypatch, "mnist", files)
    table = np.zeros((6, 8), np.int32)
    table[:, 2] = [7, 7, 8, 8, 9, 9]
    tables = {f"qmnist-{split}-labels-idx2-int.gz": idx(table) for split in ("train", "test")}
    put(home, monkeypatch, "mnist-writers", tables)
    return images, labels


def test_mnist_has_pixels_from_zero_to_one_and_its_digits(tiny_mnist):
    images, labels = tiny_mnist
    data = datasets.mnist()
    np.testing.assert_allclose(data.points, images.reshape(6, 4) / 255, rtol=1e-6)
    assert data.points.dtype == np.float32
    np.testing.assert_array_equal(data.classes, labels)
    assert datasets.mnist("test").n_points == 2


def test_mnist_by_writer_has_owners_and_the_test_split_its_first_rows(tiny_mnist):
    assert datasets.mnist_by_writer().owners.tolist() == [7, 7, 8, 8, 9, 9]
    assert datasets.mnist_by_writer("test").owners.tolist() == [7, 7]


def test_an_unknown_split_is_an_error(tiny_mnist):
    with pytest.raises(kfed.InvalidInputError, match="split must be one of 'train', 'test'"):
        datasets.mnist("validation")


def test_the_digits_are_always_there(home):
    data = datasets.digits()
    assert data.points.shape == (1797, 64)
    assert (data.points.min(), data.points.max()) == (0, 1)
    assert set(data.classes) == set(range(10))


def test_a_data_set_whose_columns_do_not_fit_is_an_error():
    with pytest.raises(kfed.InvalidInputError, match="classes of three must have 3 entries; got 2"):
        datasets.Dataset("three", np.eye(3), np.array([0, 1]))


# LEAF -----------------------------------------------------------------------------------------------------------


def test_femnist_reads_all_files_of_the_layout_and_has_ink_as_one(home):
    one = leaf_json({"f0001": ([[1.0, 0.25], [0.0, 1.0]], [3, 4])})
    write_leaf(home, "femnist", one, leaf_json({"f0002": ([[0.5, 0.5]], [7])}))
    data = datasets.femnist()
    np.testing.assert_allclose(data.points, [[0, 0.75], [1, 0], [0.5, 0.5]])
    assert data.classes.tolist() == [3, 4, 7]
    assert data.owners.tolist() == ["f0001", "f0001", "f0002"]


def test_leaf_shakespeare_is_sparse_text_owned_by_roles(home):
    write_leaf(home, "shakespeare", leaf_json({"HAMLET": (["to be or not", "that is the"], ["t", "q"])}))
    data = datasets.leaf_shakespeare(n_features=256)
    assert data.points.shape == (2, 256)
    assert 0 < data.points.nnz < 100
    assert data.owners.tolist() == ["HAMLET", "HAMLET"]


@pytest.mark.parametrize(
    "content",
    [
        "not json",
        "[]",
        '{"users": ["a"]}',
        '{"users": ["a"], "num_samples": [2], "user_data": {"a": {"x": [1], "y": [1]}}}',
    ],
)
def test_a_file_that_is_not_in_the_layout_is_named(home, content):
    write_leaf(home, "femnist", content)
    with pytest.raises(kfed.CorruptFileError, match=r"part_0\.json is not in LEAF's layout"):
        datasets.femnist()


def test_without_the_files_the_error_says_how_to_make_them_and_where_to_put_them(home):
    with pytest.raises(kfed.MissingDataError, match=r"preprocess\.sh makes .* as femnist/train/\*\.json, or .*data or"):
        datasets.femnist()


# Text -----------------------------------------------------------------------------------------------------------


def test_roles_are_kept_apart_by_play_and_say_only_what_is_spoken(tmp_path):
    path = tmp_path / "lines.csv.gz"
    path.write_bytes(lines_csv(ROWS))
    assert read_roles(path) == {
        ("Hamlet", "HAMLET"): "To be, or not to be, that is the question",
        ("Macbeth", "HAMLET"): "another of that name",
    }


def test_shakespeare_lines_are_windows_of_text_owned_by_roles(home, monkeypatch):
    put(home, monkeypatch, "shakespeare-lines", {"shakespeare_lines.csv.gz": lines_csv(ROWS)})
    data = datasets.shakespeare_lines(window_length=20, n_features=128)
    assert data.owners.tolist() == ["Hamlet: HAMLET", "Hamlet: HAMLET", "Macbeth: HAMLET"]
    assert data.classes.tolist() == ["Hamlet", "Hamlet", "Macbeth"]
    np.testing.assert_allclose(data.points.multiply(data.points).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("payload", [b"not packed", gzip.compress(b"a,b\n1,2\n", mtime=0)])
def test_a_csv_of_another_form_is_named(tmp_path, payload):
    path = tmp_path / "lines.csv.gz"
    path.write_bytes(payload)
    with pytest.raises(kfed.CorruptFileError, match=r"lines\.csv\.gz is not a packed CSV"):
        read_roles(path)


@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=5))
def test_the_features_of_a_text_do_not_depend_on_other_texts(texts):
    together = datasets.character_features(texts, n_features=64).toarray()
    alone = [datasets.character_features([text], n_features=64).toarray()[0] for text in texts]
    np.testing.assert_array_equal(together, alone)


@given(st.text(max_size=50), st.integers(1, 10))
def test_windows_are_the_text_cut_in_pieces_without_the_rest(text, length):
    pieces = datasets.windows(text, length)
    assert all(len(piece) == length for piece in pieces)
    assert text.startswith("".join(pieces))
    assert len(text) - length < len("".join(pieces))


# Where files are ------------------------------------------------------------------------------------------------

PAYLOAD = b"the published file"


def file(urls=(), payload=PAYLOAD):
    return File("things", "thing.gz", hashlib.sha256(payload).hexdigest(), len(payload), tuple(urls))


@pytest.fixture
def server():
    """A server of files on this machine, and the paths that were asked of it."""
    asked = []
    files = {"/thing.gz": PAYLOAD, "/bad.gz": b"something else", "/long.gz": PAYLOAD * 1000}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            payload = files.get(self.path)
            self.send_response(200 if payload else 404)
            self.send_header("Content-Length", str(len(payload or b"")))
            self.end_headers()
            self.wfile.write(payload or b"")

        def log_message(self, *args):
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}", asked
    running.shutdown()
    thread.join()
    running.server_close()


def test_the_named_folder_comes_before_the_cache(home):
    for folder in (home, sources.cache_folder()):
        (folder / "things").mkdir(parents=True)
        (folder / "things" / "thing.gz").write_bytes(PAYLOAD)
    assert fetch(file()) == home / "things" / "thing.gz"
    (home / "things" / "thing.gz").unlink()
    assert fetch(file()) == sources.cache_folder() / "things" / "thing.gz"


def test_a_missing_file_is_downloaded_once_into_the_cache(home, server):
    address, asked = server
    wanted = file([f"{address}/nowhere.gz", f"{address}/thing.gz"])
    for _ in range(2):
        path = fetch(wanted)
        assert path == sources.cache_folder() / "things" / "thing.gz"
        assert path.read_bytes() == PAYLOAD
    assert asked == ["/nowhere.gz", "/thing.gz"]


@pytest.mark.parametrize("name", ["bad.gz", "long.gz"])
def test_a_download_that_is_not_the_published_file_is_refused_and_not_kept(home, server, name):
    address, _ = server
    with pytest.raises(kfed.CorruptFileError, match=f"{name} must have the sha256 {file().sha256}"):
        fetch(file([f"{address}/{name}"]))
    assert not (sources.cache_folder() / "things").exists()


def test_a_corrupt_file_is_named_with_its_checksum(home):
    (home / "things").mkdir(parents=True)
    (home / "things" / "thing.gz").write_bytes(b"half of")
    with pytest.raises(kfed.CorruptFileError, match=rf"thing\.gz must have the sha256 {file().sha256}"):
        fetch(file())


def test_without_a_network_the_error_says_which_file_to_put_where(home, server):
    address, _ = server
    with pytest.raises(kfed.MissingDataError) as caught:
        fetch(file([f"{address}/nowhere.gz"]))
    for words in ("could not be downloaded", "404", "put things/thing.gz (18 bytes, sha256", str(home), "cache"):
        assert words in str(caught.value)


def test_an_unknown_data_set_is_an_error():
    with pytest.raises(kfed.InvalidInputError, match="data set must be one of 'mnist'"):
        locate("imagenet")


@pytest.mark.slow
@needs_data
def test_the_real_data_sets_have_the_counts_that_are_known_of_them():
    train = datasets.mnist_by_writer()
    assert np.bincount(train.classes).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert len(np.unique(train.owners)) == 539
    roles = read_roles(locate("shakespeare-lines")["shakespeare_lines.csv.gz"])
    assert len(roles) == 1333  # of 1,334 roles, one has no name


# Mixtures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("required_ratio", [0.5, 100.0])
def test_at_the_theorems_c_every_pair_is_exactly_as_far_apart_as_it_asks_of_active_pairs(required_ratio):
    drawn = datasets.mixture(30, 16, required_ratio=required_ratio, points_per_cluster=60, devices_per_group=3)
    report = kfed.separation_report(list(drawn.points), list(drawn.targets), required_ratio=required_ratio)
    assert (report.max_local_clusters, report.size_imbalance) == (4, 3)
    assert len(report.active_pairs) == 4 * 6
    ratios = report.separation_ratios[tuple(report.active_pairs.T)]  # over twice what the theorem's words ask for
    np.testing.assert_allclose(2 * ratios, required_ratio, rtol=1e-9)


def test_random_means_are_as_far_apart_as_asked_at_the_nearest_pair():
    drawn = datasets.mixture(5, 16, separation=12.0, layout="random", points_per_cluster=20)
    apart = np.linalg.norm(drawn.means[:, None] - drawn.means, axis=2)[np.triu_indices(16, 1)]
    assert apart.min() == pytest.approx(12)
    assert apart.max() > 13


def test_a_mixture_has_groups_of_sqrt_k_components_on_m0_devices_each():
    drawn = datasets.mixture(20, 9, separation=5.0, devices_per_group=4, points_per_cluster=20, seed=3)
    assert len(drawn.points) == len(drawn.device_ids) == 12
    held = [tuple(np.unique(own)) for own in drawn.targets]
    assert [held.count(group) for group in ((0, 1, 2), (3, 4, 5), (6, 7, 8))] == [4, 4, 4]
    assert all(np.bincount(own)[own[0]] == 5 for own in drawn.targets)
    again = datasets.mixture(20, 9, separation=5.0, devices_per_group=4, points_per_cluster=20, seed=3)
    assert all(map(np.array_equal, drawn.points, again.points))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 15, "separation": 1.0}, "n_clusters must be a square"),
        ({"n_clusters": 16}, "give one of required_ratio"),
        ({"n_clusters": 16, "separation": 1.0, "required_ratio": 1.0}, "give one of required_ratio"),
        ({"n_clusters": 16, "separation": -1.0}, "separation must be a finite number greater than zero"),
        ({"n_clusters": 16, "separation": 1.0, "points_per_cluster": 7}, "must be a multiple of the 5 devices"),
        ({"n_clusters": 25, "separation": 1.0}, "use layout='random'"),
        ({"n_clusters": 16, "separation": 1.0, "layout": "grid"}, "layout must be one of"),
    ],
)
def test_a_mixture_that_cannot_be_drawn_is_an_error(options, message):
    with pytest.raises(kfed.InvalidInputError, match=message):
        datasets.mixture(20, **options)


@pytest.mark.parametrize(
    ("users", "words"),
    [
        ({"a": ([[0.5, 0.5], [0.5]], [1, 2])}, "different sizes"),
        ({"a": (["text"], [1])}, "not numbers"),
        ({"a": ([[0.5, 0.5]], [1]), "b": ([[0.5]], [1])}, "one size"),
        ({"a": ([], [])}, "no images"),
    ],
)
def test_images_that_are_none_are_named_as_a_damaged_file(home, users, words):
    write_leaf(home, "femnist", leaf_json(users))
    with pytest.raises(kfed.CorruptFileError, match=words):
        datasets.femnist()


def test_a_writer_without_images_is_no_error(home):
    write_leaf(home, "femnist", leaf_json({"a": ([[0.5, 0.5]], [1]), "b": ([], [])}))
    assert datasets.femnist().owners.tolist() == ["a"]


def test_roles_of_numbers_are_named_as_a_damaged_file(home):
    write_leaf(home, "shakespeare", leaf_json({"HAMLET": ([1, 2], ["t", "q"])}))
    with pytest.raises(kfed.CorruptFileError, match="numbers where"):
        datasets.shakespeare()


def test_where_every_role_is_too_short_a_shorter_window_is_advised(home):
    write_leaf(home, "shakespeare", leaf_json({"HAMLET": (["to be"], ["t"])}))
    with pytest.raises(kfed.InvalidInputError, match="shorter window_length"):
        datasets.shakespeare()
