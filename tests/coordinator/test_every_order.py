"""A model of a federation, checked against a coordinator over random orders of events.

Devices join, replace and leave; the administrator aggregates and closes; the coordinator is restarted, killed, or does
not learn whether a commit was carried out. The model is two sets: the messages that should be stored, and those that
the clusters should be made of, which `kfed.aggregate` gets as they are.
"""

import asyncio
import glob
import os
import tempfile
import uuid
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from coordinators import SECRET, loop_in_a_thread, message
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from sqlalchemy import create_engine, func, select, text

import kfed
from kfed.coordinator.core import Clusters, Coordinator, Proofs, labels_if_ready, registry, service
from kfed.coordinator.core.members import Members
from kfed.coordinator.problems import ProblemError, StoreUnavailableError
from kfed.coordinator.security import new_token
from kfed.coordinator.store import Store, schema, transactions
from kfed.wire import FeatureSchema

N_CLUSTERS = 3
GROUPS = [(0, 1), (2,), (1, 3), (3, 2)]
DEVICES = "abcdef"
VARIANTS = st.integers(0, 2)
OK, REFUSED, LOST, KILLED_BEFORE, KILLED_AFTER = "ok", "refused", "lost", "killed before", "killed after"
FAULTS = [[*before, fault] for before in ([], [OK]) for fault in (REFUSED, LOST, KILLED_BEFORE, KILLED_AFTER)]
PLANS = st.sampled_from([[]] * len(FAULTS) + FAULTS)
PLACES = st.integers(0, 5)
ANY, NEWEST, AGGREGATED = "any", "newest", "aggregated"
WHO = st.sampled_from([NEWEST, AGGREGATED, ANY])


@cache
def sent(device_id, variant):
    return message(device_id, GROUPS[(ord(device_id) + variant) % len(GROUPS)], seed=variant)


@cache
def expected(members):
    """The clusters of these messages, or None if they have too few centers."""
    messages = [sent(*member) for member in sorted(members)]
    if sum(one.n_local_clusters for one in messages) < N_CLUSTERS:
        return None
    return kfed.aggregate(messages, N_CLUSTERS)


class Faults:
    """Decides what becomes of the next commits of a store, and knows whether the first was carried out."""

    def __init__(self, store):
        self.plan, self.first_was_kept, self.is_dead = [], None, False
        self._dialect = store.engine.dialect
        self._commit, self._error = self._dialect.do_commit, self._dialect.loaded_dbapi.OperationalError
        self._dialect.do_commit = self._do_commit

    def end(self):
        self._dialect.do_commit = self._commit

    def expect(self, plan):
        self.plan, self.first_was_kept = list(plan), None

    def _do_commit(self, connection):
        fate = KILLED_BEFORE if self.is_dead else self.plan.pop(0) if self.plan else OK
        self.is_dead = self.is_dead or fate in (KILLED_BEFORE, KILLED_AFTER)
        is_kept = fate in (OK, LOST, KILLED_AFTER)
        if self.first_was_kept is None:
            self.first_was_kept = is_kept
        if is_kept:
            self._commit(connection)
        if fate != OK:
            raise self._error("on purpose")


class Running:
    """A coordinator on an event loop in another thread."""

    def __init__(self, loop, address):
        self._loop = loop
        self._store = Store(address)
        self.faults = Faults(self._store)
        self.coordinator = self.run(self._start())

    async def _start(self):
        coordinator = Coordinator(self._store)
        await coordinator.start()
        return coordinator

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def stop(self):
        self.run(self.coordinator.stop())
        self._store.close()
        self.faults.end()


class Federated(RuleBasedStateMachine):
    """A federation and its model."""

    loop = addresses = None

    def __init__(self):
        super().__init__()
        self.address = next(self.addresses)
        self.running = Running(self.loop, self.address)
        self.stored = {}  # in the order of arrival
        self.aggregated = None
        self.is_closed = False
        self.retry_from = 0

    @initialize(
        quorum=st.none() | st.integers(2, 4),
        first=st.lists(st.sampled_from(DEVICES), min_size=3, unique=True),
        aggregates=st.booleans(),
    )
    def create(self, quorum, first, aggregates):
        self.quorum = quorum
        terms = {"name": "f", "schema": FeatureSchema(2), "n_clusters": N_CLUSTERS, "rule": "paper", "quorum": quorum}
        self.running.run(self.coordinator.administration.create(terms, new_token()))
        for device_id in first:
            self.join(device_id, 0, [])
        if aggregates:
            self.aggregate([])

    # Events -----------------------------------------------------------------------------------------------------------

    @rule(device_id=st.sampled_from(DEVICES), variant=VARIANTS, plan=PLANS)
    def join(self, device_id, variant, plan):
        known = self.stored.get(device_id)
        status = 409 if (known is None and self.is_closed) or known not in (None, variant) else None

        def joins():
            if status is None:
                self.stored[device_id] = variant

        self._do(self._accept(device_id, variant), status, plan, joins)

    @rule(place=PLACES, variant=VARIANTS, plan=PLANS)
    def join_if_absent(self, place, variant, plan):
        absent = sorted(set(DEVICES) - set(self.stored)) or DEVICES
        self.join(absent[place % len(absent)], variant, plan)

    @rule(who=WHO, place=PLACES, variant=VARIANTS, plan=PLANS)
    def replace(self, who, place, variant, plan):
        self._replace(self._one_of(who, place), variant, plan)

    def _replace(self, device_id, variant, plan):
        status = 409 if device_id not in self.stored and self.is_closed else None

        def replaces():
            if status is None:
                self._message_goes_unless(device_id, variant)
                if self.stored.get(device_id) != variant:
                    self.stored.pop(device_id, None)
                    self.stored[device_id] = variant

        self._do(self._accept(device_id, variant, replace=True), status, plan, replaces)

    @rule(device_id=st.sampled_from(DEVICES), variant=VARIANTS, plan=PLANS)
    def join_or_replace(self, device_id, variant, plan):
        self._replace(device_id, variant, plan)

    @rule(who=WHO, place=PLACES, plan=PLANS, restarts=st.booleans())
    def leave(self, who, place, plan, restarts):
        self._leave(self._one_of(who, place), plan)
        if restarts:
            self.restart()

    def _leave(self, device_id, plan):
        def leaves():
            self._message_goes_unless(device_id, None)
            self.stored.pop(device_id, None)

        self._do(self.coordinator.remove(self.live, device_id), None, plan, leaves)

    @rule(plan=PLANS)
    def aggregate(self, plan):
        status = None if expected(frozenset(self.stored.items())) is not None else 409
        if status is not None:
            self.retry_from = 2 * len(self.stored)

        def aggregates():
            if status is None:
                self.aggregated = dict(self.stored)

        self._do(self.coordinator.aggregate(self.live), status, plan, aggregates)

    @rule(plan=PLANS, is_sure=st.sampled_from([False, False, False, True]))
    def close(self, plan, is_sure):
        if not is_sure:  # in a closed federation little happens
            return

        def closes():
            self.is_closed = True

        self._do(self.coordinator.administration.close(self.live), None, plan, closes)

    @rule()
    def restart(self):
        self.running.stop()
        self.running = Running(self.loop, self.address)
        self.retry_from = 0

    # What must hold ---------------------------------------------------------------------------------------------------

    @rule()
    def agrees(self):
        self._wait_until_quiet()
        clusters, tally = self.live.clusters, self.coordinator.tally(self.live)
        assert self.live.federation.closed == self.is_closed
        assert tally.n_devices == len(self.stored)
        assert tally.n_centers == sum(sent(*one).n_local_clusters for one in self.stored.items())
        for device_id, variant in self.stored.items():
            found = self.running.run(self.coordinator.device(self.live, device_id))
            assert found.message == sent(device_id, variant).to_bytes()
            assert (labels_if_ready(clusters, sent(device_id, variant)) is None) == (self.aggregated is None)
        assert (clusters is None) == (self.aggregated is None)
        if clusters is not None:
            result = expected(frozenset(self.aggregated.items()))
            assert clusters.members.device_ids == result.messages.device_ids == tuple(sorted(self.aggregated))
            assert len(set(zip(clusters.center_labels, result.center_labels, strict=True))) == N_CLUSTERS
            np.testing.assert_array_equal(
                clusters.cluster_centers[clusters.center_labels], result.cluster_centers[result.center_labels]
            )

    def teardown(self):
        try:
            if hasattr(self, "quorum"):
                self.agrees()
        finally:
            self.running.stop()

    # How it is done ---------------------------------------------------------------------------------------------------

    @property
    def coordinator(self):
        return self.running.coordinator

    @property
    def live(self):
        return self.coordinator.find("f")

    def _one_of(self, who, place):
        """The device that came last, or one that is in the clusters; most faults need one of these."""
        among = {NEWEST: list(self.stored)[-1:], AGGREGATED: sorted(self.aggregated or ())}.get(who) or DEVICES
        return among[place % len(among)]

    def _accept(self, device_id, variant, replace=False):
        payload = sent(device_id, variant).to_bytes()
        return self.coordinator.accept(self.live, device_id, payload, Proofs(SECRET, replace))

    def _do(self, work, status, plan, effect):
        """Do something with the commits faring as planned, and let the model follow if the first one was kept."""
        if plan or self.quorum is not None:
            self._wait_until_quiet()
        faults = self.running.faults
        faults.expect(plan)
        problem = self._problem_of(work)
        if isinstance(problem, StoreUnavailableError):
            assert plan
            assert problem.may_be_kept or not faults.first_was_kept
        else:
            assert (None if problem is None else problem.status) == status
        if faults.first_was_kept or not plan:
            effect()
        if plan:
            self._wait_until_quiet()
            self.running.faults.expect([])
        if self.quorum is not None:
            self._wait_until_quiet()
            self._model_is_due()

    def _problem_of(self, work):
        try:
            self.running.run(work)
        except ProblemError as problem:
            return problem

    def _message_goes_unless(self, device_id, variant):
        if self.aggregated is None or self.aggregated.get(device_id, variant) == variant:
            return
        del self.aggregated[device_id]
        if expected(frozenset(self.aggregated.items())) is None:
            self.aggregated = None

    def _model_is_due(self):
        is_due = self.quorum is not None and len(self.stored) >= max(self.quorum, self.retry_from)
        if self.aggregated is None and is_due and expected(frozenset(self.stored.items())) is not None:
            self.aggregated = dict(self.stored)

    def _wait_until_quiet(self):
        self.running.run(self._until(lambda: self.running.faults.is_dead or self._is_quiet()))
        if self.running.faults.is_dead:
            self.restart()
            self._wait_until_quiet()

    async def _until(self, is_so):
        for _ in range(5000):
            if is_so():
                return
            await asyncio.sleep(0.001)
        raise AssertionError("the coordinator did not come to rest")

    def _is_quiet(self):
        live = self.live
        waits = live.clusters is None and self.quorum is not None
        is_due = waits and self.coordinator.tally(live).n_devices >= max(self.quorum, live.retry_from)
        is_due = is_due and expected(frozenset(self.stored.items())) is not None
        return not (self.coordinator.is_behind or live.is_unsettled or live.is_busy or is_due)


# Runs -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def loop():
    running, thread = loop_in_a_thread()
    yield running
    running.call_soon_threadsafe(running.stop)
    thread.join()
    running.close()


@pytest.fixture
def files(monkeypatch):
    """One file, in memory where that can be, made anew for each run; its engine keeps the SQL that it compiled."""
    connect = schema.connect
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        path = os.path.join(folder, "kfed.db")
        engine = connect(path)
        monkeypatch.setattr(schema, "connect", lambda _: engine)
        yield _made_anew(path)
        engine.dispose()


def _made_anew(path):
    while True:
        for name in glob.glob(f"{path}*"):
            Path(name).unlink(missing_ok=True)  # SQLite deletes some itself
        Path(path).touch()
        yield path


def check(monkeypatch, loop, addresses, max_examples, part=None, **options):
    """Run so many examples; each part has others, also where a profile makes every run the same."""
    monkeypatch.setattr(service, "TICK_SECONDS", 0.001)
    machine = type("OnStore", (Federated,), {"addresses": addresses, "loop": loop})
    if part is not None:
        machine = seed(part)(machine)
    how = settings(
        max_examples=max_examples,
        stateful_step_count=20,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        **options,
    )
    run_state_machine_as_test(machine, settings=how)


def test_in_any_order_of_events_the_clusters_are_those_of_the_devices_that_should_be_there(monkeypatch, loop, files):
    check(monkeypatch, loop, files, 10)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))  # tests of their own, for several cores
def test_in_thousands_of_orders_of_events_the_clusters_are_right(monkeypatch, loop, files, part):
    check(monkeypatch, loop, files, 500, part)


def test_each_part_of_the_thousands_of_orders_has_orders_of_its_own(monkeypatch, loop, files):
    seen, do = [[], []], Federated._do
    for part, events in enumerate(seen):

        def noted(self, work, status, plan, effect, events=events):
            events.append((status, plan, effect.__name__))
            do(self, work, status, plan, effect)

        monkeypatch.setattr(Federated, "_do", noted)
        check(monkeypatch, loop, files, 2, part, derandomize=True)
    assert seen[0] != seen[1]


@pytest.mark.slow
def test_in_any_order_of_events_on_postgresql_the_clusters_are_right(monkeypatch, loop, postgres):
    engine = create_engine(postgres.address.replace("://", "+psycopg://"), isolation_level="AUTOCOMMIT")

    def databases():
        while True:
            name = f"order_{uuid.uuid4().hex}"
            with engine.connect() as connection:
                connection.execute(text(f"CREATE DATABASE {name}"))
            yield postgres.address.rsplit("/", 1)[0] + f"/{name}"

    check(monkeypatch, loop, databases(), 20)
    engine.dispose()


# Faults that the model must find --------------------------------------------------------------------------------------


def plant_numbers_that_are_used_again(monkeypatch):
    """The first fault of its kind: places are taken from the devices that are there, and members told by a count."""
    save, of = transactions.set_counter, Clusters.of

    def last_of_those_there(connection, name, value, **how):
        if name == "sequence":
            value = connection.execute(select(func.max(schema.devices.c.sequence))).scalar() or 0
        save(connection, name, value, **how)

    def up_to_the_last(aggregation, digests, sequences, previous, **facts):
        made = of(aggregation, digests, sequences, previous, **facts)
        if previous is None:
            return made
        last = max(made.members.last_sequence, previous.members.last_sequence)
        return replace(made, members=replace(made.members, last_sequence=last))

    monkeypatch.setattr(transactions, "set_counter", last_of_those_there)
    monkeypatch.setattr(Clusters, "of", up_to_the_last)
    monkeypatch.setattr(
        Members, "among", lambda self, found: {one for one in found.values() if one <= self.last_sequence}
    )


def plant_members_told_by_their_ids(monkeypatch):
    """A device that replaced its message passes for the one that was aggregated."""
    monkeypatch.setattr(Members, "among", lambda self, found: {found[one] for one in self.device_ids if one in found})


def plant_doubts_that_are_forgotten(monkeypatch):
    """After a commit that failed, nothing is read back."""
    monkeypatch.setattr(transactions.Transactions, "is_in_doubt", property(lambda _: False, lambda *_: None), False)


def plant_clusters_of_another_epoch(monkeypatch):
    """After reading back, the clusters that are shown are not looked at again."""
    show = registry.Registry.show

    def show_federations_alone(self, contents):
        show(self, contents)
        for live in self.all():
            live.is_unsettled = False

    monkeypatch.setattr(registry.Registry, "show", show_federations_alone)


@pytest.mark.slow
@pytest.mark.parametrize(
    "plant",
    [
        plant_numbers_that_are_used_again,
        plant_members_told_by_their_ids,
        plant_doubts_that_are_forgotten,
        plant_clusters_of_another_epoch,
    ],
)
def test_the_model_finds_a_fault_that_is_planted(monkeypatch, loop, files, plant):
    plant(monkeypatch)
    with pytest.raises((AssertionError, ProblemError, Flaky)):
        check(monkeypatch, loop, files, 500, phases=[Phase.generate], report_multiple_bugs=False)
