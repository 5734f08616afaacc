"""Bytes that are not sound: cut short, flipped, overwritten or forged, they are refused, or give something sound."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kfed
from kfed._base import files
from payloads import KINDS, forged, payload_of, table

# Bytes that are not sound ---------------------------------------------------------------------------------------


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


# A fifth of the bits has every bit of a byte: 5 and 8 have no common divisor.
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(1, 5))])
@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_refused_or_gives_something_sound(kind, first):
    payload = payload_of(kind)
    n_refused = 0
    positions = range(first, 8 * len(payload), 5)
    for position in positions:
        flipped = bytearray(payload)
        flipped[position // 8] ^= 1 << (position % 8)
        try:
            found = read(kind, bytes(flipped))
        except kfed.MessageError:
            n_refused += 1
        else:
            use(found)
    assert n_refused > 0.2 * len(positions)


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
    monkeypatch.setattr(kfed.DeviceMessage, "_max_bytes", 200)
    payload = kfed.DeviceMessage("a", np.ones((9, 9)), [3] * 9).to_bytes()
    with pytest.raises(kfed.MessageError, match="at most 200 bytes"):
        kfed.DeviceMessage.from_bytes(payload)
    path = tmp_path / "large.kfed"
    path.write_bytes(payload)
    with pytest.raises(kfed.MessageError, match=r"large\.kfed"):
        kfed.DeviceMessage.load(path)


def test_a_newer_format_is_a_version_error():
    newer = forged(table([1, 4], name="kfed3:a"), np.ones(4).tobytes())
    with pytest.raises(kfed.VersionError, match=r"'kfed3'.*reads formats up to 'kfed2'"):
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
