"""Centers that rest on few devices are kept from devices, which are told their clusters all the same."""

import numpy as np
import pytest
from coordinators import SECRET, Caller, message
from test_table_federations import table

import kfed
from kfed.coordinator.core import Clusters
from kfed.wire import Column, FeatureSchema, clusters_fingerprint, from_parts, second_message, to_parts

# Of four clusters, the first is that of four devices, the others those of three, two and one.
GROUPS = {"a": (0, 1), "b": (0, 1), "c": (0, 2), "d": (0, 2), "e": (1, 3)}
SENT = [message(device_id, groups) for device_id, groups in GROUPS.items()]


def join_all(caller, **terms):
    caller.create_aggregated(SENT, **{"min_devices_shown": 3, **terms})


def answers(caller, device_id):
    """Everything that a device can get: in JSON and in bytes, when it asks and when it sends its message again."""
    sent = next((one for one in SENT if one.device_id == device_id), message(device_id, (3,)))
    rights = {"Kfed-Device-Secret": SECRET}
    as_bytes = {"Accept": "application/octet-stream"}
    path = f"{caller.path(device_id)}/identity"
    binary = [caller.put(sent, headers=as_bytes), caller.http.get(path, headers=rights | as_bytes)]
    in_json = [caller.put(sent), caller.http.get(path, headers=rights)]
    yield from (answer.json()["cluster_centers"] for answer in in_json)
    for answer in binary:
        centers = kfed.Identity.from_bytes(answer.content).cluster_centers
        yield [None if np.isnan(row).all() else row.tolist() for row in centers]


def n_devices_behind(caller, centers):
    """For each center that is shown, how many devices have a center of their own near it."""
    own = {one.device_id: one.centers for one in SENT}
    return sorted(
        sum(np.linalg.norm(theirs - center, axis=1).min() < 5 for theirs in own.values())
        for center in centers
        if center is not None
    )


def test_no_answer_shows_a_center_that_rests_on_fewer_devices(store_address, run_app):
    caller = Caller(run_app(store_address))
    join_all(caller)
    caller.put(message("late", (3,)))
    for device_id in ("a", "e", "late"):
        for centers in answers(caller, device_id):
            assert len(centers) == 4
            assert n_devices_behind(caller, centers) == [3, 4]
    caller.http = run_app(store_address)
    for centers in answers(caller, "a"):
        assert n_devices_behind(caller, centers) == [3, 4]


def test_shares_are_told_of_the_clusters_that_are_shown_and_of_no_others(store_caller):
    join_all(store_caller)
    told = store_caller.identity("e")
    is_shown = np.array([center is not None for center in told["cluster_centers"]])
    shares = np.array(told["cluster_shares"])
    assert ((shares > 0) == is_shown).all()
    assert shares.sum() == pytest.approx(1, abs=0.05)


def test_three_is_the_number_unless_the_federation_says_otherwise(store_caller):
    made = store_caller.http.post(
        "/v1/federations", json={"name": "plain", "n_features": 2}, headers=store_caller.admin
    )
    assert made.json()["federation"]["min_devices_shown"] == 3
    join_all(store_caller, min_devices_shown=1)
    assert n_devices_behind(store_caller, store_caller.identity("a")["cluster_centers"]) == [1, 2, 3, 4]


def test_a_center_is_no_longer_shown_when_devices_behind_it_leave(store_caller):
    join_all(store_caller, min_devices_shown=2)
    before = store_caller.identity("a")["cluster_centers"]
    assert [center is None for center in before].count(True) == 1
    store_caller.remove("d")
    after = store_caller.identity("a")["cluster_centers"]
    assert [center is None for center in after].count(True) == 2


def test_a_center_that_second_messages_leave_to_one_device_is_no_longer_shown(store_caller):
    caller = store_caller
    sent = [message(device_id, (0, 1)) for device_id in "abc"]
    caller.create_aggregated(sent, n_clusters=2, min_devices_shown=3, rounds=2)
    for one in sent:
        told = caller.identity(one.device_id)
        assert None not in told["cluster_centers"]
        n_left = 2 if one.device_id == "a" else 1
        left = kfed.DeviceMessage(
            one.device_id, one.centers[:n_left], one.counts[:n_left], one.sums_of_squares[:n_left]
        )
        ids, fingerprint = told["cluster_ids"][:n_left], clusters_fingerprint(np.array(told["cluster_centers"]))
        second = second_message(left, np.array(ids), fingerprint)
        path = f"{caller.path(one.device_id)}/second-message"
        answer = caller.http.put(path, content=second.to_bytes(), headers={"Kfed-Device-Secret": SECRET})
        assert answer.status_code == 201, answer.text
    assert caller.show()["round"] == 2
    after = caller.identity("b")
    assert [center is None for center in after["cluster_centers"]].count(True) == 1


def test_clusters_are_told_whether_or_not_their_centers_are_shown(caller):
    join_all(caller)
    late = caller.put(message("late", (3, 0))).json()
    of_e, of_a = caller.identity("e")["cluster_ids"], caller.identity("a")["cluster_ids"]
    assert late["cluster_ids"] == [of_e[1], of_a[0]]


def test_of_clusters_of_an_older_version_those_with_few_devices_are_not_shown_either(caller):
    join_all(caller)
    clusters = caller.http.app.state.desk.coordinator.find("clinics").clusters
    tensors, facts = to_parts(clusters)
    del tensors["devices_in_cluster"]
    np.testing.assert_array_equal(from_parts(Clusters, tensors, facts).devices_in_cluster, clusters.devices_in_cluster)


def test_a_stray_that_is_in_no_mean_lends_its_cluster_no_company():
    strays = kfed.DeviceMessage("stray", [[0.0, 0.0], [90.0, 90.0]], [50, 1])
    sent = [message(f"{i}", (0, 3), seed=i) for i in range(9)] + [strays]
    result = kfed.aggregate(sent, 2, rule="robust", min_devices=1)
    assert sorted(result.devices_in_cluster.tolist()) == [9, 10]
    assert sorted(result.renumbered([1, 0]).devices_in_cluster.tolist()) == [9, 10]


def test_in_tables_the_column_that_fewest_devices_know_counts():
    sent = [table(name, (0, 1)) for name in "abc"]
    assert kfed.aggregate(sent, 2).devices_in_cluster.tolist() == [3, 3]
    rows = np.column_stack([np.repeat([40.0, 60.0], 30), np.full(60, np.nan), np.eye(2)[np.repeat([0, 1], 30)]])
    rows[:, 0] += np.random.default_rng(0).normal(size=60)
    schema = FeatureSchema.of_columns([Column("age"), Column("dose"), Column("ward", "category", ("A", "B"))])
    from kfed.device import cluster_columns

    silent = cluster_columns(rows, schema, 2, random_state=0, min_cluster_size=5).to_message("d")
    assert kfed.aggregate([*sent[:2], silent], 2).devices_in_cluster.tolist() == [2, 2]


# At the device ----------------------------------------------------------------------------------------------------

HIDDEN = [np.nan, np.nan]


def local_clusters():
    """Groups of 30, 30 and 2 points; the last is too small to be sent."""
    rng = np.random.default_rng(0)
    points = np.repeat([[0.0, 0.0], [20.0, 0.0], [19.0, 9.0]], [30, 30, 2], axis=0) + rng.normal(size=(62, 2)) / 10
    local = kfed.cluster_device(points, 3, random_state=0, min_cluster_size=5)
    assert local.withheld.sum() == 1
    return points, local


def test_rows_that_were_not_sent_are_labelled_by_the_centers_that_are_shown_and_the_devices_own():
    points, local = local_clusters()
    sent = local.to_message("a")
    ids = [0 if center[0] < 10 else 2 for center in sent.centers]
    identity = kfed.Identity("a", ids, [[0.0, 0.0], HIDDEN, HIDDEN, [19.0, 9.0]])
    expected = np.repeat([0, 2, 3], [30, 30, 2])
    np.testing.assert_array_equal(local.induced_labels(identity), expected)
    np.testing.assert_array_equal(local.induced_labels(identity, refine=points)[:60], expected[:60])
    alone = kfed.Identity("a", ids, [HIDDEN] * 4)
    np.testing.assert_array_equal(local.induced_labels(alone), np.repeat([0, 2, 2], [30, 30, 2]))


def test_a_device_that_sent_nothing_is_told_that_it_cannot_be_compared_with_anything():
    points = np.arange(6.0).reshape(3, 2)
    local = kfed.cluster_device(points, 1, random_state=0, min_cluster_size=5)
    with pytest.raises(kfed.InvalidInputError, match="sent no center, and the answer shows none"):
        local.induced_labels(kfed.Identity("a", [], [HIDDEN]))
    assert local.induced_labels(kfed.Identity("a", [], [HIDDEN, [1.0, 2.0]])).tolist() == [1, 1, 1]


def test_new_rows_are_never_in_a_cluster_that_is_not_shown(tmp_path):
    from kfed.site import label_rows

    (tmp_path / "new.csv").write_text("x,y\n0,0\n9,9\n")
    shown = kfed.Identity("a", [1], [HIDDEN, [9.0, 9.0], [1.0, 1.0]])
    assert label_rows(tmp_path / "new.csv", shown).labels.tolist() == [2, 1]
    with pytest.raises(kfed.InvalidInputError, match="the answer shows no cluster center"):
        label_rows(tmp_path / "new.csv", kfed.Identity("a", [0], [HIDDEN]))


def test_a_center_is_shown_whole_or_not_at_all():
    with pytest.raises(kfed.InvalidInputError, match="cluster_centers must be finite"):
        kfed.Identity("a", [0], [[1.0, np.nan]])
    hidden = kfed.Identity("a", [0, 1], [HIDDEN, [1.0, 2.0]])
    assert kfed.Identity.from_bytes(hidden.to_bytes()) == hidden
    assert hidden.shown.tolist() == [False, True]
