"""`KFed` in cross-validation and searches of scikit-learn, which keep groups for their splitter: it says so."""

import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_fit_score_takes_y

import kfed
from estimator_tables import model

ROWS = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0], [20.0]], 30, axis=0)
GROUPS = np.arange(60) % 4


HOW = {"groups": GROUPS, "cv": GroupKFold(2)}
FITS = {
    "a search": lambda: GridSearchCV(model(), {"max_iter": [50]}, cv=GroupKFold(2)).fit(ROWS, groups=GROUPS),
    "validation": lambda: cross_validate(model(), ROWS, **HOW),
    "prediction": lambda: cross_val_predict(model(), ROWS, **HOW),
    "a pipeline": lambda: cross_validate(make_pipeline(StandardScaler(), model()), ROWS, **HOW),
    "a transformer": lambda: cross_validate(make_pipeline(model(), kfed.LocalKMeans(2)), ROWS, **HOW),
}


@pytest.mark.parametrize("fit", FITS)
def test_a_search_that_keeps_the_groups_is_told(fit):
    with pytest.warns(kfed.AggregationWarning, match=r"all were fitted as one device .*set_fit_request") as caught:
        FITS[fit]()
    assert {own.message.code for own in caught} == {"no groups"}


def fit_alone():
    model().fit(ROWS)
    make_pipeline(StandardScaler(), model()).fit(ROWS)


def score_by_another_fit(fitted, X, y=None):
    """A score that fits a model of one table on purpose."""
    return model().fit(X).score(X)


def fit_with_groups():
    with config_context(enable_metadata_routing=True):
        routed = model().set_fit_request(groups=True)
        GridSearchCV(routed, {"max_iter": [50]}, cv=GroupKFold(2)).fit(ROWS, groups=GROUPS)


@pytest.mark.parametrize(
    "fit",
    [
        fit_alone,
        fit_with_groups,
        lambda: cross_validate(kfed.LocalKMeans(2), ROWS, cv=2, scoring=score_by_another_fit),
        lambda: check_fit_score_takes_y("KFed", kfed.KFed(2)),
    ],
    ids=["alone", "with groups", "in a score", "in a check"],
)
def test_who_loses_no_groups_is_told_nothing(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    assert "no groups" not in {getattr(own.message, "code", "") for own in caught}
