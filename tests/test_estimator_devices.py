"""scikit-learn's surface on devices: in one table with groups, or as a list of tables."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

import kfed
from estimator_tables import (
    N_CLUSTERS,
    assert_same_model,
    federated,
    groups,  # noqa: F401
    mixture,  # noqa: F401
    table,  # noqa: F401
)
from kfed import KFed


# Devices --------------------
def test_an_aggregation_serves_a_late_device(mixture, table, groups):
    model = federated().fit(table, groups=groups)
    late = kfed.cluster_device(mixture[0][3] + 0.01, 2, random_state=1)
    identity = model.aggregation_.assign(late.to_message("late"))
    np.testing.assert_array_equal(late.induced_labels(identity), model.labels_[groups == 3])


# Devices


def test_a_list_of_tables_equals_groups(mixture, table, groups):
    by_list, by_group = federated().fit(mixture[0]), federated().fit(table, groups=groups)
    assert_same_model(by_list, by_group)
    assert by_list.device_ids_ == by_group.device_ids_ == list("0123456")
    assert_same_model(federated().fit(tuple(mixture[0])), by_list)
    assert_same_model(federated().fit([own.tolist() for own in mixture[0]]), by_list)


def test_a_list_can_mix_dense_sparse_and_frames(mixture):
    kinds = [np.asarray, sparse.csr_matrix, sparse.coo_array, np.asfortranarray, np.asarray, list, np.asarray]
    mixed = [kind(own) for kind, own in zip(kinds, mixture[0], strict=True)]
    model = federated().fit(mixed)
    assert_same_model(model, federated().fit(mixture[0]), tolerance=1e-10)
    np.testing.assert_array_equal(model.predict(mixed), model.labels_)


def test_a_list_that_mixes_precisions_is_answered_in_the_finer_one(mixture):
    mixed = [own.astype(np.float32 if device < 3 else np.float64) for device, own in enumerate(mixture[0])]
    model = federated().fit(mixed)
    assert model.cluster_centers_.dtype == model.transform(mixed).dtype == np.float64
    assert adjusted_rand_score(mixture[1], model.labels_) == 1


def test_the_order_of_devices_and_their_mingling_change_nothing(table, groups):
    rng = np.random.default_rng(1)
    model = federated().fit(table, groups=groups)
    order = np.concatenate([np.flatnonzero(groups == device) for device in rng.permutation(7)])
    mingled = np.argsort(np.concatenate([np.sort(rng.random(size)) for size in np.bincount(groups)]))
    for rows in (order, mingled):
        other = federated().fit(table[rows], groups=groups[rows])
        np.testing.assert_array_equal(other.cluster_centers_, model.cluster_centers_)
        np.testing.assert_array_equal(other.labels_, model.labels_[rows])


def test_the_order_of_a_list_changes_no_cluster(mixture):
    tables, target = mixture
    model = federated().fit(tables[::-1])
    flipped = np.concatenate(np.split(target, np.cumsum([len(own) for own in tables])[:-1])[::-1])
    assert adjusted_rand_score(flipped, model.labels_) == 1


@pytest.mark.parametrize(
    "kind",
    [
        list,
        np.float64,
        pd.Series,
        pl.Series,
        lambda groups: groups.astype(str),
        lambda groups: groups.astype(object),
        lambda groups: pd.Series(groups).astype("category"),
        lambda groups: pd.Series([f"site {group}" for group in groups]),
        lambda groups: np.datetime64("2026-01-01") + groups,
    ],
)
def test_groups_can_be_anything_that_names_a_device(kind, mixture, table, groups):
    model = federated().fit(table, groups=kind(groups))
    assert adjusted_rand_score(mixture[1], model.labels_) == 1
    assert model.device_ids_ == [str(group) for group in np.unique(np.asarray(kind(groups)))]
    assert sorted(model.device_ids_) == list(model.aggregation_.messages.device_ids)


def test_groups_of_truth_values_are_two_devices(table, groups):
    model = federated(n_local_clusters=N_CLUSTERS).fit(table, groups=groups > 3)
    assert model.device_ids_ == ["False", "True"]


def test_groups_of_mixed_types_are_named_by_their_str(table, groups):
    mixed = np.array([group if group < 3 else f"site {group}" for group in groups.tolist()], dtype=object)
    assert federated().fit(table, groups=mixed).device_ids_ == [
        "0",
        "1",
        "2",
        *(f"site {i}" for i in range(3, 7)),
    ]


def test_devices_send_summaries_by_default(mixture):
    model = KFed(4, random_state=0).fit(mixture[0])
    assert model.aggregation_.rule == "pooled"
    assert KFed(4, 2, random_state=0).fit(mixture[0]).aggregation_.rule == "paper"


def test_each_device_can_look_for_its_own_number_of_clusters(table, groups):
    sites = np.array([f"site{group}" for group in groups])
    numbers = [1, 2, 3, 4, 3, 2, 1]
    named = {f"site{position}": number for position, number in enumerate(numbers)}
    model = federated(n_local_clusters=numbers).fit(table, groups=sites)
    sent = np.bincount(model.aggregation_.messages.owners)
    assert sent.tolist() == numbers
    assert_same_model(federated(n_local_clusters=named).fit(table, groups=sites), model)
    by_position = federated(n_local_clusters=np.array(numbers)).fit(table, groups=groups)
    assert_same_model(federated(n_local_clusters=dict(enumerate(numbers))).fit(table, groups=groups), by_position)


def test_a_device_with_fewer_rows_than_local_clusters_is_served(mixture):
    tables, _ = mixture
    model = federated(n_local_clusters=3).fit([tables[0], *tables, tables[0][:1]])
    assert model.labels_[-1] == model.labels_[0]
    assert model.aggregation_.messages.message("8").n_local_clusters == 0
