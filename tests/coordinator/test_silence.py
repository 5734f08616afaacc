"""A database that neither answers nor closes its connections: requests are answered in time, and all is well after."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from coordinators import Caller, message, messages
from test_parts import arrival

from kfed.coordinator.core import Committer, committer, readers
from kfed.coordinator.problems import StoreUnavailableError
from kfed.coordinator.store import Store


class SilentStore:
    """A store whose writes wait until they are told to go on."""

    def __init__(self):
        self.may_go_on, self.written, self.is_in_doubt = threading.Event(), [], False

    def change_devices(self, arrivals):
        assert self.may_go_on.wait(10)
        self.written += [one.device_id for one in arrivals]
        return arrivals

    def doubt(self):
        self.is_in_doubt = True


def test_a_write_that_takes_too_long_is_in_doubt_and_one_that_waited_for_it_is_never_made(monkeypatch):
    monkeypatch.setattr(committer, "PATIENCE_SECONDS", 0.05)

    async def run():
        store = SilentStore()
        committer = Committer(store)
        begun = asyncio.ensure_future(committer.put(arrival("begun")))
        await asyncio.sleep(0.01)
        waiting = asyncio.ensure_future(committer.put(arrival("waiting")))
        problems = await asyncio.gather(begun, waiting, return_exceptions=True)
        assert store.is_in_doubt
        with pytest.raises(StoreUnavailableError):  # at once: nobody waits for a write that is stuck
            await asyncio.wait_for(committer.put(arrival("while stuck")), 0.01)
        store.may_go_on.set()
        while not store.written:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        await committer.put(arrival("later"))
        await committer.close()
        return problems, store.written

    problems, written = asyncio.run(run())
    assert all(isinstance(problem, StoreUnavailableError) for problem in problems)
    assert [problem.may_be_kept for problem in problems] == [True, False]
    assert written == ["begun", "later"]


def test_a_long_queue_that_moves_is_no_reason_to_give_up(monkeypatch):
    monkeypatch.setattr(committer, "PATIENCE_SECONDS", 0.4)
    monkeypatch.setattr(readers, "PATIENCE_SECONDS", 0.4)

    async def run():
        store, reading = SilentStore(), readers.Readers()
        store.may_go_on.set()
        committer = Committer(store)
        changes = [committer.change(time.sleep, 0.04) for _ in range(16)]
        reads = [reading.read(time.sleep, 0.04) for _ in range(128)]
        await asyncio.gather(*changes, *reads)
        await committer.close()
        reading.close()

    asyncio.run(run())


def test_a_read_that_takes_too_long_is_given_up_and_the_next_ones_are_answered_again(monkeypatch):
    monkeypatch.setattr(readers, "PATIENCE_SECONDS", 0.05)

    async def run():
        reading, may_go_on = readers.Readers(), threading.Event()
        waits = [reading.read(may_go_on.wait, 10) for _ in range(20)]
        problems = await asyncio.gather(*waits, return_exceptions=True)
        assert all(isinstance(problem, StoreUnavailableError) for problem in problems)
        may_go_on.set()
        await asyncio.sleep(0.02)
        assert await reading.read(lambda: 42) == 42
        reading.close()

    asyncio.run(run())


def timed(call):
    started = time.monotonic()
    answer = call()
    return answer, time.monotonic() - started


@pytest.mark.slow
def test_while_postgresql_is_frozen_requests_get_503_within_5_seconds_and_then_all_is_well(
    run_server, postgres, postgres_address
):
    caller = Caller(run_server(postgres_address))
    caller.create_aggregated(messages(4))
    late = [message(f"late-{number}") for number in range(20)]
    secret = {"Kfed-Device-Secret": "a-device-secret-for-tests"}
    requests = [
        *[lambda one=one: caller.put(one) for one in late],
        *[lambda: caller.http.get(f"{caller.path('device-0000')}/identity", headers=secret)] * 10,
        lambda: caller.remove("device-0001"),
        caller.aggregate,
        lambda: caller.http.post(
            "/v1/federations", json={"name": "other", "n_features": 2}, headers=caller.admin | {"Idempotency-Key": "1"}
        ),
    ]
    with postgres.frozen(), ThreadPoolExecutor(len(requests)) as pool:
        for _ in range(2):
            for answer, seconds in pool.map(timed, requests):
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "2"), answer.text
                assert seconds < 5
    until = time.monotonic() + 15
    while caller.put(late[0]).status_code >= 500:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert {caller.put(one).status_code for one in late} <= {200, 201}
    assert caller.remove("device-0001").status_code in (200, 403, 404)
    assert caller.wait_for(lambda shown: shown["n_aggregated"] == 3)["n_devices"] == 3 + len(late)
    assert caller.identity("device-0000")["state"] == "aggregated"


@pytest.mark.slow
def test_a_store_that_was_stuck_in_a_frozen_database_writes_again_without_a_restart(postgres, postgres_address):
    store = Store(postgres_address)
    store.change_devices([arrival("a")])
    with postgres.frozen():
        started = time.monotonic()
        with pytest.raises(StoreUnavailableError):
            store.change_devices([arrival("b")])
        assert time.monotonic() - started < 10
    until = time.monotonic() + 10
    while store.tally(1).n_devices < 2:
        assert time.monotonic() < until
        try:
            store.read_back()
            store.change_devices([arrival("b")])
        except StoreUnavailableError:
            time.sleep(0.1)
    assert store.tally(1).n_devices == 2
    store.close()
