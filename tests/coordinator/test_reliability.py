"""What fails comes back: after a kill, a full disk, a locked database, a clock that jumps."""

import http.client
import queue
import random
import sqlite3
import subprocess
import threading
import time

import httpx
import numpy as np
import pytest
from coordinators import NO_TLS, SECRET, Caller, Server, message, messages
from sqlalchemy import event

import kfed
from kfed.coordinator.core import Aggregator, Clock, service
from kfed.coordinator.problems import StoreUnavailableError

N_DEVICES, N_KILLS = 2_000, 20


# Killed ---------------------------------------------------------------------------------------------------------


class Stream:
    """Devices that send until they are heard, over several connections."""

    def __init__(self, sent, join, n_threads=8):
        self.acknowledged = {}
        self.n_created = {}
        self.port = None
        self._join = join
        self._waiting = queue.SimpleQueue()
        for one in sent:
            self._waiting.put((one.device_id, one.to_bytes()))
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(n_threads)]
        for thread in self._threads:
            thread.start()

    def _run(self):
        while True:
            try:
                device_id, payload = self._waiting.get_nowait()
            except queue.Empty:
                return
            if not self._send(device_id, payload):
                self._waiting.put((device_id, payload))
                time.sleep(0.01)

    def _send(self, device_id, payload):
        try:
            line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            headers = {**self._join, "Kfed-Device-Secret": SECRET}
            line.request("PUT", f"/v1/federations/clinics/devices/{device_id}/message", payload, headers)
            status = line.getresponse().status
            line.close()
        except (OSError, http.client.HTTPException, TypeError):
            return False
        assert status in (200, 201, 503), status
        if status == 201:
            self.n_created[device_id] = self.n_created.get(device_id, 0) + 1
        if status != 503:
            self.acknowledged[device_id] = payload
        return status != 503

    def is_done(self):
        return not any(thread.is_alive() for thread in self._threads)


def stored(path):
    """Every message in the file, as it would be found after the machine lost its power."""
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT device_id, message FROM kfed_devices").fetchall()


def assert_none_lost(acknowledged, path):
    found = stored(path)
    assert len({device_id for device_id, _ in found}) == len(found)
    held = dict(found)
    assert not [device_id for device_id, payload in acknowledged.items() if held.get(device_id) != payload]


@pytest.mark.slow
def test_killed_at_random_moments_nothing_acknowledged_is_lost_or_there_twice(tmp_path):
    sent = messages(N_DEVICES)
    path = tmp_path / "kfed.db"
    server = Server(path, tmp_path)
    with httpx.Client(verify=NO_TLS, base_url=server.url) as client:
        caller = Caller(client, server.admin)
        caller.create(quorum=N_DEVICES)
    stream = Stream(sent, caller.join["clinics"])
    chance = random.Random(0)
    for kill in range(N_KILLS):
        stream.port = server.port
        threshold = (kill + chance.random()) * N_DEVICES / N_KILLS
        while len(stream.acknowledged) < min(threshold, N_DEVICES - 1):
            time.sleep(0.001)
        time.sleep(chance.random() * 0.05)
        stream.port = None
        server.kill()
        assert_none_lost(dict(stream.acknowledged), path)
        server = Server(path, tmp_path)
    stream.port = server.port
    while not stream.is_done():
        time.sleep(0.05)
    assert len(stream.acknowledged) == len(stored(path)) == N_DEVICES
    assert max(stream.n_created.values()) == 1
    assert_none_lost(stream.acknowledged, path)
    with httpx.Client(verify=NO_TLS, base_url=server.url) as client:
        caller.http = client
        caller.wait_until("aggregated")
        expected = kfed.aggregate(sent, 4)
        for one in sent:
            identity = caller.identity(one.device_id)
            assert identity["cluster_ids"] == expected.identity(one.device_id).cluster_ids.tolist()
        np.testing.assert_array_equal(identity["cluster_centers"], expected.cluster_centers)
    server.stop()


def test_killed_between_a_removal_and_its_clustering_it_is_made_up_for_at_the_next_start(
    run_app, tmp_path, monkeypatch
):
    address = str(tmp_path / "kfed.db")
    sent = messages(6)
    caller = Caller(run_app(address))
    caller.create_aggregated(sent)

    async def never(*_):
        raise RuntimeError("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(Aggregator, "settle", never)
        patch.setattr(service, "TICK_SECONDS", 1000)
        assert caller.remove(sent[0].device_id).status_code == 500
    caller.http = run_app(address)
    caller.wait_for(lambda shown: shown["n_aggregated"] == 5)
    expected = kfed.aggregate(sent[1:], 4)
    for one in sent[1:]:
        identity, own = caller.identity(one.device_id), expected.identity(one.device_id)
        centers = np.array(identity["cluster_centers"])
        np.testing.assert_array_equal(centers[identity["cluster_ids"]], own.cluster_centers[own.cluster_ids])


# Refused by the database ----------------------------------------------------------------------------------------


def assert_not_now(answer):
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert "send it again" in answer.json()["detail"]


def test_a_full_disk_is_a_503_that_loses_nothing_and_passes(run_app, tmp_path):
    """On a real file system of half a megabyte, where one can be made; elsewhere by SQLite's own limit."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(mounted)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a small file system cannot be mounted here")
    try:
        fill_the_disk(Caller(run_app(str(mounted / "kfed.db"))), mounted)
    finally:
        subprocess.run(["umount", "-l", str(mounted)], check=True)


def fill_the_disk(caller, mounted):
    caller.create()
    kept = []
    for number in range(3000):
        one = message(f"{number}", (0, 1, 2, 3) * 4)
        answer = caller.put(one)
        if answer.status_code == 503:
            break
        kept.append(one)
    assert_not_now(answer)
    assert caller.show()["n_devices"] == len(kept) > 10
    assert_not_now(caller.put(message("another", (0, 1, 2, 3) * 4)))
    subprocess.run(["mount", "-o", "remount,size=20m", str(mounted)], check=True)
    assert caller.put(one).status_code == 201
    for before in kept:
        assert caller.put(before).status_code == 200
    assert caller.show()["n_devices"] == len(kept) + 1


def test_a_full_database_is_a_503_that_loses_nothing_and_passes(run_app, tmp_path, monkeypatch):
    engines = []
    connect = service.Store.__init__

    def watched(self, address):
        connect(self, address)
        engines.append(self.engine)

    monkeypatch.setattr(service.Store, "__init__", watched)
    caller = Caller(run_app(str(tmp_path / "kfed.db")))
    caller.create()
    caller.put(message("first"))

    def limit(connection, *_):
        connection.execute("PRAGMA max_page_count = 1").close()

    event.listen(engines[0], "connect", limit)
    engines[0].dispose()
    refused = [caller.put(message(f"{i}", (0, 1, 2, 3) * 50)) for i in range(5)]
    assert_not_now(refused[-1])
    kept = caller.show()["n_devices"]
    assert kept == 1 + sum(answer.status_code == 201 for answer in refused)
    event.remove(engines[0], "connect", limit)
    engines[0].dispose()
    assert caller.put(message("4", (0, 1, 2, 3) * 50)).status_code == 201
    assert caller.show()["n_devices"] == kept + 1


def test_a_locked_database_is_a_503_that_loses_nothing_and_passes(caller, tmp_path):
    caller.create()
    assert caller.put(message("before")).status_code == 201
    other = sqlite3.connect(tmp_path / "kfed.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    answer = caller.put(message("during"))
    assert_not_now(answer)
    assert "locked" in answer.json()["detail"]
    assert caller.http.get("/healthz").status_code == 200  # readers do not wait for writers
    assert caller.show()["n_devices"] == 1
    other.execute("ROLLBACK")
    other.close()
    assert caller.put(message("during")).status_code == 201
    assert caller.put(message("before")).status_code == 200


def test_an_aggregation_that_the_database_refused_is_tried_again_by_itself(caller, tmp_path, monkeypatch):
    caller.create(quorum=4)
    refusals = iter([True, True, False])
    save = service.Store.save_clustering

    def sometimes(self, *arguments):
        if next(refusals, False):
            raise StoreUnavailableError("on purpose")
        save(self, *arguments)

    monkeypatch.setattr(service.Store, "save_clustering", sometimes)
    for one in messages(4):
        caller.put(one)
    assert caller.wait_until("aggregated")["version"] == 1


def test_a_postgresql_that_goes_away_and_comes_back_is_a_503_that_passes(postgres, postgres_address, run_app):
    caller = Caller(run_app(postgres_address))
    caller.create()
    assert caller.put(message("before")).status_code == 201
    postgres.stop()
    try:
        answer = caller.put(message("during"))
        assert_not_now(answer)
        assert caller.http.get("/readyz").status_code == 503
    finally:
        postgres.start()
    until = time.monotonic() + 20
    while caller.put(message("during")).status_code == 503:
        assert time.monotonic() < until
        time.sleep(0.2)
    assert caller.put(message("before")).status_code == 200
    assert caller.show()["n_devices"] == 2


# Jumped ---------------------------------------------------------------------------------------------------------


def test_a_clock_that_jumps_neither_fires_a_deadline_nor_loses_a_device(run_app, tmp_path, monkeypatch):
    offset = [0.0]
    real = time.time
    monkeypatch.setattr(service, "Clock", lambda: Clock(wall=lambda: real() + offset[0]))
    caller = Caller(run_app(str(tmp_path / "kfed.db")))
    caller.create(deadline=real() + 3600)
    sent = messages(6)
    for number, one in enumerate(sent):
        offset[0] = (-1) ** number * 1e6
        assert caller.put(one).status_code == 201
        time.sleep(0.1)
    assert caller.show()["state"] == "gathering"
    offset[0] = 0.0
    assert caller.aggregate().status_code == 200
    for one in sent:
        assert caller.identity(one.device_id)["version"] == 1
