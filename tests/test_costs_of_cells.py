"""Cost and explained variance from messages are those of the rows, with and without missing cells."""

import numpy as np
import pytest

import kfed
from clinics import SCHEMA, clinics
from kfed.device import cluster_columns
from kfed.device.floor.cell_floor import counted_rows
from kfed.insight import cluster_report, to_markdown
from kfed.server import RowMoments


def cost_of_cells(result, sites, local):
    """Cost and explained variance from the tables: over the cells of all rows that were sent, on the pooled scale."""
    parts, labels = [], []
    for z, ((rows, _), own) in enumerate(zip(sites, local, strict=True)):
        clusters = np.full(own.n_local_clusters, -1)
        clusters[~own.withheld] = result.identity(f"{z}").cluster_ids
        is_sent = ~own.withheld[own.labels] & counted_rows(~np.isnan(rows), SCHEMA)
        cells = np.where(own.columns.withheld[own.labels], np.nan, rows)
        parts.append(result.scale.apply(cells[is_sent]))
        labels.append(clusters[own.labels[is_sent]])
    cells, label_of = np.concatenate(parts), np.concatenate(labels)
    total = np.nansum((cells - np.nanmean(cells, axis=0)) ** 2)
    means = np.array([np.nanmean(cells[label_of == r], axis=0) for r in range(result.n_clusters)])
    cost = np.nansum((cells - means[label_of]) ** 2)
    return cost, 1 - cost / total


@pytest.mark.filterwarnings("ignore::kfed.AggregationWarning")
@pytest.mark.parametrize("n_local_clusters", [2, None])
@pytest.mark.parametrize("missing", [0.0, 0.1, 0.3])
def test_cost_and_explained_variance_are_those_of_the_cells_of_the_rows(missing, n_local_clusters):
    sites = clinics(1, missing=missing)
    local = [
        cluster_columns(rows, SCHEMA, n_local_clusters, device_id=f"{z}", random_state=0, min_cluster_size=5)
        for z, (rows, _) in enumerate(sites)
    ]
    result = kfed.aggregate([own.to_message(f"{z}") for z, own in enumerate(local)], 4)
    moments = RowMoments.of(result.messages)
    found = moments.quality(result.center_labels, 4)
    cost, explained = cost_of_cells(result, sites, local)
    if n_local_clusters is not None:  # every average is told
        assert not moments.inexact
        assert (found.cost, found.explained) == pytest.approx((cost, explained), rel=1e-9)
    else:
        assert "too few cells" in moments.inexact
        assert (found.cost, found.explained) == pytest.approx((cost, explained), rel=0.02)
    compared = kfed.compare_k(result.messages, [4], n_resamplings=2)
    assert compared.costs[0] == pytest.approx(found.cost)
    assert ("approximate" in str(compared)) == bool(moments.inexact)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kfed.AggregationWarning")
def test_the_share_of_the_variance_is_said_to_be_about_right_where_messages_do_not_tell_all():
    sites = clinics(1, missing=0.3)
    sent = [cluster_columns(own, SCHEMA, None, random_state=0).to_message(f"{z}") for z, (own, _) in enumerate(sites)]
    words = to_markdown(cluster_report(kfed.aggregate(sent, 4), "clusters"))
    assert "explains about " in words
    whole = [kfed.DeviceMessage(name, [[0.0], [9.0]], [5, 5], [1.0, 1.0]) for name in "ab"]
    assert "explains about" not in to_markdown(cluster_report(kfed.aggregate(whole, 2), "clusters"))
    rounded = [message.quantised(8) for message in whole]
    assert "explains about " in to_markdown(cluster_report(kfed.aggregate(rounded, 2), "clusters"))


def test_a_second_message_says_as_much_of_the_variance_as_the_first():
    sites = clinics(1, missing=0.3)
    local = [cluster_columns(own, SCHEMA, 2, device_id=f"{z}", random_state=0) for z, (own, _) in enumerate(sites)]
    first = kfed.aggregate([own.to_message(f"{z}") for z, own in enumerate(local)], 4)
    sent = [
        kfed.refine_device(own, first.identity(f"{z}"), sites[z][0]).to_message(f"{z}") for z, own in enumerate(local)
    ]
    both = (first, kfed.aggregate_refined(first, sent))
    shares = [RowMoments.of(one.messages).quality(one.center_labels, 4).explained for one in both]
    assert shares[1] == pytest.approx(shares[0], abs=0.01)
    assert "about" in to_markdown(cluster_report(both[1], "clusters"))  # it cannot say which cells it leaves out
