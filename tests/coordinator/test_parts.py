"""Laws of the parts that a coordinator is made of."""

import asyncio
import dataclasses
import subprocess
import sys
import threading

import numpy as np
import pytest
from coordinators import arrival_of, message, messages
from hypothesis import given
from hypothesis import strategies as st

import kfed
from kfed.coordinator.core import Clock, Clusters, Committer, ShownClusters, labels_if_ready, stable_ids
from kfed.coordinator.federation import (
    Admission,
    Application,
    Federation,
    Invitation,
    Tally,
    admit,
    is_due,
    judge,
    judge_new,
)
from kfed.coordinator.problems import StoreUnavailableError
from kfed.coordinator.security import hashed, matches, new_token
from kfed.coordinator.store import Arrival, Departure, Store
from kfed.wire import FeatureSchema

FEDERATION = Federation(1, "clinics", FeatureSchema(2), 4, "paper", b"", 0.0)


@given(seed=st.integers(0, 1000), k=st.integers(1, 8), d=st.integers(1, 4))
def test_clusters_that_moved_little_keep_their_ids_in_whatever_order_they_come(seed, k, d):
    rng = np.random.default_rng(seed)
    old = 100 * np.arange(k)[:, None] + rng.normal(size=(k, d))
    order = rng.permutation(k)
    moved = old[order] + rng.normal(size=(k, d))
    assert stable_ids(old, moved).tolist() == order.tolist()


@given(seed=st.integers(0, 1000), n_old=st.integers(1, 6), n_new=st.integers(1, 6))
def test_stable_ids_are_a_permutation_however_many_clusters_there_were(seed, n_old, n_new):
    rng = np.random.default_rng(seed)
    ids = stable_ids(rng.normal(size=(n_old, 2)), rng.normal(size=(n_new, 2)))
    assert sorted(ids.tolist()) == list(range(n_new))


def clusters_of(sent, previous=None, **facts):
    """The clusters of a federation of these devices, and the aggregation in one process."""
    result = kfed.aggregate(sent, 4)
    digests = np.array([list(result.messages.message(one).digest()) for one in result.messages.device_ids], np.uint8)
    facts = {"version": 1, "made_at": 0.0, **facts}
    return Clusters.of(result, digests, np.arange(1, len(sent) + 1), previous, **facts), result


def test_clusters_come_back_from_their_bytes():
    sent = messages(5)
    clusters, _ = clusters_of(sent, version=2, made_at=1.5)
    again = Clusters.from_bytes(clusters.to_bytes())
    for one in sent:
        assert ShownClusters(again, 2).answer_if_ready(one) == ShownClusters(clusters, 2).answer_if_ready(one)
    assert (again.version, again.members.last_sequence, again.made_at) == (2, 5, 1.5)
    assert again.members.sequences.tolist() == [1, 2, 3, 4, 5]


def told(answering, sent):
    """What a device is told: an identity, or nothing if it was aggregated with another message."""
    try:
        return answering.answer(sent)
    except kfed.DuplicateDeviceError:
        return None


@given(seed=st.integers(0, 1000), n_devices=st.integers(2, 9), data=st.data())
def test_a_coordinator_answers_every_message_as_an_aggregation_in_one_process_does(seed, n_devices, data):
    sent = messages(n_devices, seed=seed)
    clusters, result = clusters_of(sent)
    same = data.draw(st.sampled_from(sent))
    changed = message(same.device_id, (2, 3), seed=seed + 1)
    late = message("late", (0, 1, 2, 3), seed=seed)
    for one in (same, changed, late, kfed.DeviceMessage.from_bytes(same.to_bytes())):
        assert ShownClusters(clusters, 1).answer_if_ready(one) == told(result, one)
    assert labels_if_ready(clusters, changed) is None
    assert labels_if_ready(None, same) is None


def test_a_message_is_known_by_what_it_says_and_not_by_how_it_was_written():
    sent = messages(3)
    clusters, _ = clusters_of(sent)
    payload = sent[0].to_bytes()
    length = int.from_bytes(payload[:8], "little")
    spaced = (length + 8).to_bytes(8, "little") + payload[8 : 8 + length] + b" " * 8 + payload[8 + length :]
    assert spaced != payload
    assert clusters.members.has(kfed.DeviceMessage.from_bytes(spaced))


@given(known=st.none() | st.binary(max_size=2), sent=st.binary(max_size=2), replace=st.booleans(), secret=st.booleans())
def test_a_stored_message_is_replaced_only_on_request_and_with_the_secret(known, sent, replace, secret):
    outcome = judge(known, sent, replace=replace, has_secret=secret)
    assert (outcome is Admission.JOINED) == (known is None)
    assert (outcome is Admission.REPEATED) == (known == sent)
    if outcome is Admission.REPLACED:
        assert replace
        assert secret
    assert judge(known, sent, replace=replace, has_secret=secret, is_deleted=True) is Admission.GONE


@given(
    closed=st.booleans(),
    invited_only=st.booleans(),
    n_devices=st.integers(0, 4),
    token=st.sampled_from([None, "own", "other"]),
    used_at=st.none() | st.just(1.0),
    is_invited=st.booleans(),
)
def test_a_new_device_joins_an_open_federation_by_its_own_unused_invitation_or_where_none_is_needed(
    closed, invited_only, n_devices, token, used_at, is_invited
):
    terms = dataclasses.replace(FEDERATION, closed=closed, invited_only=invited_only, max_devices=3)
    invitation = Invitation("north", hashed("own"), 0.0, used_at) if is_invited else None
    outcome = judge_new(terms, n_devices, invitation, token)
    assert (outcome is Admission.CLOSED) == closed
    assert (outcome is Admission.FULL) == (not closed and n_devices >= 3)
    if outcome in (Admission.JOINED, Admission.NOT_INVITED):
        by_invitation = is_invited and used_at is None and token == "own"
        needs_none = not is_invited and not invited_only and token is None
        assert (outcome is Admission.JOINED) == (by_invitation or needs_none)


def application(**facts):
    """A new device with a table, in an open federation that needs no invitation."""
    usual = {"device_id": "north", "federation": FEDERATION, "is_deleted": False, "n_devices": 1, "message": b"own"}
    usual |= {"known_message": None, "replace": False, "has_secret": False, "invitation": None, "token": None}
    usual |= {"known_names": None, "own_names": None, "table": FeatureSchema(2), "other_table": lambda: None}
    return Application(**usual | facts)


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        ({"is_deleted": True}, Admission.GONE),
        ({"known_message": b"own"}, Admission.REPEATED),
        ({"known_message": b"other"}, Admission.CONFLICT),
        ({"known_message": b"other", "replace": True}, Admission.NO_RIGHT),
        ({"token": "of nobody"}, Admission.NOT_INVITED),
        ({"known_names": ("age", "bmi"), "own_names": ("bmi", "age")}, Admission.OTHER_FEATURES),
    ],
)
def test_a_message_is_compared_with_the_table_of_another_device_only_if_nothing_else_speaks_against_it(facts, outcome):
    assert admit(application(**facts, other_table=pytest.fail)) == (outcome, "")


def test_a_message_with_other_columns_than_another_table_hears_which():
    admission, reason = admit(application(other_table=lambda: FeatureSchema(3)))
    assert (admission, "'north'" in reason) == (Admission.OTHER_FEATURES, True)
    assert admit(application(other_table=lambda: FeatureSchema(2))) == (Admission.JOINED, "")
    assert admit(application(table=None, other_table=pytest.fail)) == (Admission.JOINED, "")


@given(
    n=st.integers(0, 9), quorum=st.none() | st.integers(1, 9), deadline=st.none() | st.floats(1, 9), now=st.floats(0, 9)
)
def test_it_is_time_at_the_quorum_or_at_the_deadline_and_never_without_centers(n, quorum, deadline, now):
    federation = Federation(1, "x", FeatureSchema(2), 4, "paper", b"", 0.0, quorum=quorum, deadline=deadline)
    due = is_due(federation, Tally(n_devices=n, n_centers=2 * n), now)
    expected = (quorum is not None and n >= quorum) or (deadline is not None and now >= deadline)
    assert due == (expected and 2 * n >= 4)


def test_a_token_matches_its_own_hash_and_nothing_else():
    tokens = [new_token() for _ in range(20)]
    assert len(set(tokens)) == 20
    for one in tokens:
        assert [matches(other, hashed(one)) for other in tokens] == [other == one for other in tokens]
    assert not matches("", None)
    assert not matches(None, None)


def test_a_clock_that_jumps_and_comes_back_moves_no_deadline():
    wall, steady = [1000.0], [0.0]
    clock = Clock(wall=lambda: wall[0], steady=lambda: steady[0])
    for second in range(1, 50):
        steady[0] = float(second)
        wall[0] = 1000.0 + second + (1e7 if second % 10 == 3 else -1e7 if second % 10 == 7 else 0)
        assert clock.now() == 1000.0 + second


# Commits --------------------------------------------------------------------------------------------------------


def arrival(device_id, seed=0, **options):
    return arrival_of(message(device_id, seed=seed), FEDERATION, **options)


@pytest.fixture
def store(store_address):
    opened = Store(store_address)
    yield opened
    opened.close()


def test_messages_that_wait_together_are_committed_together_and_judged_in_order(store):
    sizes = []

    async def run():
        committer = Committer(store, sizes.append)
        arrivals = [arrival(f"{i % 50}") for i in range(100)]
        receipts = await asyncio.gather(*(committer.put(one) for one in arrivals))
        await committer.close()
        return receipts

    receipts = asyncio.run(run())
    assert [receipt.admission for receipt in receipts] == [Admission.JOINED] * 50 + [Admission.REPEATED] * 50
    assert [receipt.sequence for receipt in receipts[:50]] == [receipt.sequence for receipt in receipts[50:]]
    with store.reading(1) as reading:
        assert sorted(reading.sequences().values()) == list(range(1, 51))
    assert store.tally(1).n_devices == 50
    assert len(sizes) < 10


def test_totals_that_another_thread_reads_are_replaced_and_never_changed(store):
    def held():
        return store._tallies, store._names, store.second._counts

    for change in (
        lambda: store.change_devices([arrival("a", feature_names=("x", "y"))]),
        lambda: store.change_devices([arrival("b"), Departure(1, "a")]),
        lambda: store.tally(99),
        lambda: store.delete_federation(1),
    ):
        before = held()
        copies = [dict(totals) for totals in before]
        change()
        assert list(before) == copies
    assert (store.tally(1).n_devices, store.feature_names(1)) == (0, None)


def test_a_batch_knows_what_came_before_in_the_same_batch(store):
    secret = new_token()
    own = {"secret": secret, "secret_hash": hashed(secret)}
    receipts = store.change_devices(
        [
            arrival("a", **own),
            arrival("a", 1),
            arrival("a", 1, replace=True, **own),
            arrival("a", 2, replace=True, secret="another", secret_hash=b""),
            arrival("a", 1),
        ]
    )
    assert [receipt.admission for receipt in receipts] == [
        Admission.JOINED, Admission.CONFLICT, Admission.REPLACED, Admission.NO_RIGHT, Admission.REPEATED,
    ]  # fmt: skip
    assert store.device(1, "a").message == message("a", seed=1).to_bytes()
    assert store.tally(1).n_devices == 1


def test_devices_that_come_and_go_together_are_committed_together_and_judged_in_order(store):
    store.change_devices([arrival("a"), arrival("b")])
    changes = [
        Departure(1, "a"),
        Departure(1, "a"),
        arrival("a", 1),
        arrival("c"),
        Departure(1, "c"),
        arrival("b"),
        Departure(2, "b"),
    ]
    sizes = []

    async def run():
        committer = Committer(store, sizes.append)
        done = [committer.put(one) if isinstance(one, Arrival) else committer.remove(one) for one in changes]
        answers = await asyncio.gather(*done)
        await committer.close()
        return answers

    left, again, back, new, gone, repeated, elsewhere = asyncio.run(run())
    assert (left.sequence, again, back.sequence) == (1, None, 3)
    assert (new.sequence, gone.sequence, repeated.admission, elsewhere) == (4, 4, Admission.REPEATED, None)
    assert store.device(1, "a").message == message("a", seed=1).to_bytes()
    with store.reading(1) as reading:
        assert reading.sequences() == {"a": 3, "b": 2}
    assert store.tally(1).n_devices == 2
    assert len(sizes) <= 2


def test_what_the_database_refuses_is_kept_by_nobody_and_said_to_all(store):
    change, failing = store.change_devices, threading.Event()

    def refuse(changes):
        if failing.is_set():
            raise StoreUnavailableError("on purpose")
        return change(changes)

    store.change_devices = refuse

    async def run():
        committer = Committer(store)
        failing.set()
        first = await asyncio.gather(*(committer.put(arrival(f"{i}")) for i in range(5)), return_exceptions=True)
        failing.clear()
        second = await committer.put(arrival("0"))
        await committer.close()
        return first, second

    first, second = asyncio.run(run())
    assert all(isinstance(answer, StoreUnavailableError) for answer in first)
    assert second.admission is Admission.JOINED
    assert store.tally(1).n_devices == 1


def test_the_client_needs_nothing_of_the_server():
    blocked = ["fastapi", "starlette", "pydantic", "sqlalchemy", "uvicorn", "prometheus_client", "psycopg"]
    program = f"""
import sys
sys.modules.update(dict.fromkeys({blocked}))
import kfed.coordinator.client
try:
    import kfed.coordinator.http
except kfed.MissingExtraError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "pip install 'kfed[coordinator]'" in said
