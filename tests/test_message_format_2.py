"""Messages of format 2: columns of tables, details beside the centers, and the scale that follows from them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kfed
from kfed.wire import Column, CommonScale, Details, DeviceMessage, FeatureSchema, MessageBatch, Promise, from_parts

TABLE = FeatureSchema.of_columns([Column("age", unit="years"), Column("stage", "category", ("I", "II"))])
CELLS = {"observed": np.full((2, 3), 5.0), "squares": np.ones((2, 3))}


def table_message(device_id="north", schema=TABLE, centers=((40.0, 0.2, 0.8), (60.0, 1.0, 0.0)), counts=(5, 6), **more):
    details = Details(**{**CELLS, **more})
    return DeviceMessage(device_id, np.array(centers), counts, schema=schema, details=details)


def sent(rows, device_id, schema, n_clusters=2):
    """The message of a device that has these rows in two clusters, cut in the middle; NaN is a missing cell."""
    parts = np.array_split(rows, n_clusters)
    observed = np.array([(~np.isnan(part)).sum(axis=0) for part in parts], float)
    centers = np.array([np.nansum(part, axis=0) for part in parts]) / np.maximum(observed, 1)
    squares = np.array([np.nansum((part - center) ** 2, axis=0) for part, center in zip(parts, centers, strict=True)])
    details = Details(observed=observed, squares=squares)
    return DeviceMessage(device_id, centers, [len(part) for part in parts], schema=schema, details=details)


def test_a_message_with_everything_comes_back_from_its_bytes():
    message = table_message(
        groups=np.array([0, 0]),
        noise=np.full((2, 2), 0.5),
        scatter=np.eye(3),
        n_left_out=4,
        promise=Promise(1.0, 1e-6, 0.2, 3.0),
    )
    again = DeviceMessage.from_bytes(message.to_bytes())
    assert again == message
    assert again.schema == TABLE
    assert again.details.promise == Promise(1.0, 1e-6, 0.2, 3.0)
    assert again.details.n_left_out == 4
    for name, array in message.details.tensors().items():
        np.testing.assert_array_equal(getattr(again.details, name), array, strict=True)
        assert not getattr(again.details, name).flags.writeable


def test_a_message_without_details_is_written_as_before():
    message = DeviceMessage("a", [[1.0, 2.0]], [3], [1.0], 2.0, ["x", "y"])
    assert message.to_bytes()[8:40].startswith(b'{"__metadata__"')
    assert b"kfed1:a" in message.to_bytes()
    assert not message.is_format_2


@pytest.mark.parametrize(
    "wrong",
    [
        {"observed": np.full((2, 2), 5.0)},
        {"observed": np.full((2, 3), 7.0)},
        {"observed": np.full((2, 3), -1.0)},
        {"observed": np.zeros((2, 3))},
        {"squares": np.full((2, 3), np.nan)},
        {"squares": np.full((2, 3), np.inf)},
        {"groups": np.array([0, 2])},
        {"groups": np.array([0.0, 1.0])},
        {"noise": np.ones(2)},
        {"scatter": np.ones((3, 2))},
        {"scatter": np.full((3, 3), np.nan)},
        {"n_left_out": -1},
        {"n_left_out": 1.5},
    ],
    ids=str,
)
def test_details_that_no_device_may_send_are_refused(wrong):
    with pytest.raises(kfed.InvalidInputError):
        table_message(**wrong)


@pytest.mark.parametrize("missing", ["observed", "squares"])
def test_a_message_in_the_units_of_a_table_says_how_its_columns_spread(missing):
    with pytest.raises(kfed.InvalidInputError, match="must have `observed` and `squares`"):
        table_message(**{missing: None})


@given(
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=3),
    bits=st.sampled_from([None, 4]),
)
def test_damaged_bytes_are_refused_or_a_message(flips, bits):
    whole = table_message(groups=np.array([0, 1]), noise=np.ones((2, 2)))
    damaged = bytearray((whole if bits is None else whole.quantised(bits)).to_bytes())
    for place, bits in flips:
        damaged[place % len(damaged)] ^= bits
    try:
        message = DeviceMessage.from_bytes(bytes(damaged))
    except (kfed.MessageError, kfed.InvalidInputError):
        return
    assert DeviceMessage.from_bytes(message.to_bytes()) == message


@given(seed=st.integers(0, 10_000), bits=st.sampled_from([4, 8, 16]), by_column=st.booleans())
def test_rounded_centers_are_as_near_as_the_message_says_and_come_back_bit_for_bit(seed, bits, by_column):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(4, 3)) * 10.0 ** rng.integers(-5, 6, size=(1, 3) if by_column else (4, 1))
    if by_column:
        exact = table_message(centers=centers, counts=[5] * 4, observed=np.full((4, 3), 5.0), squares=np.ones((4, 3)))
    else:
        exact = DeviceMessage("a", centers, [5] * 4, [1.0] * 4)
    rounded = exact.quantised(bits)
    slack = 2 * np.spacing(np.abs(centers).astype(np.float32).max())
    assert (np.abs(rounded.centers - exact.centers) <= rounded.rounding + slack).all()
    assert DeviceMessage.from_bytes(rounded.to_bytes()) == rounded
    if bits == 16:
        assert (rounded.rounding <= np.ptp(centers, axis=0 if by_column else 1, keepdims=True) / 2**16).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_twenty_centers_of_784_features_take_at_most_16_and_a_half_kilobytes(dtype):
    centers = np.random.default_rng(0).normal(size=(20, 784)).astype(dtype)
    message = DeviceMessage("device-0001", centers, [30] * 20, [1.0] * 20, 2.0)
    rounded = message.quantised(8)
    assert len(rounded.to_bytes()) <= 16_500
    assert (np.abs(rounded.centers - centers) <= rounded.rounding).all()


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("far", [2024.0, 1e6, -1e9])
def test_a_column_that_lies_far_away_does_not_round_the_others_away(bits, far):
    centers = np.random.default_rng(0).normal(size=(8, 300))
    centers[:, 7] = far
    rounded = DeviceMessage("a", centers, [5] * 8, [1.0] * 8).quantised(bits)
    off = np.abs(rounded.centers - centers)
    assert (off <= rounded.rounding).all()
    assert np.delete(rounded.rounding, 7, axis=1).max() < 0.5
    assert DeviceMessage.from_bytes(rounded.to_bytes()) == rounded


def test_counts_that_single_precision_does_not_hold_stay_exact_beside_rounded_centers():
    message = DeviceMessage("a", np.arange(6.0).reshape(2, 3), [2**24 + 1, 5], [1.0, 2.0])
    rounded = message.quantised(8)
    assert rounded.counts.tolist() == [2**24 + 1, 5]
    assert DeviceMessage.from_bytes(rounded.to_bytes()) == rounded


def test_a_message_is_rounded_to_4_8_or_16_bits_and_only_once():
    with pytest.raises(kfed.InvalidInputError, match="bits must be 4, 8 or 16; got 6"):
        table_message().quantised(6)
    with pytest.raises(kfed.InvalidInputError, match="were rounded already"):
        table_message().quantised(8).quantised(16)


@pytest.mark.parametrize("n_features", [1, 8, 9, 784])
def test_two_numbers_of_4_bits_share_a_byte_and_columns_of_zeros_take_no_room(n_features):
    rng = np.random.default_rng(0)
    centers = np.where(rng.random(n_features) < 0.6, rng.random((12, n_features)), 0)
    rounded = DeviceMessage("a", centers, [5] * 12, [1.0] * 12).quantised(4)
    sent = rounded.details.on_wire()
    n_kept = max(int(centers.any(axis=0).sum()), -(-n_features // 4))
    assert (rounded.details.bits, sent["packed"].shape) == (4, (12, -(-n_kept // 2)))
    assert sent["columns"].nbytes == -(-n_features // 8)
    assert not rounded.centers[:, ~centers.any(axis=0)].any() or n_features == 1
    assert DeviceMessage.from_bytes(rounded.to_bytes()) == rounded
    assert (np.abs(rounded.centers - centers) <= rounded.rounding).all()


def test_errors_of_4_bits_average_out_over_devices():
    center = np.random.default_rng(0).random((1, 200)) ** 3
    each = [DeviceMessage(f"{i}", center, [5]).quantised(4).centers[0] for i in range(400)]
    one, all_of_them = np.abs(each[0] - center).max(), np.abs(np.mean(each, axis=0) - center).max()
    assert one > np.ptp(center) / 30
    assert all_of_them < one / 8
    assert np.array_equal(each[0], DeviceMessage("0", center, [5]).quantised(4).centers[0])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"columns": np.array([0x80, 0], np.uint8)}, "at least one in 4"),
        ({"columns": np.array([0xFF], np.uint8)}, "a bit for each of 9"),
        ({"packed": np.zeros((3, 4), np.uint8)}, "half a byte for each center"),
        ({"packed": np.full((3, 5), 0xFF, np.uint8)}, "zero beyond their last values"),
        ({"codes": np.zeros((3, 9), np.uint8)}, "without codes"),
        ({"kept": np.ones(9, np.uint8)}, "does not know: upgrade kfed"),
    ],
)
def test_packed_centers_that_do_not_fit_are_refused(change, complaint):
    whole = DeviceMessage("a", np.random.default_rng(0).normal(size=(3, 9)), [5, 6, 7]).quantised(4)
    tensors = {"kfed2:a": whole.table[:, -3:], **whole.details.on_wire()} | change
    with pytest.raises(kfed.MessageError, match=complaint):
        from_parts(DeviceMessage, tensors, whole.details.facts())


# Summaries, many at once ----------------------------------------------------------------------------------------


def summaries(n=4, **about):
    rng = np.random.default_rng(0)
    return [
        DeviceMessage(f"d{i}", rng.normal(size=(3, 2)), [5, 6, 7], [1.0] * 3, details=Details(is_summary=True), **about)
        for i in range(n)
    ]


@pytest.mark.parametrize("about", [{}, {"feature_names": ["x", "y"]}])
@pytest.mark.parametrize("beside", ["nothing", "format 1", "details"])
def test_many_summaries_are_read_at_once_as_they_are_one_by_one(about, beside):
    sent = summaries(**about)
    if beside == "format 1":
        sent.append(DeviceMessage("z", [[1.0, 2.0]], [9], [1.0]))
    elif beside == "details":
        sent.append(sent.pop().quantised(8))
    batch = MessageBatch.of_bytes(message.to_bytes() for message in sent)
    assert (batch.details is None) == (beside != "details")
    assert [batch.message(own.device_id) for own in sent] == sent
    assert batch.is_summary.tolist() == [own.details is not None for own in sent]
    assert [batch.without("d0").message(own.device_id) for own in sent[1:]] == sent[1:]
    result = kfed.aggregate(sent, 2)
    assert result.rule == "pooled"
    assert kfed.Aggregation.from_bytes(result.to_bytes()) == result


@pytest.mark.parametrize("more", [{"n_left_out": 3}, {"is_summary": False}, {"refines": "0" * 32}])
def test_what_says_more_than_that_it_is_a_summary_is_not_read_as_one(more):
    details = Details(**{"is_summary": True, "cluster_ids": np.arange(2) if "refines" in more else None} | more)
    message = DeviceMessage("a", [[1.0], [2.0]], [5, 6], details=details)
    batch = MessageBatch.of_bytes([message.to_bytes()])
    assert batch.details is not None
    assert batch.message("a") == message


def test_a_summary_that_says_so_in_another_type_is_refused_alone_and_among_many():
    odd = summaries(1)[0].to_bytes().replace(b'is_summary\\": true', b'is_summary\\": 1   ')
    with pytest.raises(kfed.MessageError, match="is_summary must be true or false"):
        DeviceMessage.from_bytes(odd)
    with pytest.raises(kfed.MessageError, match="is_summary must be true or false"):
        MessageBatch.of_bytes([odd])


# Columns by name ------------------------------------------------------------------------------------------------


def test_columns_in_another_order_and_other_levels_are_brought_together_by_name():
    other = FeatureSchema.of_columns([Column("stage", "category", ("II", "III")), Column("age")])
    south = table_message("south", other, centers=((0.4, 0.6, 70.0), (0.0, 1.0, 20.0)))
    batch = MessageBatch.of([table_message(), south])
    assert batch.schema.names == ("age", "stage=I", "stage=II", "stage=III")
    np.testing.assert_array_equal(batch.centers[2:], [[70.0, 0.0, 0.4, 0.6], [20.0, 0.0, 0.0, 1.0]])
    np.testing.assert_array_equal(batch.details.observed, np.full((4, 4), 5.0))
    np.testing.assert_array_equal(batch.details.squares[2:], [[1, 0, 1, 1], [1, 0, 1, 1]])
    assert batch.message("south") == south
    assert batch.without("north").schema == other


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ([Column("age")], "; 'stage' of 'north' is missing at 'south': add it there, or leave it out everywhere$"),
        (
            [*TABLE.columns, Column("bmi")],
            "; 'bmi' of 'south' is unknown to 'north': leave it out there, .*--exclude bmi`$",
        ),
        ([Column("age"), Column("bmi")], "'stage' of 'north' is missing .*; 'bmi' of 'south' is unknown to 'north'"),
        ([Column("AGE"), TABLE.columns[1]], "; 'AGE' of 'south' differs from 'age' of 'north' only in case or spaces"),
        (
            [Column("age"), Column("stage", "date")],
            ": at 'north', write its dates as 2026-01-31, or",
        ),
        ([Column("age", "date"), TABLE.columns[1]], "column 'age' must have the same kind"),
        ([Column("age", unit="months"), TABLE.columns[1]], "column 'age' must have the same unit"),
    ],
)
def test_two_tables_that_differ_are_told_where(columns, said):
    with pytest.raises(kfed.FeatureMismatchError, match=said):
        TABLE.check_same(FeatureSchema.of_columns(columns), "'north'", "'south'")


def test_a_site_that_forgot_the_scale_is_told_how_all_sites_can_prepare_their_tables():
    said = "'north' sent columns in their units .* 'south' sent plain centers: .* the same --scale or --schema file at"
    with pytest.raises(kfed.FeatureMismatchError, match=said):
        TABLE.check_same(FeatureSchema(TABLE.n_features), "'north'", "'south'")


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        (["e"], "; 'stage' of the others is missing at 'e': add it there"),
        (["a"], "; 'stage' of the others is missing at 'a': add it there"),
        (["a", "e"], "; 'stage' of the others is missing at 'a' and 'e': add it there"),
        (
            ["a", "b", "c"],
            "; 'stage' of 'd' and 'e' is unknown to the others: leave it out there, for example .*--exclude stage`$",
        ),
    ],
)
def test_of_many_tables_those_that_differ_from_most_are_named(lacking, said):
    schemas = {name: FeatureSchema.of_columns(TABLE.columns[: 1 + (name not in lacking)]) for name in "abcde"}
    with pytest.raises(kfed.FeatureMismatchError, match=said):
        FeatureSchema.check_all(schemas)


def test_the_units_of_a_table_and_a_scale_of_ones_own_are_not_mixed():
    plain = DeviceMessage("south", [[1.0, 0.0, 0.0]], [5], feature_names=TABLE.names)
    with pytest.raises(kfed.FeatureMismatchError, match="sent columns in their units"):
        MessageBatch.of([table_message(), plain])


def test_equal_schemas_have_one_fingerprint_and_others_another():
    assert FeatureSchema.restored(TABLE.facts()).fingerprint == TABLE.fingerprint
    other = FeatureSchema.of_columns([Column("age", unit="months"), TABLE.columns[1]])
    assert other.fingerprint != TABLE.fingerprint
    assert FeatureSchema(2).fingerprint != FeatureSchema(2, ["a", "b"]).fingerprint


@given(seed=st.integers(0, 10_000))
def test_many_read_at_once_are_the_batch_of_each_read_alone(seed):
    rng = np.random.default_rng(seed)
    schema = FeatureSchema.of_columns([Column("a"), Column("b")])
    messages = [sent(rng.normal(size=(8, 2)), f"{i}", schema) for i in range(4)]
    at_once = MessageBatch.of_bytes(messages[i].to_bytes() for i in rng.permutation(4))
    alone = MessageBatch.of(messages)
    assert at_once.details.messages == alone.details.messages == tuple(messages)
    np.testing.assert_array_equal(at_once.rescaled.centers, alone.rescaled.centers)


# The scale ------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10_000), missing=st.sampled_from([0.0, 0.2]))
def test_the_common_scale_is_that_of_all_rows_in_one_place(seed, missing):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(40, 3)) * [1.0, 1000.0, 0.01] + [0, 500, 3]
    rows[rng.random(rows.shape) < missing] = np.nan
    schema = FeatureSchema.of_columns([Column("a"), Column("b"), Column("c")])
    batch = MessageBatch.of(sent(part, f"{i}", schema) for i, part in enumerate(np.array_split(rows, 4)))
    np.testing.assert_allclose(batch.scale.shift, np.nanmean(rows, axis=0), rtol=1e-9)
    np.testing.assert_allclose(batch.scale.scale, np.nanstd(rows, axis=0), rtol=1e-9)
    np.testing.assert_allclose(batch.scale.undo(batch.scale.apply(rows)), rows, rtol=1e-9, atol=1e-12)
    total = batch.rescaled.sums_of_squares.sum() + batch.details.observed.ravel() @ batch.rescaled.centers.ravel() ** 2
    np.testing.assert_allclose(total, np.isfinite(rows).sum(), rtol=1e-9)  # a variance of one in each column


def test_a_category_weighs_as_much_as_a_number():
    rng = np.random.default_rng(0)
    levels = rng.choice(3, p=[0.6, 0.3, 0.1], size=300)
    rows = np.column_stack([rng.normal(size=300), np.eye(3)[levels]])
    schema = FeatureSchema.of_columns([Column("x"), Column("c", "category", ("a", "b", "c"))])
    scaled = CommonScale.pooled(schema, rows, np.ones(rows.shape), np.zeros(rows.shape)).apply(rows)
    apart = ((scaled[:, None] - scaled[None]) ** 2).mean(axis=(0, 1))
    assert apart[0] == pytest.approx(apart[1:].sum())


def test_a_constant_column_has_no_say():
    schema = FeatureSchema.of_columns([Column("x"), Column("same")])
    rows = np.column_stack([np.arange(8.0), np.full(8, 5.0)])
    batch = MessageBatch.of([sent(rows, "a", schema)])
    assert batch.scale.scale[1] == 1
    assert not batch.rescaled.centers[:, 1].any()


def test_a_column_that_was_not_observed_behind_a_center_is_at_the_mean_of_all():
    schema = FeatureSchema.of_columns([Column("x"), Column("y")])
    rows = np.column_stack([np.arange(8.0), np.arange(8.0) ** 2])
    rows[:4, 1] = np.nan
    batch = MessageBatch.of([sent(rows, "a", schema)])
    assert batch.rescaled.centers[0, 1] == 0


# On the server --------------------------------------------------------------------------------------------------

MEANS = np.array([[40.0, 0.010], [60.0, 0.010], [40.0, 0.050], [60.0, 0.050]])
SCHEMA = FeatureSchema.of_columns([Column("age"), Column("dose")])


def grouped(rows_of_groups, device_id, schema=SCHEMA):
    """The message of a device that knows its groups."""
    means = np.array([rows.mean(axis=0) for rows in rows_of_groups])
    squares = np.array([((rows - mean) ** 2).sum(axis=0) for rows, mean in zip(rows_of_groups, means, strict=True)])
    counts = [len(rows) for rows in rows_of_groups]
    observed = np.broadcast_to(np.array(counts, float)[:, None], means.shape)
    return DeviceMessage(device_id, means, counts, schema=schema, details=Details(observed=observed, squares=squares))


def world(seed=0, n_devices=8):
    """Messages in the units of tables, whose columns differ by a factor of a thousand, and the groups they hold."""
    rng = np.random.default_rng(seed)
    held = [rng.permutation(4)[:2] for _ in range(n_devices)]
    rows = [[MEANS[g] + rng.normal(size=(20, 2)) * [1.0, 0.002] for g in own] for own in held]
    return [grouped(own, f"{i}") for i, own in enumerate(rows)], held


def test_tables_are_aggregated_on_the_scale_that_follows_from_the_messages():
    messages, held = world()
    result = kfed.aggregate(messages, 4)
    truth = np.concatenate(held)
    assert len({*zip(result.center_labels.tolist(), truth.tolist(), strict=True)}) == 4
    order = [result.center_labels[np.flatnonzero(truth == g)[0]] for g in range(4)]
    np.testing.assert_allclose(result.cluster_centers[order], MEANS, rtol=0.1)
    without_scale = [DeviceMessage(m.device_id, m.centers, m.counts) for m in messages]
    found = kfed.aggregate(without_scale, 4).center_labels
    assert len({*zip(found.tolist(), truth.tolist(), strict=True)}) > 4


def test_an_aggregation_of_tables_comes_back_from_its_bytes_and_leaves_out_a_device():
    messages, _ = world()
    result = kfed.aggregate(messages, 4)
    again = kfed.Aggregation.from_bytes(result.to_bytes())
    assert again == result
    np.testing.assert_array_equal(again.cluster_centers, result.cluster_centers)
    assert again.identity("3") == result.identity("3")
    assert result.without("3") == kfed.aggregate([m for m in messages if m.device_id != "3"], 4)


def test_the_answer_holds_what_labels_the_rows_of_a_table_and_comes_back_from_its_bytes():
    messages, held = world()
    result = kfed.aggregate(messages[1:], 4)
    answer = result.answer(messages[0])
    assert kfed.Identity.from_bytes(answer.to_bytes()) == answer
    assert answer.scale == result.scale
    like = next(m for m, own in zip(messages[1:], held[1:], strict=True) if held[0][0] in own)
    same = list(held[int(like.device_id)]).index(held[0][0])
    assert answer.cluster_ids[0] == result.identity(like.device_id).cluster_ids[same]
    np.testing.assert_array_equal(answer.nearest(messages[0].centers, messages[0].schema), answer.cluster_ids)


def test_a_late_table_may_have_columns_in_another_order_and_levels_of_its_own():
    rng = np.random.default_rng(1)
    first = FeatureSchema.of_columns([Column("x"), Column("c", "category", ("p", "q"))])
    other = FeatureSchema.of_columns([Column("c", "category", ("q", "z")), Column("x")])
    low, high = np.array([[0.0, 1.0, 0.0]]), np.array([[5.0, 0.0, 1.0]])
    noise = rng.normal(size=(30, 1)) * [1, 0, 0]
    result = kfed.aggregate([grouped([low + noise, high + noise], f"{i}", first) for i in range(3)], 2)
    late = grouped([np.array([[1.0, 0.0, 5.0]]) + noise[:, [1, 2, 0]]], "late", other)
    assert result.assign(late).cluster_ids[0] == result.identity("0").cluster_ids[1]


def test_a_region_of_tables_sends_what_its_devices_would_have_sent_together():
    messages, _ = world()
    region = kfed.aggregate(messages, 4)
    sent_up = region.to_message("region")
    batch, parts = MessageBatch.of([sent_up]), MessageBatch.of(messages)
    np.testing.assert_allclose(batch.scale.shift, parts.scale.shift)
    np.testing.assert_allclose(batch.scale.scale, parts.scale.scale)
