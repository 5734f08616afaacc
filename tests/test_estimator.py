"""The estimators keep scikit-learn's contract, and say what the functions of the library say."""

import pickle
import warnings
from contextlib import nullcontext

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import kfed
from consoles import printed_by
from estimator_tables import (
    N_CLUSTERS,
    assert_same_model,
    federated,
    groups,  # noqa: F401
    mixture,  # noqa: F401
    models,
    table,  # noqa: F401
)
from kfed import KFed, LocalKMeans

SHUFFLED_WEIGHTS = {
    f"check_sample_weight_equivalence_on_{kind}_data": "the order of the rows decides which seeds are drawn"
    for kind in ("dense", "sparse")
}


# scikit-learn's own checks


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # some checks repeat rows
@parametrize_with_checks([LocalKMeans(8), KFed(4)], expected_failed_checks=lambda _: SHUFFLED_WEIGHTS)
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [LocalKMeans(), KFed(), KFed(n_clusters=2, rule="robust")],
    expected_failed_checks=lambda _: SHUFFLED_WEIGHTS,
)
def test_passes_the_checks_of_scikit_learn_without_a_number_and_by_another_rule(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_passes_the_check_of_scikit_learn_that_needs_array_dispatch():
    """Above it is skipped: SciPy must be told before it is imported, so this has a process of its own."""
    code = """
import os; os.environ["SCIPY_ARRAY_API"] = "1"
from sklearn.utils.estimator_checks import check_array_api_input
from kfed import KFed, LocalKMeans
for model in (LocalKMeans(8), KFed(4)):
    check_array_api_input(type(model).__name__, model, "numpy", expect_only_array_outputs=False)
    print(type(model).__name__)
"""
    assert printed_by(code) == ["LocalKMeans", "KFed"]


@pytest.mark.parametrize("excused", SHUFFLED_WEIGHTS)
def test_kmeans_of_scikit_learn_fails_the_checks_that_are_excused_here(excused):
    with pytest.raises(AssertionError):
        getattr(estimator_checks, excused)("KMeans", KMeans(n_init=1))


# What the models are


def test_local_kmeans_is_cluster_device():
    X = load_digits().data
    model = LocalKMeans(n_clusters=10, random_state=3).fit(X)
    local = kfed.cluster_device(X, 10, random_state=3)
    np.testing.assert_array_equal(model.cluster_centers_, local.centers)
    assert adjusted_rand_score(model.labels_, local.labels) == 1
    assert model.inertia_ == pytest.approx(local.cost)
    assert model.n_iter_ == local.n_iterations


def test_kfed_without_groups_is_local_kmeans(table):
    local, central = (model.fit(table) for model in models(n_clusters=9))
    assert_same_model(central, local)
    assert central.inertia_ == local.inertia_
    np.testing.assert_array_equal(central.aggregation_.cluster_centers, local.cluster_centers_)


def test_kfed_is_cluster_fleet_then_aggregate_then_induced_labels(mixture):
    tables, _ = mixture
    names = [str(position) for position in range(7)]
    fleet = kfed.cluster_fleet(tables, 2, device_ids=names, random_state=0)
    pairs = list(zip(fleet, names, strict=True))
    result = kfed.aggregate([local.to_message(name) for local, name in pairs], N_CLUSTERS)
    labels = [local.induced_labels(result.identity(name)) for local, name in pairs]
    model = federated(measure_deviation=True).fit(tables)
    assert model.aggregation_ == result
    np.testing.assert_array_equal(model.labels_, np.concatenate(labels))
    np.testing.assert_array_equal(model.cluster_centers_, result.cluster_centers)
    assert model.n_iter_ == max(local.n_iterations for local in fleet)


@pytest.mark.parametrize("rule", ["paper", "robust"])
def test_separated_clusters_are_found(mixture, table, groups, rule):
    model = federated(rule=rule).fit(table, groups=groups)
    assert adjusted_rand_score(mixture[1], model.labels_) == 1
    np.testing.assert_array_equal(model.predict(table), model.labels_)


@pytest.mark.parametrize("max_iter", [1, 300])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, np.float32], ids=["dense", "sparse", "single"])
def test_labels_of_one_device_are_what_predict_says(convert, max_iter):
    X = convert(load_digits().data)
    for model in models(n_clusters=10, max_iter=max_iter):
        with nullcontext() if max_iter > 1 else pytest.warns(ConvergenceWarning):
            model.fit(X)
        np.testing.assert_array_equal(model.labels_, model.predict(X))
        assert model.score(X) == -model.inertia_


def test_inertia_is_the_cost_of_the_labels():
    X = load_digits().data
    weights = np.random.default_rng(0).integers(1, 4, len(X))
    model = KFed(10, 3, random_state=0).fit(X, groups=np.arange(len(X)) % 30, sample_weight=weights)
    cost = weights @ ((X - model.cluster_centers_[model.labels_]) ** 2).sum(axis=1)
    assert model.inertia_ == pytest.approx(cost)
    assert -model.score(X, sample_weight=weights) <= model.inertia_


def test_one_device_sends_nothing_so_a_lone_row_can_be_a_cluster():
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [100.0, 0.0]])
    model = KFed(n_clusters=2, min_cluster_size=3, random_state=0).fit(X)
    assert model.cluster_centers_.max() == 100
    with pytest.raises(kfed.TooFewCentersError):
        model.set_params(n_local_clusters=2).fit(X, groups=[0, 0, 0, 0])


def test_there_are_no_more_centers_than_distinct_rows():
    X = np.repeat(np.eye(3), 4, axis=0)
    for model in models(n_clusters=5):
        with pytest.warns(ConvergenceWarning, match="3 distinct clusters, fewer than n_clusters=5"):
            model.fit(X)
        assert model.cluster_centers_.shape == (3, 3)
        assert model.inertia_ == pytest.approx(0, abs=1e-20)
        assert len(np.unique(model.labels_)) == 3
        assert model.transform(X).shape == (12, 3)
        assert len(model.get_feature_names_out()) == 3
    assert model.aggregation_.n_clusters == 3


def test_a_center_of_nothing_is_never_predicted():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0)
    between = np.array([[0.5, 0.5], [0.4, 0.6]])
    for model in models(n_clusters=4):
        with pytest.warns(ConvergenceWarning, match="2 distinct clusters"):
            model.fit(X)
        assert set(model.predict(between)) <= set(model.labels_)
    with pytest.warns(ConvergenceWarning, match="2 distinct clusters"):
        spread = KFed(4, 2, min_cluster_size=1, random_state=0).fit(X, groups=np.tile([0, 1], 10))
    assert set(spread.predict(np.concatenate([X, between]))) <= set(spread.labels_)
    assert len(spread.cluster_centers_) == spread.aggregation_.n_clusters


def test_a_fit_that_is_cut_short_says_so(table, groups):
    noise = np.random.default_rng(0).normal(size=(300, 4))
    for fit in (
        lambda: LocalKMeans(8, max_iter=2, random_state=0).fit(noise),
        lambda: KFed(8, max_iter=2, random_state=0).fit(noise),
        lambda: KFed(4, 4, max_iter=2, random_state=0).fit(noise, groups=np.arange(300) % 3),
    ):
        with pytest.warns(ConvergenceWarning, match="stopped at max_iter=2"):
            assert fit().n_iter_ == 2
    federated().fit(table, groups=groups)  # a warning would be an error


def test_a_search_that_loses_the_groups_says_so(table, groups):
    search = GridSearchCV(federated(), {"n_clusters": [N_CLUSTERS]}, cv=GroupKFold(2))
    with pytest.warns(kfed.AggregationWarning, match=r"n_local_clusters had no effect: .*set_fit_request"):
        search.fit(table, groups=groups)
    for setting in ({"rule": "robust"}, {"min_cluster_size": 5}):
        with pytest.warns(kfed.AggregationWarning, match=f"{next(iter(setting))} had no effect"):
            KFed(N_CLUSTERS, random_state=0, **setting).fit(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KFed(N_CLUSTERS, random_state=0).fit(table)


def test_more_threads_change_nothing(table, groups):
    model = federated(n_jobs=1).fit(table, groups=groups)
    for n_jobs in (None, 2, -1):
        assert_same_model(federated(n_jobs=n_jobs).fit(table, groups=groups), model)
        assert_same_model(LocalKMeans(4, random_state=0, n_jobs=n_jobs).fit(table), models()[0].fit(table))


# Rows and weights


@pytest.mark.parametrize("with_groups", [True, False])
def test_a_weight_of_n_equals_n_copies(table, groups, with_groups):
    weights = np.random.default_rng(2).integers(0, 4, len(table))
    copies = np.repeat(np.arange(len(table)), weights)
    for model in [federated(), *models(N_CLUSTERS)] if not with_groups else [federated()]:
        devices = {"groups": groups} if with_groups else {}
        weighted = clone(model).fit(table, sample_weight=weights, **devices)
        copied = clone(model).fit(table[copies], **{name: own[copies] for name, own in devices.items()})
        np.testing.assert_array_equal(weighted.labels_[copies], copied.labels_)
        np.testing.assert_allclose(weighted.cluster_centers_, copied.cluster_centers_)
        assert weighted.inertia_ == pytest.approx(copied.inertia_)


def test_weights_come_in_one_piece_or_as_a_list_with_one_array_a_device(mixture, table, groups):
    weights = [np.linspace(1, 2, len(own)) for own in mixture[0]]
    model = federated().fit(mixture[0], sample_weight=weights)
    assert_same_model(federated().fit(table, groups=groups, sample_weight=weights), model)
    assert_same_model(federated().fit(mixture[0], sample_weight=np.concatenate(weights)), model)
    assert model.aggregation_.messages.counts.sum() == pytest.approx(np.concatenate(weights).sum())


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix])
def test_dense_equals_sparse(container, groups):
    X = load_digits().data[: len(groups)]
    for model in models():
        dense, thin = clone(model).fit(X), clone(model).fit(container(X))
        assert_same_model(thin, dense, tolerance=1e-10)
        assert thin.inertia_ == pytest.approx(dense.inertia_)
        np.testing.assert_array_equal(thin.predict(container(X)), dense.predict(X))
        np.testing.assert_allclose(thin.transform(container(X)), dense.transform(X))
        assert thin.score(container(X)) == pytest.approx(dense.score(X))
    dense, thin = (KFed(4, random_state=0).fit(rows, groups=groups) for rows in (X, container(X)))
    assert_same_model(thin, dense, tolerance=1e-10)


def test_single_and_double_precision_agree_and_are_kept(table, groups):
    for model, fit in [
        (federated(), {"groups": groups}),
        (federated(), {}),
        (LocalKMeans(6, random_state=0), {}),
    ]:
        double, single = clone(model).fit(table, **fit), clone(model).fit(table.astype(np.float32), **fit)
        assert adjusted_rand_score(double.labels_, single.labels_) == 1
        for fitted, dtype in ((double, np.float64), (single, np.float32)):
            assert fitted.cluster_centers_.dtype == dtype
            assert fitted.transform(table.astype(dtype)).dtype == dtype
        assert single.inertia_ == pytest.approx(double.inertia_, rel=1e-4)
        np.testing.assert_array_equal(single.predict(table), single.predict(table.astype(np.float32)))


@pytest.mark.parametrize("widened", [2**23, 700])
def test_single_precision_far_from_the_origin_is_labelled_by_the_nearest_center(widened, monkeypatch):
    """There float32 has steps of a sixteenth, and the centers are float64: to round them would move rows."""
    monkeypatch.setattr("kfed.estimator.nearest_center.WIDENED_ELEMENTS", widened)
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(2000, 2)) + 3 * rng.integers(3, size=(2000, 1)) + 1e6).astype(np.float32)
    weights = rng.uniform(0.5, 2, len(X)).astype(np.float32)
    tables = [X[:700], X[700:].astype(np.float64)]
    lone, pooled, *spread = (
        LocalKMeans(3, random_state=0).fit(X, sample_weight=weights),
        KFed(3, random_state=0).fit(X, sample_weight=weights),
        KFed(3, 3, random_state=0).fit(tables, sample_weight=[weights[:700], weights[700:]]),
        KFed(3, random_state=0).fit(X, groups=np.arange(2000) % 2, sample_weight=weights),
    )
    for model in (lone, pooled, *spread):
        squares = ((X[:, None].astype(np.float64) - model.cluster_centers_) ** 2).sum(axis=2)
        np.testing.assert_array_equal(model.predict(X), squares.argmin(axis=1))
        assert model.score(X, sample_weight=weights) == pytest.approx(-weights @ squares.min(axis=1), rel=1e-6)
        assert model.inertia_ == pytest.approx(weights @ squares[np.arange(2000), model.labels_], rel=1e-6)
        np.testing.assert_allclose(model.transform(X), np.sqrt(squares), rtol=1e-6)
    for model in (lone, pooled):
        np.testing.assert_array_equal(model.labels_, model.predict(X))
        assert model.inertia_ == -model.score(X, sample_weight=weights)


def test_transform_gives_distances_even_far_from_the_origin():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2**10, size=(60, 4)) / 2**10
    near, far = LocalKMeans(3, random_state=0).fit(X), LocalKMeans(3, random_state=0).fit(X)
    expected = np.linalg.norm(X[:, None] - near.cluster_centers_, axis=2)
    np.testing.assert_allclose(near.transform(X), expected)
    far.cluster_centers_ = far.cluster_centers_ + 2.0**27
    np.testing.assert_allclose(far.transform(X + 2.0**27), expected, rtol=1e-6)
    np.testing.assert_array_equal(far.predict(X + 2.0**27), expected.argmin(axis=1))


def test_a_seed_can_be_a_number_a_generator_or_a_random_state(table):
    for seed in (7, np.int64(7), np.random.RandomState(7)):
        first, second = (LocalKMeans(4, random_state=clone(seed, safe=False)).fit(table) for _ in range(2))
        assert_same_model(first, second)
    first, second = (KFed(4, random_state=np.random.default_rng(7)).fit(table) for _ in range(2))
    assert_same_model(first, second)


# scikit-learn's surface


def test_fit_predict_and_fit_transform_are_fit_and_then_the_other(mixture, table, groups):
    model = federated().fit(mixture[0])
    np.testing.assert_array_equal(federated().fit_predict(mixture[0]), model.labels_)
    np.testing.assert_array_equal(federated().fit_predict(table, groups=groups), model.labels_)
    np.testing.assert_array_equal(federated().fit_transform(mixture[0]), model.transform(table))
    np.testing.assert_array_equal(federated().fit_transform(table, groups=groups), model.transform(table))
    np.testing.assert_array_equal(model.predict(mixture[0]), model.predict(table))
    assert model.score(mixture[0]) == model.score(table)


def test_a_model_survives_clone_and_pickle(table, groups):
    model = federated().fit(table, groups=groups)
    revived = pickle.loads(pickle.dumps(model))
    assert_same_model(revived, model)
    assert revived.aggregation_ == model.aggregation_
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "labels_")


def test_works_in_a_pipeline_and_a_grid_search(table, groups):
    pipeline = make_pipeline(StandardScaler(), federated()).fit(table, kfed__groups=groups)
    assert_same_model(pipeline[-1], federated().fit(StandardScaler().fit_transform(table), groups=groups))
    search = GridSearchCV(models()[0], {"n_clusters": [1, N_CLUSTERS]}, cv=2).fit(table)
    assert search.best_params_ == {"n_clusters": N_CLUSTERS}


def test_groups_and_weights_are_routed_to_fit_on_request(table, groups):
    with sklearn.config_context(enable_metadata_routing=True):
        model = federated().set_fit_request(groups=True, sample_weight=True)
        pipeline = make_pipeline(StandardScaler(), model).fit(table, groups=groups)
        assert pipeline[-1].device_ids_ == list("0123456")
        model.set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"n_clusters": [2, N_CLUSTERS]}, cv=2)
        search.fit(table, groups=groups, sample_weight=np.ones(len(table)))
    assert search.best_params_ == {"n_clusters": N_CLUSTERS}
    assert search.best_estimator_.device_ids_ == list("0123456")


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames_give_feature_names_and_get_frames_back(library, mixture, table, groups):
    names = ["a", "b", "c", "d", "e"]
    frame = library.DataFrame(dict(zip(names, table.T, strict=True)))
    model = federated().fit(frame, groups=groups)
    assert_same_model(model, federated().fit(table, groups=groups))
    assert model.feature_names_in_.tolist() == names
    assert model.aggregation_.schema.names == tuple(names)
    model.set_output(transform=library.__name__)
    distances = model.transform(frame)
    assert isinstance(distances, library.DataFrame)
    assert list(distances.columns) == model.get_feature_names_out().tolist() == [f"kfed{i}" for i in range(6)]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[names[::-1]])
    frames = [library.DataFrame(dict(zip(names, own.T, strict=True))) for own in mixture[0]]
    assert_same_model(federated().fit(frames), model)
    np.testing.assert_array_equal(model.predict(frames), model.labels_)
    frames[4] = frames[4][names[::-1]]
    with pytest.raises(kfed.InvalidInputError, match=r"device '4'(.|\n)*feature names should match"):
        federated().fit(frames)


def test_names_of_an_earlier_fit_are_forgotten(mixture, table, groups):
    model = federated().fit(pd.DataFrame(table, columns=list("abcde")), groups=groups)
    assert model.fit(mixture[0]).aggregation_.schema.names is None
    assert not hasattr(model, "feature_names_in_")


def test_fitted_arrays_can_be_written_and_the_aggregation_keeps_its_own(table, groups):
    for fit in ({}, {"groups": groups}):
        model = federated().fit(table, **fit)
        before = model.aggregation_.cluster_centers.copy()
        model.cluster_centers_ += 1
        model.labels_[:] = 0
        np.testing.assert_array_equal(model.aggregation_.cluster_centers, before)


def test_fitting_leaves_the_input_as_it_was(mixture, groups):
    tables = [own.copy() for own in mixture[0]]
    federated().fit(tables, sample_weight=[np.ones(len(own)) for own in tables])
    for own, before in zip(tables, mixture[0], strict=True):
        np.testing.assert_array_equal(own, before)


# Bad input


def test_devices_find_their_own_number_of_clusters():
    rng = np.random.default_rng(0)
    means = 30 * rng.normal(size=(4, 3))
    held = [(0, 1), (1, 2, 3), (3,), (0, 2)]
    tables = [np.concatenate([rng.normal(means[g], size=(40, 3)) for g in own]) for own in held]
    model = kfed.KFed(4, "auto", random_state=0).fit(tables)
    groups = np.concatenate([np.repeat(own, 40) for own in held])
    assert len({*zip(model.labels_.tolist(), groups.tolist(), strict=True)}) == 4


def test_one_table_without_a_number_is_told_that_none_stands_out_and_what_applies_to_it():
    cloud = np.random.default_rng(0).normal(size=(300, 3))
    with pytest.warns(kfed.AggregationWarning) as said:
        model = kfed.KFed(random_state=0).fit(cloud)
    (warned,) = [str(one.message) for one in said]
    assert warned.startswith("no number of clusters stands out (2 at best): all centers are from one device")
    assert "give n_clusters, or groups if the rows are of several devices" in warned
    assert said[0].filename == __file__
    assert model.aggregation_.k_choice.certainty == "none stands out"
    with pytest.warns(kfed.AggregationWarning, match="the clusters overlap.*try another n_clusters") as said:
        given = kfed.KFed(2, random_state=0).fit(cloud)
    assert not any("devices" in str(one.message) for one in said)
    assert given.aggregation_.k_choice is None
