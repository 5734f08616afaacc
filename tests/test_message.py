"""`DeviceMessage`: what it says survives the wire, and bytes that are not sound are refused and nothing else."""

import errno
import os
import re
import stat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kfed
from kfed._base import files
from kfed.wire import MessageBatch
from payloads import KINDS, MESSAGE, forged, payload_of, table
from worlds import blobs, gatherings, messages

# Encoding and decoding ------------------------------------------------------------------------------------------


@given(message=messages())
def test_what_is_encoded_is_decoded(message):
    payload = message.to_bytes()
    decoded = kfed.DeviceMessage.from_bytes(payload)
    assert decoded == message
    assert hash(decoded) == hash(message)
    assert decoded.to_bytes() == payload
    for name in ("device_id", "feature_names", "spectral_deviation", "n_features", "n_local_clusters", "n_points"):
        assert getattr(decoded, name) == getattr(message, name)
    for name in ("centers", "counts", "sums_of_squares"):
        one, other = getattr(decoded, name), getattr(message, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


@given(message=messages())
def test_a_message_is_encoded_as_safetensors_would(message):
    payload = message.to_bytes()
    assert payload == files.encode(*files.decode(payload))


@given(message=messages(), other=messages())
def test_messages_are_equal_when_their_bytes_are(message, other):
    assert (message == other) == (message.to_bytes() == other.to_bytes())
    assert message != "a message"


@pytest.mark.parametrize("device_id", ["a", "kfed1:a:b", "__metadata__", "日本 ☂ é", "x" * 200, "a/b\\c \"'{}"])
def test_any_printable_name_is_a_device_id(device_id):
    message = kfed.DeviceMessage(device_id, [[1.0]], [3])
    assert kfed.DeviceMessage.from_bytes(message.to_bytes()).device_id == device_id


def test_a_message_says_what_the_device_found():
    local = kfed.cluster_device(blobs(60, 3, 2, seed=0, gap=50), 2, random_state=0)
    message = local.to_message("a")
    for name in ("centers", "counts", "sums_of_squares"):
        np.testing.assert_array_equal(getattr(message, name), getattr(local, name))
    assert message.spectral_deviation == local.spectral_deviation
    assert message.n_points == 60


@pytest.mark.parametrize(("dtype", "n_features"), [(np.float32, 784), (np.float64, 3)])
def test_a_message_is_little_more_than_its_centers(dtype, n_features):
    centers = np.ones((4, n_features), dtype)
    message = kfed.DeviceMessage("device-123456", centers, [30, 40, 50, 60], [1.0, 2.0, 3.0, 4.0], 5.0)
    assert message.centers.dtype == dtype
    assert len(message.to_bytes()) <= centers.nbytes + (150 if dtype == np.float32 else 200)


def test_single_precision_gives_way_where_it_could_not_hold_what_is_said():
    centers = np.ones((1, 2), np.float32)
    assert kfed.DeviceMessage("a", centers, [2**24]).centers.dtype == np.float32
    for said in ({"counts": [2**24 + 1]}, {"counts": [1e-50]}, {"counts": [3], "sums_of_squares": [1e300]},
                 {"counts": [3], "spectral_deviation": 1e200}):  # fmt: skip
        message = kfed.DeviceMessage("a", centers, **said)
        assert message.centers.dtype == np.float64
        assert message.counts.tolist() == said["counts"]
        assert kfed.DeviceMessage.from_bytes(message.to_bytes()) == message


def test_whole_counts_are_integers_and_weights_are_not():
    assert kfed.DeviceMessage("a", [[1.0], [2.0]], [3.0, 4.0]).counts.dtype == np.int64
    assert kfed.DeviceMessage("a", [[1.0], [2.0]], [3.5, 4.0]).counts.dtype == np.float64
    assert kfed.DeviceMessage("a", [[1.0], [2.0]], [3.5, 4.0]).n_points == 7.5


def test_a_message_is_frozen_and_its_input_is_copied():
    centers, counts, squares = np.ones((2, 3)), np.array([3, 4]), np.array([1.0, 2.0])
    message = kfed.DeviceMessage("a", centers, counts, squares)
    centers[:], counts[:], squares[:] = 9, 9, 9
    assert (message.centers.max(), message.counts.max(), message.sums_of_squares.max()) == (1, 4, 2)
    for array in (message.centers, message.counts, message.sums_of_squares):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    with pytest.raises(AttributeError):
        message.device_id = "b"


BAD_FIELDS = {
    "no id": {"device_id": ""},
    "id too long": {"device_id": "x" * 201},
    "id of two lines": {"device_id": "a\nb"},
    "half a character": {"device_id": "\ud800"},
    "number for an id": {"device_id": 7},
    "one axis": {"centers": [1.0, 2.0]},
    "no features": {"centers": np.empty((2, 0))},
    "words": {"centers": [["x", "y"], ["z", "w"]]},
    "ragged": {"centers": [[1.0, 2.0], [3.0]]},
    "flags": {"centers": np.ones((2, 2), bool)},
    "not a number": {"centers": [[np.nan, 1.0], [1.0, 1.0]]},
    "infinite": {"centers": [[1.0, 1.0], [-np.inf, 1.0]]},
    "too large": {"centers": [[1.0, 1.0], [-1e200, 1.0]]},
    "count missing": {"counts": [3]},
    "count too many": {"counts": [3, 3, 3]},
    "count zero": {"counts": [3, 0]},
    "count negative": {"counts": [3, -1]},
    "count not a number": {"counts": [3, np.nan]},
    "count infinite": {"counts": [3, np.inf]},
    "count too large": {"counts": [3, 1e300]},
    "count in words": {"counts": ["three", "four"]},
    "square missing": {"sums_of_squares": [1.0]},
    "square negative": {"sums_of_squares": [1.0, -1.0]},
    "square not a number": {"sums_of_squares": [1.0, np.nan]},
    "deviation negative": {"spectral_deviation": -1.0},
    "deviation infinite": {"spectral_deviation": np.inf},
    "deviation not a number": {"spectral_deviation": np.nan},
    "name missing": {"feature_names": ["x"]},
    "name too many": {"feature_names": ["x", "y", "z"]},
    "name twice": {"feature_names": ["x", "x"]},
    "name not a word": {"feature_names": ["x", 1]},
}


@pytest.mark.parametrize("case", BAD_FIELDS)
def test_a_message_made_by_hand_is_checked(case):
    fields = {"device_id": "a", "centers": [[1.0, 2.0], [3.0, 4.0]], "counts": [3, 4]}
    with pytest.raises(kfed.InvalidInputError):
        kfed.DeviceMessage(**{**fields, **BAD_FIELDS[case]})


# Many at once ---------------------------------------------------------------------------------------------------


@given(gathering=gatherings(), data=st.data())
def test_many_messages_read_at_once_are_the_batch_of_each_read_alone(gathering, data):
    payloads = [message.to_bytes() for message in data.draw(st.permutations(gathering[0]))]
    at_once, alone = MessageBatch.of_bytes(payloads), MessageBatch.of(map(kfed.DeviceMessage.from_bytes, payloads))
    for name, column in vars(alone).items():
        found = getattr(at_once, name)
        if isinstance(column, np.ndarray):
            np.testing.assert_array_equal(found, column, name)
            assert found.dtype == column.dtype, name
            assert not found.flags.writeable, name
        else:
            assert found == column, name


def test_the_same_message_twice_counts_once_and_two_that_differ_are_refused_at_once_too():
    payload = MESSAGE.to_bytes()
    assert MessageBatch.of_bytes([payload, payload]).n_devices == 1
    other = kfed.DeviceMessage(MESSAGE.device_id, [[1.0, 2.0]], [3])
    with pytest.raises(kfed.DuplicateDeviceError):
        MessageBatch.of_bytes([payload, other.to_bytes()])
    with pytest.raises(kfed.FeatureMismatchError):
        MessageBatch.of_bytes([payload, kfed.DeviceMessage("b", [[1.0, 2.0, 3.0]], [3]).to_bytes()])


@given(flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=3))
def test_damaged_bytes_are_refused_at_once_where_they_are_refused_alone(flips):
    damaged = bytearray(MESSAGE.to_bytes())
    for place, bits in flips:
        damaged[place % len(damaged)] ^= bits
    payload, sound = bytes(damaged), kfed.DeviceMessage("sound", [[1.0, 2.0]], [3]).to_bytes()
    try:
        alone = MessageBatch.of(map(kfed.DeviceMessage.from_bytes, [payload, sound]))
    except kfed.KFedError as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            MessageBatch.of_bytes([payload, sound])
    else:
        assert MessageBatch.of_bytes([payload, sound]).device_ids == alone.device_ids


@pytest.mark.parametrize(
    "row",
    [
        [np.nan, 0, 1, 1, 1],
        [0, 1e101, 1, 1, 1],
        [0, 0, 0, 1, 1],
        [0, 0, 2.0**54, 1, 1],
        [0, 0, 1, -1, 1],
        [0, 0, 1, 1, np.inf],
    ],
)
def test_a_value_that_no_device_may_send_is_found_among_many(row):
    good = [kfed.DeviceMessage(f"{i}", [[0.0, 1.0]], [5], [1.0], 1.0).to_bytes() for i in range(20)]
    values = np.array([row], np.float64)
    bad = forged(table(values.shape, name="kfed1:bad"), values.tobytes())
    with pytest.raises(kfed.MessageError, match="'bad' is not valid"):
        MessageBatch.of_bytes([*good, bad, *good[:0]])


# Files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_is_loaded(kind, tmp_path):
    path = tmp_path / "some.kfed"
    KINDS[kind].save(path)
    found = type(KINDS[kind]).load(str(path))
    assert found.to_bytes() == path.read_bytes() == payload_of(kind)
    assert os.listdir(tmp_path) == ["some.kfed"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_names_the_file(kind, tmp_path):
    path = tmp_path / "site7.kfed"
    path.write_bytes(payload_of(kind)[:-1])
    with pytest.raises(kfed.MessageError, match=r"site7\.kfed: "):
        type(KINDS[kind]).load(path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        type(KINDS[kind]).load(tmp_path / "nowhere.kfed")


def test_a_version_error_stays_one_when_it_names_the_file(tmp_path):
    path = tmp_path / "new.kfed"
    path.write_bytes(forged(table([1, 4], name="kfed9:a"), np.ones(4).tobytes()))
    with pytest.raises(kfed.VersionError, match=r"new\.kfed"):
        kfed.DeviceMessage.load(path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(kind, step, tmp_path, monkeypatch):
    path = tmp_path / "old.kfed"
    path.write_bytes(b"what was there")

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        KINDS[kind].save(path)
    monkeypatch.undo()
    assert path.read_bytes() == b"what was there"
    assert os.listdir(tmp_path) == ["old.kfed"]


def test_a_save_that_is_interrupted_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        MESSAGE.save(tmp_path / "new.kfed")
    assert os.listdir(tmp_path) == []


def test_a_save_into_a_folder_that_is_not_there_says_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        MESSAGE.save(tmp_path / "missing" / "a.kfed")


def test_a_file_that_exists_is_kept_where_overwriting_is_not_allowed(tmp_path):
    path = tmp_path / "old.kfed"
    path.write_bytes(b"what was there")
    with pytest.raises(kfed.OutputExistsError, match=r"old\.kfed exists"):
        files.write(path, b"new", overwrite=False)
    assert path.read_bytes() == b"what was there"


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_what_stays_on_the_device_is_for_its_owner_only(tmp_path):
    before = os.umask(0o022)
    try:
        KINDS["local clustering"].save(tmp_path / "a.local")
        MESSAGE.save(tmp_path / "a.kfed")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.local").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a.kfed").stat().st_mode) == 0o644
