"""The scale on which all sites are compared: exact for honest sites, and not at the mercy of a single one."""

import numpy as np
import pytest

import kfed
from kfed.device import cluster_columns
from kfed.server import aggregate_batch
from kfed.wire import Column, CommonScale, Details, DeviceMessage, FeatureSchema, MessageBatch

SCHEMA = FeatureSchema.of_columns([Column("a"), Column("b"), Column("on", "flag")])


def rows(seed, n_rows=60):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(5, 2, n_rows), rng.normal(0, 300, n_rows), rng.random(n_rows) < 0.3])


def messages(sizes):
    return [
        cluster_columns(rows(i, n), SCHEMA, 2, random_state=0, min_cluster_size=1).to_message(f"{i}")
        for i, n in enumerate(sizes)
    ]


@pytest.mark.parametrize("sizes", [[60] * 8, [20, 40, 90, 140], [30, 300]])
def test_the_scale_is_that_of_all_rows_in_one_place(sizes):
    found = MessageBatch.of(messages(sizes)).scale
    every = np.concatenate([rows(i, n) for i, n in enumerate(sizes)])
    np.testing.assert_allclose(found.shift, every.mean(axis=0))
    np.testing.assert_allclose(found.scale, every.std(axis=0))


def attacker(center, count, squares):
    center = np.array([center], float)
    details = Details(observed=np.full((1, 3), float(count)), squares=np.array([squares], float))
    return DeviceMessage("attacker", center, [count], [float(np.sum(squares))], schema=SCHEMA, details=details)


@pytest.mark.parametrize(
    "sent",
    [
        attacker([5, 0, 0.3], 2**50, [0, 0, 0]),  # all weight, no spread: every column would count a million times
        attacker([5, 1e12, 0.3], 60, [240, 0, 12]),  # one far center: the column would not count any more
        attacker([5, 0, 0.3], 60, [240, 1e30, 12]),  # one wide group: the same
        attacker([5, 0, 1e9], 2**50, [240, 5e6, 0]),
    ],
)
def test_one_device_cannot_move_the_scale_of_all_by_much(sent):
    honest = messages([60] * 8)
    usual = MessageBatch.of(honest).scale.scale
    ratios = MessageBatch.of([*honest, sent]).scale.scale / usual
    assert (ratios > 0.65).all()
    assert (ratios < 10.5).all()


def test_an_aggregation_keeps_the_scale_that_it_was_made_on():
    result = aggregate_batch(MessageBatch.of(messages([20, 20, 500])), 2, "robust")
    again = kfed.Aggregation.from_bytes(result.to_bytes())
    assert again == result
    np.testing.assert_array_equal(again.cluster_centers, result.cluster_centers)


def test_an_aggregation_from_before_scales_were_bounded_has_its_own():
    result = aggregate_batch(MessageBatch.of(messages([20, 20, 500])), 2, "robust")
    tensors, facts = result._parts()
    old = {name: array for name, array in tensors.items() if name not in ("shift", "scale")}
    again = kfed.Aggregation._restored(old, facts)
    every = np.concatenate([rows(i, n) for i, n in enumerate([20, 20, 500])])
    np.testing.assert_allclose(again.scale.scale, every.std(axis=0))


def test_a_scale_of_a_category_is_found_where_most_sites_lack_a_level():
    schemas = [FeatureSchema.of_columns([Column("c", "category", ("p", "q") if i else ("p",))]) for i in (0, 0, 0, 1)]
    sent = [
        DeviceMessage(
            f"{i}",
            [[0.5, 0.5]] if len(own.names) == 2 else [[1.0]],
            [40],
            [20.0],
            schema=own,
            details=Details(observed=np.full((1, len(own.names)), 40.0), squares=np.full((1, len(own.names)), 5.0)),
        )
        for i, own in enumerate(schemas)
    ]
    found = MessageBatch.of(sent).scale
    assert isinstance(found, CommonScale)
    assert (found.scale > 0.3).all()


def test_what_is_on_the_common_scale_stays_there():
    sent = messages([60] * 5)
    sent.append(cluster_columns(rows(9) * [3, 1, 0], SCHEMA, 2, random_state=0, min_cluster_size=1).to_message("far"))
    once = MessageBatch.of(sent).rescaled
    assert np.array_equal(once.rescaled.centers, once.centers)
    assert np.array_equal(once.rescaled.sums_of_squares, once.sums_of_squares)
