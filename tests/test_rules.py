"""Server rules of one's own: by name, as a callable, from an entry point; checked, and kept with what they made."""

from importlib import metadata

import numpy as np
import pytest

import kfed
from consoles import run
from kfed.server import RULES, register_rule
from kfed.simulate import Round
from worlds import mixture_world, same_partition


@pytest.fixture(autouse=True)
def _rules_as_before(monkeypatch):
    known = dict(RULES)
    yield
    RULES.clear()
    RULES.update(known)


def by_weighted_kmeans(batch, n_clusters):
    from sklearn.cluster import KMeans

    model = KMeans(n_clusters, n_init=40, random_state=0)
    return model.fit_predict(batch.centers, sample_weight=batch.counts)


WORLD = mixture_world()


@pytest.mark.parametrize("way", ["callable", "name", "entry point"])
def test_a_rule_of_ones_own_groups_the_centers_whichever_way_it_is_given(way, request):
    rule = by_weighted_kmeans if way == "callable" else "mine"
    if way == "name":
        register_rule("mine", by_weighted_kmeans)
    if way == "entry point":
        request.getfixturevalue("packaged")
    done = Round.run(dict(zip(WORLD.ids, WORLD.points, strict=True)), 16, 4, rule=rule, random_state=0)
    assert same_partition(np.concatenate(WORLD.targets), done.labels)
    assert done.aggregation.rule == ("by_weighted_kmeans" if way == "callable" else "mine")
    weights = done.aggregation.messages.counts
    first = done.aggregation.center_labels == 0
    mean = np.average(done.aggregation.messages.centers[first], axis=0, weights=weights[first])
    np.testing.assert_allclose(done.aggregation.cluster_centers[0], mean)


@pytest.fixture
def packaged(monkeypatch):
    """A rule that a package brings along under the name "mine"."""
    found = metadata.EntryPoint("mine", f"{__name__}:by_weighted_kmeans", "kfed.rules")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda name=None, **_: [found] if name == "mine" else [])


def test_the_rule_of_a_package_works_on_the_command_line(packaged, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for message in WORLD.messages():
        message.save(f"{message.device_id}.kfed")
    run("aggregate", *tmp_path.glob("*.kfed"), "-k", 16, "--rule", "mine")
    assert kfed.Aggregation.load("clusters.kfed").rule == "mine"
    assert "rule must be one of" in run("aggregate", "any.kfed", "--rule", "yours", code=2)


def test_what_was_grouped_by_a_rule_of_ones_own_is_saved_loaded_and_grouped_again(tmp_path):
    result = kfed.aggregate(WORLD.messages(), 16, rule=by_weighted_kmeans)
    result.save(tmp_path / "clusters.kfed")
    again = kfed.Aggregation.load(tmp_path / "clusters.kfed")
    assert again == result
    assert again.without(WORLD.ids[0]) == kfed.aggregate(WORLD.messages()[1:], 16, rule=by_weighted_kmeans)


def test_two_rules_of_one_name_are_two_rules():
    results = [
        kfed.aggregate(WORLD.messages(), 2, rule=lambda batch, k, r=r: np.full(len(batch.centers), r)) for r in (0, 1)
    ]
    assert len({result.rule for result in results}) == 2
    assert [set(result.without(WORLD.ids[0]).center_labels.tolist()) for result in results] == [{0}, {1}]


@pytest.mark.parametrize("given", [[0, 1], np.zeros(48), np.full(48, 16), np.full(48, -1)])
def test_labels_that_are_no_grouping_are_refused(given):
    with pytest.raises(kfed.InvalidInputError, match="must give whole numbers from 0 to 15, one for each of 48"):
        kfed.aggregate(WORLD.messages(), 16, rule=lambda batch, k: given)


@pytest.mark.parametrize("name", ["paper", "", "two\nlines", 3])
def test_a_name_that_cannot_be_one_is_refused(name):
    with pytest.raises(kfed.InvalidInputError, match="name must be printable text, and not one of default, paper,"):
        register_rule(name, by_weighted_kmeans)


def test_a_rule_that_is_no_callable_is_refused():
    with pytest.raises(kfed.InvalidInputError, match="rule must be a callable"):
        register_rule("mine", 3)
    with pytest.raises(kfed.InvalidInputError, match="rule must be one of"):
        kfed.aggregate(WORLD.messages(), 16, rule=3)
