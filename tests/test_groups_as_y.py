"""`KFed` with something in the place of `y`: refused where it may be groups, ignored where a pipeline passes it on."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kfed
from estimator_tables import model

ROWS = np.random.default_rng(0).normal(size=(40, 2))
GROUPS = np.repeat(["a", "b"], 20)


class Passing(BaseEstimator):
    """A pipeline of another library."""

    def fit(self, X, y=None):
        self.model_ = model().fit(X, y)
        return self


@pytest.mark.parametrize("method", ["fit", "fit_predict", "fit_transform"])
@pytest.mark.parametrize("rows", [ROWS, [ROWS[:20], ROWS[20:]]], ids=["a table", "a list of tables"])
def test_groups_in_the_place_of_y_are_refused(method, rows):
    with pytest.raises(kfed.InvalidInputError, match="pass it by name, as groups="):
        getattr(model(), method)(rows, GROUPS)


def test_with_groups_y_is_ignored():
    found = model().fit(ROWS, np.arange(40), groups=GROUPS)
    assert found.device_ids_ == ["a", "b"]
    assert np.array_equal(model().fit_predict(ROWS, np.arange(40), groups=GROUPS), found.labels_)
    assert model().fit_transform(ROWS, np.arange(40), groups=GROUPS).shape == (40, 2)


def test_what_passes_targets_to_all_parts_is_no_mistake():
    alone = model().fit(ROWS).labels_
    pipeline = make_pipeline(StandardScaler(), model())
    assert pipeline.fit(ROWS, GROUPS)[-1].device_ids_ == ["0"]
    assert len(pipeline.fit_predict(ROWS, GROUPS)) == len(pipeline.fit_transform(ROWS, GROUPS)) == 40
    assert np.array_equal(Passing().fit(ROWS, GROUPS).model_.labels_, alone)
    assert np.isfinite(cross_validate(model(), ROWS, GROUPS, cv=2)["test_score"]).all()
    assert GridSearchCV(model(), {"n_clusters": [2]}, cv=2).fit(ROWS, GROUPS).best_estimator_.n_clusters == 2
