"""`DeviceMessage`: what it says survives the wire, and bytes that are not sound are refused and nothing else."""

import errno
import json
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
from worlds import blobs, gatherings, messages

MESSAGE = kfed.DeviceMessage(
    "Krankenhaus 7 ☂", [[0.1, 0.2], [3.5, -4.25]], [30, 12], [1.5, 0.5], 2.25, ["height", "größe"]
)


def forged(header, body=b"", claimed=None):
    """Bytes in the shape of safetensors with this header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if claimed is None else claimed).to_bytes(8, "little") + text + body


def table(shape, dtype="F64", name="kfed1:a", n_bytes=None, **more):
    size = {"F64": 8, "F32": 4}.get(dtype, 8) * int(np.prod(shape, dtype=object)) if n_bytes is None else n_bytes
    return {name: {"dtype": dtype, "shape": list(shape), "data_offsets": [0, size]}, **more}


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


# Bytes that are not sound ---------------------------------------------------------------------------------------

RESULT = kfed.aggregate(
    [MESSAGE, kfed.DeviceMessage("b", [[7.0, 7.0]], [4.5]), kfed.DeviceMessage("c", np.empty((0, 2)), [])],
    2,
    first_device="b",
)
KINDS = {
    "message": MESSAGE,
    "empty message": kfed.DeviceMessage("a", np.empty((0, 2), np.float32), []),
    "identity": RESULT.identity(MESSAGE.device_id),
    "aggregation": RESULT,
    "local clustering": kfed.cluster_device(blobs(9, 2, 2, seed=0), 2, random_state=0),
}


def payload_of(kind):
    return KINDS[kind].to_bytes()


def read(kind, payload):
    return type(KINDS[kind]).from_bytes(payload)


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_bytes_are_refused_at_every_length(kind):
    payload = payload_of(kind)
    for length in range(len(payload)):
        with pytest.raises(kfed.MessageError):
            read(kind, payload[:length])


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_with_more_after_them_are_refused(kind):
    for more in (b"\0", b" ", payload_of(kind)):
        with pytest.raises(kfed.MessageError):
            read(kind, payload_of(kind) + more)


def use(found):
    """Ask of an object what anybody would; nothing may break that was let in."""
    if isinstance(found, kfed.DeviceMessage):
        assert np.isfinite(found.centers).all()
        assert (found.counts > 0).all()
        assert kfed.DeviceMessage.from_bytes(found.to_bytes()) == found
        if found.n_local_clusters:
            kfed.aggregate([found], 1)
    elif isinstance(found, kfed.Identity):
        assert np.isfinite(found.cluster_centers).all()
        assert found.n_clusters >= len(np.unique(np.asarray(found)))
    elif isinstance(found, kfed.Aggregation):
        for name in found.messages.device_ids:
            found.identity(name)
            found.assign(found.messages.message(name))
        assert np.isfinite(found.cluster_sizes).all()
        assert kfed.Aggregation.from_bytes(found.to_bytes()) == found
        if len(found.messages.centers) - 2 >= found.n_clusters:
            found.without(found.messages.device_ids[-1])
    else:
        found.to_message("a")
        found.cost  # noqa: B018


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_refused_or_gives_something_sound(kind):
    payload = payload_of(kind)
    n_refused = 0
    for position in range(8 * len(payload)):
        flipped = bytearray(payload)
        flipped[position // 8] ^= 1 << (position % 8)
        try:
            found = read(kind, bytes(flipped))
        except kfed.MessageError:
            n_refused += 1
        else:
            use(found)
    assert n_refused > 0.2 * 8 * len(payload)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_bytes_that_were_overwritten_are_refused_or_give_something_sound(kind, data):
    payload = bytearray(payload_of(kind))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(payload) - 1))
        piece = data.draw(st.binary(min_size=1, max_size=9))
        payload[start : start + len(piece)] = piece
    try:
        found = read(kind, bytes(payload))
    except kfed.MessageError:
        return
    use(found)


@given(payload=st.binary(max_size=200))
def test_any_bytes_at_all_are_refused(payload):
    for kind in KINDS:
        with pytest.raises(kfed.MessageError):
            read(kind, payload)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_one_kind_is_not_taken_for_another(kind, other):
    if type(KINDS[kind]) is not type(KINDS[other]):
        with pytest.raises(kfed.MessageError):
            read(kind, payload_of(other))


FORGED = {
    "nothing": b"",
    "a word": b"hello, this is not a kfed file at all",
    "a zip": b"PK\x03\x04" + b"\0" * 60,
    "a pickle": b"\x80\x04\x95" + b"\0" * 60,
    "a huge header": forged(b"{}", claimed=2**62),
    "a header longer than the file": forged(b"{}", claimed=1000),
    "a header that is no dict": forged(b"[]"),
    "a header that is no text": forged(b"\xff\xfe\xfd"),
    "a header nested without end": forged(b"[" * 100_000),
    "facts nested without end": forged(table([1, 4], __metadata__={"kfed": "[" * 100_000}), np.ones(4).tobytes()),
    "facts that are no text": forged(table([1, 4], __metadata__={"kfed": 7}), np.ones(4).tobytes()),
    "names that are no list": forged(
        table([1, 5], __metadata__={"kfed": '{"feature_names": "ab"}'}), np.ones(5).tobytes()
    ),
    "names that are no words": forged(
        table([1, 5], __metadata__={"kfed": '{"feature_names": [1, [2]]}'}), np.ones(5).tobytes()
    ),
    "names too many": forged(
        table([1, 5], __metadata__={"kfed": '{"feature_names": ["a", "b", "c"]}'}), np.ones(5).tobytes()
    ),
    "a huge shape": forged(table([2**40, 2**20])),
    "a huge shape over few bytes": forged(table([2**40, 2**20], n_bytes=32), np.ones(4).tobytes()),
    "a shape that overflows": forged(table([2**33, 2**33], n_bytes=32), np.ones(4).tobytes()),
    "a shape that wraps to nothing": forged(table([2**32, 2**32], n_bytes=0)),
    "no rows of endless length": forged(table([0, 2**62])),
    "no rows of great length": forged(table([0, 10**12])),
    "a negative shape": forged(table([-1, 4], n_bytes=32), np.ones(4).tobytes()),
    "a fractional shape": forged(table([1.5, 4], n_bytes=32), np.ones(4).tobytes()),
    "one axis": forged(table([4]), np.ones(4).tobytes()),
    "three axes": forged(table([1, 1, 4]), np.ones(4).tobytes()),
    "no features": forged(table([1, 3]), np.ones(3).tobytes()),
    "too few columns": forged(table([1, 2]), np.ones(2).tobytes()),
    "whole numbers": forged(table([1, 4], "I64"), np.ones(4, int).tobytes()),
    "flags": forged(table([1, 4], "BOOL", n_bytes=4), b"\1\1\1\1"),
    "half precision": forged(table([1, 4], "F16", n_bytes=8), np.ones(4, np.float16).tobytes()),
    "brain floats": forged(table([1, 4], "BF16", n_bytes=8), b"\0" * 8),
    "an unknown type": forged(table([1, 4], "F8_E4M3", n_bytes=4), b"\0" * 4),
    "no table": forged({}),
    "two tables": forged(
        {
            "kfed1:a": {"dtype": "F64", "shape": [1, 4], "data_offsets": [0, 32]},
            "kfed1:b": {"dtype": "F64", "shape": [1, 4], "data_offsets": [32, 64]},
        },
        np.ones(8).tobytes(),
    ),
    "someone else's tensors": forged(table([1, 4], name="model.weight"), np.ones(4).tobytes()),
    "no device": forged(table([1, 4], name="kfed1:"), np.ones(4).tobytes()),
    "a device of two lines": forged(table([1, 4], name="kfed1:a\nb"), np.ones(4).tobytes()),
    "a device too long": forged(table([1, 4], name="kfed1:" + "x" * 500), np.ones(4).tobytes()),
    "a center not a number": forged(table([1, 4]), np.array([np.nan, 3, 1, 1]).tobytes()),
    "an infinite center": forged(table([1, 4]), np.array([np.inf, 3, 1, 1]).tobytes()),
    "a center too large": forged(table([1, 4]), np.array([1e300, 3, 1, 1]).tobytes()),
    "a count of zero": forged(table([1, 4]), np.array([1.0, 0, 1, 1]).tobytes()),
    "a count negative": forged(table([1, 4]), np.array([1.0, -3, 1, 1]).tobytes()),
    "a count too large": forged(table([1, 4]), np.array([1.0, 1e300, 1, 1]).tobytes()),
    "a count not a number": forged(table([1, 4]), np.array([1.0, np.nan, 1, 1]).tobytes()),
    "a square negative": forged(table([1, 4]), np.array([1.0, 3, -1, 1]).tobytes()),
    "a square missing among others": forged(table([2, 4]), np.array([1.0, 3, 1, 1, 2, 3, np.nan, 1]).tobytes()),
    "two deviations": forged(table([2, 4]), np.array([1.0, 3, 1, 1, 2, 3, 1, 2]).tobytes()),
    "a deviation in one row": forged(table([2, 4]), np.array([1.0, 3, 1, 1, 2, 3, 1, np.nan]).tobytes()),
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_bytes_are_refused(case):
    for read_it in (
        kfed.DeviceMessage.from_bytes,
        kfed.Aggregation.from_bytes,
        kfed.Identity.from_bytes,
        kfed.LocalClustering.from_bytes,
    ):
        with pytest.raises(kfed.MessageError):
            read_it(FORGED[case])


def test_a_message_that_safetensors_can_read_is_what_it_says():
    payload = forged(table([1, 4]), np.array([1.5, 3, 2, 1]).tobytes())
    assert kfed.DeviceMessage.from_bytes(payload) == kfed.DeviceMessage("a", [[1.5]], [3], [2.0], 1.0)


def test_a_message_too_large_is_refused_before_it_is_read(monkeypatch, tmp_path):
    monkeypatch.setattr(kfed.DeviceMessage, "MAX_BYTES", 200)
    payload = kfed.DeviceMessage("a", np.ones((9, 9)), [3] * 9).to_bytes()
    with pytest.raises(kfed.MessageError, match="at most 200 bytes"):
        kfed.DeviceMessage.from_bytes(payload)
    path = tmp_path / "large.kfed"
    path.write_bytes(payload)
    with pytest.raises(kfed.MessageError, match=r"large\.kfed"):
        kfed.DeviceMessage.load(path)


def test_a_newer_format_is_a_version_error():
    newer = forged(table([1, 4], name="kfed3:a"), np.ones(4).tobytes())
    with pytest.raises(kfed.VersionError, match=r"'kfed3'.*reads 'kfed2'"):
        kfed.DeviceMessage.from_bytes(newer)


@pytest.mark.parametrize("kind", ["identity", "aggregation", "local clustering"])
@pytest.mark.parametrize("version", [2, 0, "1", None, [1]])
def test_another_version_is_a_version_error(kind, version):
    tensors, facts = files.decode(payload_of(kind))
    payload = files.encode(tensors, {**facts, "version": version})
    with pytest.raises(kfed.VersionError, match="version"):
        read(kind, payload)


def tampered(kind, tensors=(), facts=()):
    """The bytes of one kind with some of its parts replaced, or left out where None is given."""
    was_tensors, was_facts = files.decode(payload_of(kind))
    parts = {**was_tensors, **dict(tensors)}
    return files.encode(
        {name: np.asarray(part) for name, part in parts.items() if part is not None}, {**was_facts, **dict(facts)}
    )


UNSOUND = [
    ("identity", {"cluster_ids": [0, 2]}, {}),
    ("identity", {"cluster_ids": [-1, 0]}, {}),
    ("identity", {"cluster_ids": [[0, 1]]}, {}),
    ("identity", {"cluster_ids": [0.5, 1.0]}, {}),
    ("identity", {"cluster_ids": [np.nan, 1.0]}, {}),
    ("identity", {"cluster_ids": None}, {}),
    ("identity", {"cluster_centers": [[np.nan, 1.0], [1.0, 1.0]]}, {}),
    ("identity", {"cluster_centers": [1.0, 2.0]}, {}),
    ("identity", {}, {"device_id": 7}),
    ("identity", {}, {"device_id": ""}),
    ("aggregation", {"device_ids": np.frombuffer(b'["a", "b"]', np.uint8)}, {}),
    ("aggregation", {"device_ids": np.frombuffer(b'["c", "b", "a"]', np.uint8)}, {}),
    ("aggregation", {"device_ids": np.frombuffer(b'["a", "a", "b"]', np.uint8)}, {}),
    ("aggregation", {"device_ids": np.frombuffer(b'["a", "b", 3]', np.uint8)}, {}),
    ("aggregation", {"device_ids": np.frombuffer(b'["a", "b", ""]', np.uint8)}, {}),
    ("aggregation", {"device_ids": np.frombuffer(b"[" * 90_000, np.uint8)}, {}),
    ("aggregation", {"device_ids": np.frombuffer(b"7", np.uint8)}, {}),
    ("aggregation", {"device_centers": np.full((3, 2), np.nan)}, {}),
    ("aggregation", {"device_centers": np.ones((3, 2), int)}, {}),
    ("aggregation", {"device_centers": np.ones((2, 2))}, {}),
    ("aggregation", {"device_centers": np.ones(3)}, {}),
    ("aggregation", {"device_centers": None}, {}),
    ("aggregation", {"center_owners": [0, 0, 3]}, {}),
    ("aggregation", {"center_owners": [0, 1, 0]}, {}),
    ("aggregation", {"center_owners": [-1, 0, 0]}, {}),
    ("aggregation", {"center_owners": [0.0, 0.0, 1.0]}, {}),
    ("aggregation", {"center_counts": [1.0, np.nan, 1.0]}, {}),
    ("aggregation", {"center_counts": [1, 0, 1]}, {}),
    ("aggregation", {"center_counts": [1, -5, 1]}, {}),
    ("aggregation", {"sums_of_squares": [1.0, -1.0, 1.0]}, {}),
    ("aggregation", {"spectral_deviations": [1.0, np.inf, 1.0]}, {}),
    ("aggregation", {"is_double": [1.0, 1.0, 1.0]}, {}),
    ("aggregation", {"is_named": [True]}, {}),
    ("aggregation", {"center_labels": [0, 1, 2]}, {}),
    ("aggregation", {"center_labels": [0, 1]}, {}),
    ("aggregation", {"cluster_centers": np.full((2, 2), np.inf)}, {}),
    ("aggregation", {"cluster_centers": np.ones((2, 3))}, {}),
    ("aggregation", {"initial_centers": np.ones((1, 2))}, {}),
    ("aggregation", {"traversal": np.ones((1, 1))}, {}),
    ("aggregation", {"traversal": [np.nan]}, {}),
    ("aggregation", {}, {"rule": "guess"}),
    ("aggregation", {}, {"rule": ["paper"]}),
    ("aggregation", {}, {"first_device": "nobody"}),
    ("aggregation", {}, {"first_device": ["b"]}),
    ("aggregation", {}, {"feature_names": ["x"]}),
    ("aggregation", {}, {"kind": "message"}),
    ("local clustering", {"labels": [0, 1, 2]}, {}),
    ("local clustering", {"labels": [-1]}, {}),
    ("local clustering", {"labels": [0.5]}, {}),
    ("local clustering", {"labels": [[0, 1]]}, {}),
    ("local clustering", {"labels": None}, {}),
    ("local clustering", {"centers": np.full((2, 2), np.nan)}, {}),
    ("local clustering", {"centers": np.ones((3, 2))}, {}),
    ("local clustering", {"centers": np.ones(2)}, {}),
    ("local clustering", {"counts": [1]}, {}),
    ("local clustering", {"counts": [-1, -1]}, {}),
    ("local clustering", {"withheld": [False]}, {}),
    ("local clustering", {"sums_of_squares": [1.0, 2.0, 3.0]}, {}),
    ("local clustering", {}, {"feature_names": ["x"]}),
    ("local clustering", {}, {"spectral_deviation": "much"}),
]


@pytest.mark.parametrize(("kind", "tensors", "facts"), UNSOUND)
def test_parts_that_do_not_fit_together_are_refused(kind, tensors, facts):
    assert read(kind, tampered(kind)) is not None
    with pytest.raises(kfed.MessageError):
        read(kind, tampered(kind, tensors, facts))


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
