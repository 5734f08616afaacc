"""Joining, leaving and restarting in any order: the clusters are always those of the devices that should be there."""

import shutil
from pathlib import Path

import numpy as np
from coordinators import Caller, message

import kfed

GROUPS = {"a": (0, 1), "b": (2, 3), "c": (0, 2), "d": (1, 3), "g": (0, 3)}
OLD_STORE = Path(__file__).parent / "data" / "store-version-1.sqlite"


def sent(device_id):
    return message(device_id, GROUPS[device_id])


def assert_clusters_are_of(caller, device_ids):
    """Each device is told what a federation of exactly these devices in one process would tell it."""
    assert caller.show()["n_aggregated"] == len(device_ids)
    expected = kfed.aggregate([sent(device_id) for device_id in device_ids], 4)
    for device_id in device_ids:
        told, own = caller.identity(device_id), expected.identity(device_id)
        centers = caller.http.app.state.desk.coordinator.find("clinics").clusters.cluster_centers
        np.testing.assert_array_equal(centers[told["cluster_ids"]], own.cluster_centers[own.cluster_ids])


def test_a_device_that_leaves_is_out_of_the_clusters_though_one_left_before_and_another_came_late(
    run_app, store_address
):
    caller = Caller(run_app(store_address))
    caller.create_aggregated([sent(device_id) for device_id in "abcd"])
    assert caller.remove("d").status_code == 200
    caller.http = run_app(store_address)
    assert caller.put(sent("g")).status_code == 201
    assert caller.remove("c").status_code == 200
    assert_clusters_are_of(caller, "ab")


def test_a_restart_takes_no_late_device_into_the_clusters(run_app, store_address):
    caller = Caller(run_app(store_address))
    caller.create_aggregated([sent(device_id) for device_id in "abcd"])
    assert caller.remove("d").status_code == 200
    for _ in range(2):
        caller.http = run_app(store_address)
        caller.put(sent("g"))
    assert caller.remove("g").json()["version"] == 2  # answered after whatever the start began
    assert_clusters_are_of(caller, "abc")


def test_a_store_of_the_version_before_opens_and_its_late_device_stays_late(run_app, tmp_path):
    """Its late device g has the number that d, which left, had before."""
    store = shutil.copy(OLD_STORE, tmp_path / "kfed.db")
    caller = Caller(run_app(str(store)))
    assert caller.remove("b").json()["version"] == 3
    assert_clusters_are_of(caller, "ac")
    caller.http = run_app(str(store))
    assert caller.remove("g").json()["version"] == 3
    assert_clusters_are_of(caller, "ac")
