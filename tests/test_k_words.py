"""How sure a number of clusters is: three levels, said in the same words everywhere, and after loading as before."""

import warnings
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest

import kfed
from few_numbers import compare_few
from kfed._base import figures, files
from kfed.insight import cluster_report, diagnose
from kfed.server import ComparisonWords
from kfed.wire import to_parts
from test_compare_k import sites_of_four_groups

SAID = {
    "reliable": "4 clusters: stable when devices are resampled",
    "stands out": "4 clusters stand out, but not reliably: weakest cluster 0.87, reliable from 0.9; stable",
    "none stands out": "no number of clusters stands out (2 at best): no k is clearly better than one group",
}


def shaky(compare):
    """A comparison in which the weakest cluster comes back with 0.87."""

    def compared(*args, **options):
        found = compare(*args, **options)
        return replace(found, weakest=np.minimum(found.weakest, 0.87))

    return compared


@pytest.fixture(params=SAID)
def level(request):
    """A level, and clusters whose number is as sure as that."""
    return request.param, clusters_of(request.param)


one_level_at_first = pytest.mark.parametrize(
    "level",
    ["stands out", *(pytest.param(other, marks=pytest.mark.slow) for other in ("reliable", "none stands out"))],
    indirect=True,
)
"""The middle level has a doubt to tell, and numbers; the two others are for the slow tests."""


@cache
def clusters_of(level):
    sent = sites_of_four_groups(3, 30, 30)
    if level == "none stands out":
        rng = np.random.default_rng(0)
        local = kfed.cluster_fleet([rng.normal(size=(80, 4)) for _ in range(5)], random_state=0)
        sent = [own.to_message(f"g{i}") for i, own in enumerate(local)]
    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        warnings.simplefilter("ignore", kfed.AggregationWarning)
        compare_few(patched)
        if level == "stands out":
            patched.setattr("kfed.server.k.finding.compare_k", shaky(partial(kfed.compare_k, n_resamplings=6)))
        return kfed.aggregate(sent)


def test_each_level_has_its_words_and_no_other(level):
    certainty, found = level
    assert found.k_choice.certainty == certainty
    assert str(found.k_choice).startswith(SAID[certainty])
    unsure = [notice.text for notice in found.notices if notice.code == "unsure k"]
    assert unsure == ([] if certainty == "reliable" else [str(found.k_choice)])
    compared = ComparisonWords(found.k_choice.comparison)
    assert compared.conclusion().text.startswith(SAID[certainty])
    assert compared.conclusion().is_good == (True if certainty == "reliable" else None)
    assert compared.finding == found.k_choice.finding


def test_a_number_just_below_a_standard_is_not_rounded_to_it():
    compared = clusters_of("stands out").k_choice.comparison
    near = replace(compared, weakest=np.full_like(compared.weakest, 0.8996))
    assert ComparisonWords(near).doubt.startswith("weakest cluster 0.8996, reliable from 0.9")


def said_of(found):
    """Everything that is said of clusters, anywhere."""
    judged = diagnose(found)
    report = cluster_report(found, "clusters")
    return (
        judged.report("clusters").sections[0],
        judged.warnings,
        judged.evidence,
        judged.details,
        report,
        found.notices,
    )


@one_level_at_first
def test_what_is_said_before_saving_is_said_after_loading(level):
    _, found = level
    loaded = kfed.Aggregation.from_bytes(found.to_bytes())
    assert repr(said_of(loaded)) == repr(said_of(found))
    assert str(loaded.k_choice) == str(found.k_choice)
    assert loaded.k_choice.comparison.to_dict() == found.k_choice.comparison.to_dict()
    assert loaded.to_bytes() == found.to_bytes()


def test_a_file_without_the_comparison_is_still_read(level):
    certainty, found = level
    tensors, facts = to_parts(found)
    del facts["k_comparison"]
    older = {name: array for name, array in tensors.items() if not name.startswith("k_comparison")}
    loaded = kfed.Aggregation.from_bytes(files.encode(older, facts))
    assert (loaded.k_choice.comparison, loaded.k_choice.reason) == (None, found.k_choice.reason)
    assert loaded.k_choice.is_reliable == (certainty == "reliable")


@pytest.mark.parametrize("damage", ["lengths", "order", "facts", "number"])
def test_a_comparison_that_does_not_fit_is_refused(damage):
    tensors, facts = to_parts(clusters_of("reliable"))
    values = tensors["k_comparison_n_clusters"]
    if damage == "lengths":
        tensors["k_comparison_weakest"] = tensors["k_comparison_weakest"][1:].copy()
    elif damage == "order":
        tensors["k_comparison_n_clusters"] = values[::-1].copy()
    elif damage == "number":
        tensors["k_comparison_n_clusters"] = values + 100
    else:
        facts["k_comparison"] = {**facts["k_comparison"], "share_known": "all"}
    with pytest.raises(kfed.MessageError, match=r"does not fit together|contradicts the rest"):
        kfed.Aggregation.from_bytes(files.encode(tensors, facts))


@one_level_at_first
def test_the_picture_is_of_what_the_number_was_found_by(level):
    _, found = level
    choice = found.k_choice
    ax = choice.plot(ax=figures.new_figure(6, 4).add_subplot())
    assert (ax.get_xlabel(), ax.get_title(loc="left")) == ("number of clusters, k", choice.finding)
    drawn = diagnose(found).figure().axes[0]
    assert (drawn.get_xlabel(), drawn.get_title(loc="left")) == ("number of clusters, k", choice.finding)
    without = replace(choice, comparison=None)
    assert without.plot(ax=figures.new_figure(6, 4).add_subplot()).get_xlabel() == "pick"


def test_where_no_number_stands_out_there_is_advice_and_not_every_device_is_named():
    assessment = diagnose(clusters_of("none stands out")).assessment
    assert assessment.conclusion().answer == "unstable"
    assert "standard deviations apart." in assessment.conclusion().meaning[0]
    advice = list(assessment.advice())
    assert any("no distinct groups" in text for text in advice)
    assert not any("'g0', 'g1', 'g2'" in text for text in advice)
