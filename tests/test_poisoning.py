"""Devices that lie: with `min_devices`, few of them do not change what the others get, whatever they send."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import kfed
from kfed.insight import cluster_report, to_html
from kfed.server import support
from kfed.wire import MessageBatch
from worlds import mixture_world, same_partition, theorem_world

RULES = ["paper", "robust"]


class Arena:
    """100 honest devices with 16 clusters, four on each; `n_honest` of them are asked."""

    def __init__(self, gap=10.0, n_honest=100, seed=0):
        self.world = mixture_world(16, 24, gap=gap, devices_per_group=25, points_per_cluster=40, seed=seed)
        asked = np.random.default_rng(seed).permutation(100)[:n_honest]
        found = self.world.clusterings(seed)
        self.messages = [found[i].to_message(self.world.ids[i]) for i in asked]
        self.centers = np.concatenate([message.centers for message in self.messages])
        targets = [self.world.targets[i][found[i].labels == r] for i in asked for r in range(4)]
        self._targets = np.array([np.bincount(own, minlength=16) for own in targets])  # (n_centers, 16)

    def aggregate(self, *liars, n_clusters=16, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", kfed.AggregationWarning)
            return kfed.aggregate([*self.messages, *liars], n_clusters, **options)

    def agreement(self, result):
        """Adjusted Rand index of the induced labels of the honest devices."""
        labels = np.concatenate([result.identity(message.device_id).cluster_ids for message in self.messages])
        table = np.zeros((result.n_clusters, 16))
        np.add.at(table, labels, self._targets)
        both, one, other, everything = map(_n_pairs, (table, table.sum(axis=1), table.sum(axis=0), table.sum()))
        by_chance = one * other / everything
        return (both - by_chance) / ((one + other) / 2 - by_chance)


def _n_pairs(sizes):
    return float((sizes * (sizes - 1) / 2).sum())


@pytest.fixture(scope="module")
def arena():
    return Arena()


def liar(arena, n_centers=1, *, reach=0.0, count=40, name="liar", seed=0, spread=24.0):
    """A device that copies centers of others, moved by `reach`."""
    rng = np.random.default_rng(seed)
    moves = rng.normal(size=(n_centers, 24))
    moves *= reach / np.linalg.norm(moves, axis=1, keepdims=True)
    rows = rng.integers(len(arena.centers), size=n_centers)
    centers = np.clip(arena.centers[rows] + moves, -1e100, 1e100)
    return kfed.DeviceMessage(name, centers, [count] * n_centers, [count * spread] * n_centers)


# The plain cases ------------------------------------------------------------------------------------------------

PLAIN = {
    "counts of 2^53": {"n_centers": 16, "reach": 3.0, "count": 2**53},
    "1024 counts of 2^53": {"n_centers": 1024, "reach": 5.0, "count": 2**53},
    "a center at 1e100": {"reach": 1e100},
    "a far center": {"reach": 300.0},
    "many far centers": {"n_centers": 64, "reach": 50.0},
    "halves of a cluster": {"n_centers": 47, "reach": 5.0, "count": 1000},
    "spreads beyond reason": {"n_centers": 400, "reach": 4.0, "count": 300, "spread": 1e25},
}
QUICK = ("counts of 2^53", "a far center", "halves of a cluster")
QUICK_OR_SLOW = [what if what in QUICK else pytest.param(what, marks=pytest.mark.slow) for what in PLAIN]


@pytest.mark.parametrize("rule", [*RULES, "pooled"])
@pytest.mark.parametrize("what", QUICK_OR_SLOW)
def test_one_liar_of_101_changes_nothing_for_the_others(arena, what, rule):
    result = arena.aggregate(liar(arena, **PLAIN[what]), rule=rule, min_devices=2)
    assert arena.agreement(result) >= 0.95
    assert np.isfinite(result.cluster_centers).all()
    assert (result.cluster_sizes > 0).all()


@pytest.mark.parametrize("rule", [*RULES, "pooled"])
@pytest.mark.parametrize("reach", [30.0, 300.0, 1e100])
def test_a_center_far_from_all_others_moves_no_mean_so_far_that_late_devices_are_told_wrong(arena, reach, rule):
    clean, lied_to = (arena.aggregate(*liars, rule=rule, min_devices=2) for liars in ([], [liar(arena, reach=reach)]))
    moved = np.linalg.norm(clean.cluster_centers[:, None] - lied_to.cluster_centers, axis=2).min(axis=1)
    assert moved.max() < (0.5 if rule == "paper" else 2)  # standard deviations; the nearest clusters are ten apart


@pytest.mark.parametrize("rule", ["robust", "pooled"])
@pytest.mark.parametrize("what", QUICK_OR_SLOW)
def test_rules_beside_the_papers_ask_for_two_devices_among_many_by_themselves(arena, what, rule):
    assert arena.agreement(arena.aggregate(liar(arena, **PLAIN[what]), rule=rule)) >= 0.95


@pytest.mark.parametrize("what", QUICK_OR_SLOW)
def test_one_liar_does_not_make_another_number_reliable(arena, what):
    choice = kfed.choose_n_clusters([*arena.messages, liar(arena, **PLAIN[what])])
    assert choice.n_clusters == 16 or not choice.is_reliable


def test_the_paper_rule_is_algorithm_2_unless_it_is_asked_for_more(arena):
    far = liar(arena, reach=300.0)
    plain, asked = arena.aggregate(far), arena.aggregate(far, min_devices=1)
    np.testing.assert_array_equal(plain.center_labels, asked.center_labels)
    assert np.count_nonzero(plain.center_labels == plain.identity("liar").cluster_ids[0]) == 1
    assert plain.settings.min_devices is None
    assert asked.settings.min_devices == 1


def test_the_warnings_name_the_liars(arena):
    liars = [liar(arena, 3, reach=300.0, name=f"liar-{i}", seed=i) for i in range(3)]
    with pytest.warns(kfed.AggregationWarning, match="9 centers of 'liar-0', 'liar-1', 'liar-2' were set aside"):
        result = kfed.aggregate([*arena.messages, *liars], 16, rule="robust", min_devices=4)
    assert kfed.Aggregation.from_bytes(result.to_bytes()).notices == result.notices
    choice = kfed.choose_n_clusters([*arena.messages, *liars], min_devices=4)
    assert (choice.n_clusters, choice.is_reliable) == (16, True)
    assert "'liar-0', 'liar-1', 'liar-2' were set aside" in choice.reason


def test_the_report_of_the_clusters_names_the_liars(arena):
    liars = [liar(arena, 3, reach=300.0, name=f"liar-{i}", seed=i) for i in range(2)]
    few = arena.messages[:32]
    result = kfed.aggregate([*few, *liars], 16, rule="robust", min_devices=3)
    shown = to_html(cluster_report(result, "Clusters")).decode()
    assert "6 centers of &#x27;liar-0&#x27;, &#x27;liar-1&#x27; were set aside" in shown
    assert "liar-" not in to_html(cluster_report(kfed.aggregate(few, 16), "Clusters")).decode()


def test_what_is_set_aside_is_answered_like_a_late_device(arena):
    far = liar(arena, 2, reach=300.0)
    result = arena.aggregate(far, rule="robust", min_devices=2)
    without = arena.aggregate(rule="robust", min_devices=2)
    np.testing.assert_array_equal(result.cluster_centers, without.cluster_centers)
    np.testing.assert_array_equal(result.identity("liar").cluster_ids, without.assign(far).cluster_ids)
    assert result.grouping.set_aside.tolist() == list(range(400, 402))
    assert result.without("liar") == without


@pytest.mark.parametrize("rule", RULES)
def test_neither_the_order_of_messages_nor_threads_matter(arena, rule):
    sent = [*arena.messages, liar(arena, 8, reach=30.0)]
    options = {"rule": rule, "min_devices": 2}
    one, other = arena.aggregate(sent[-1], n_jobs=1, **options), arena.aggregate(sent[-1], n_jobs=2, **options)
    assert one == other
    with pytest.warns(kfed.AggregationWarning):
        shuffled = kfed.aggregate(sent[::-1], 16, **options)
    assert shuffled == one


# Honest devices -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("min_devices", [None, 2, 3])
def test_where_the_paper_separates_clusters_its_answer_is_given(rule, min_devices):
    for world in (theorem_world(10.0), mixture_world(gap=20.0, devices_per_group=10)):
        sent = world.messages()
        paper = kfed.aggregate(sent, 16)
        result = kfed.aggregate(sent, 16, rule=rule, min_devices=min_devices)
        assert same_partition(paper.center_labels, result.center_labels)
        assert len(result.grouping.set_aside) == 0


@pytest.mark.parametrize("rule", RULES)
def test_every_cluster_rests_on_as_many_devices_as_were_asked_for(rule):
    rng = np.random.default_rng(0)
    sent = [kfed.DeviceMessage(f"{i}", rng.normal(size=(3, 2)), rng.integers(5, 90, 3)) for i in range(40)]
    for min_devices in (2, 5, 9):
        with pytest.warns(kfed.AggregationWarning):
            result = kfed.aggregate(sent, 4, rule=rule, min_devices=min_devices)
        owners, labels = result.messages.owners, result.center_labels
        kept = np.setdiff1d(np.arange(len(labels)), result.grouping.set_aside)
        assert all(len(np.unique(owners[kept][labels[kept] == r])) >= min_devices for r in range(4))


@pytest.mark.parametrize("rule", RULES)
def test_fewer_such_clusters_than_asked_for_is_an_error(rule):
    sent = [kfed.DeviceMessage(name, [[at], [at + 0.1]], [9, 9]) for name, at in {"a": 0.0, "b": 50.0}.items()]
    with pytest.raises(kfed.TooFewCentersError, match="fewer than 2 clusters rest on enough devices"):
        kfed.aggregate(sent, 2, rule=rule, min_devices=2)
    with pytest.raises(kfed.InvalidInputError, match="min_devices must be a whole number of at least 1; got 0"):
        kfed.aggregate(sent, 2, rule=rule, min_devices=0)


def test_among_many_devices_that_share_nothing_each_keeps_its_cluster():
    sent = [kfed.DeviceMessage(f"{i:02}", [[100.0 * i]], [20], [20.0]) for i in range(40)]
    assert sorted(kfed.aggregate(sent, 40, rule="robust").center_labels) == list(range(40))


def test_few_devices_may_have_a_cluster_each_alone():
    sent = [kfed.DeviceMessage(f"{i}", [[0.0], [50.0 * (i == 3)]], [20, 20], [20.0, 20.0]) for i in range(12)]
    result = kfed.aggregate(sent, 2, rule="robust")
    assert sorted(result.cluster_centers.ravel()) == [0.0, 50.0]


def test_estimator_and_round_pass_min_devices_on():
    world = mixture_world()
    model = kfed.KFed(16, 4, min_devices=3, random_state=0).fit(world.points)
    assert model.aggregation_.settings.min_devices == 3


# Weights --------------------------------------------------------------------------------------------------------


def test_no_device_weighs_more_than_its_share():
    counts = {"a": 2**53, "b": 2**53, **{f"{i}": 10 for i in range(8)}}
    weights = support.bounded_counts(MessageBatch.of([kfed.DeviceMessage(n, [[0.0]], [c]) for n, c in counts.items()]))
    assert weights.max() <= 0.25 * weights.sum() * (1 + 1e-12)
    even = MessageBatch.of([kfed.DeviceMessage(f"{i}", [[0.0]], [10 + i]) for i in range(8)])
    np.testing.assert_array_equal(support.bounded_counts(even), even.counts)


@pytest.mark.parametrize("rule", [*RULES, "regions"])
def test_1024_counts_of_2_to_the_53_do_not_overflow(rule):
    sent = kfed.DeviceMessage("a", np.linspace(0, 1, 1024)[:, None], [2**53] * 1024, [1.0] * 1024)
    assert sent.n_points == 2**63
    result = kfed.aggregate([sent], 1, rule=rule)
    assert result.cluster_sizes.tolist() == [2.0**63]
    assert result.to_message("region").counts.tolist() == [2**53]
    np.testing.assert_allclose(result.cluster_centers, 0.5, rtol=1e-6)


# The worst that an optimiser finds ------------------------------------------------------------------------------


@dataclass
class Attack:
    """What one liar sends."""

    centers: np.ndarray
    counts: np.ndarray
    squares: np.ndarray | None
    deviation: float | None

    def message(self, name):
        return kfed.DeviceMessage(name, self.centers, self.counts, self.squares, self.deviation)


def drawn(rng, arena):
    """A random attack: centers amid, between, around or far from those of others; any counts and spreads."""
    n = int(rng.choice([1, 2, 3, 4, 8, 16, 17, 32, 64]))
    rows = rng.integers(len(arena.centers), size=n if rng.random() < 0.5 else 1)
    base = np.broadcast_to(arena.centers[rows], (n, 24))
    if rng.random() < 0.3:
        base = base + rng.random((n, 1)) * (arena.centers[rng.integers(len(arena.centers), size=n)] - base)
    moves = rng.normal(size=(n if rng.random() < 0.7 else 1, 24))
    moves *= 10 ** rng.uniform(-2, 3 if rng.random() < 0.9 else 99) / np.linalg.norm(moves, axis=1, keepdims=True)
    counts = np.ceil(10 ** rng.uniform(0, rng.choice([1, 2, 3, 15.9]), n)) if rng.random() < 0.7 else np.full(n, 40.0)
    spreads = 10 ** rng.uniform(-3, rng.choice([2, 4, 30]), n) if rng.random() < 0.6 else np.full(n, 24.0)
    deviation = None if rng.random() < 0.5 else 10 ** rng.uniform(-2, 5)
    squares = None if rng.random() < 0.15 else counts * spreads
    return Attack(np.clip(base + moves * rng.random((n, 1)), -1e100, 1e100), counts, squares, deviation)


def changed(rng, attack, arena):
    """A step of hill climbing from an attack."""
    centers, counts = attack.centers.copy(), attack.counts.copy()
    squares = None if attack.squares is None else attack.squares.copy()
    some = rng.random(len(centers)) < rng.choice([0.1, 0.5, 1.0])
    what = rng.integers(5)
    if what == 0:
        centers[some] += rng.normal(size=(some.sum(), 24)) * 10 ** rng.uniform(-2, 1.5) / 5
    elif what == 1:
        counts[some] = np.clip(np.ceil(counts[some] * 10 ** rng.normal(0, 0.7, some.sum())), 1, 2**53)
    elif what == 2 and squares is not None:
        squares[some] = np.clip(squares[some] * 10 ** rng.normal(0, 1, some.sum()), 0, 1e300)
    elif what == 3:
        pole = arena.centers[rng.integers(len(arena.centers))]
        centers[some] = pole + (centers[some] - pole) * 10 ** rng.uniform(-1, 0.5)
    else:
        rows = rng.integers(len(centers), size=rng.integers(1, 2 * len(centers) + 1))
        centers, counts = centers[rows] + 0.5 * rng.normal(size=(len(rows), 24)), counts[rows]
        squares = None if squares is None else squares[rows]
    return Attack(np.clip(centers, -1e100, 1e100), counts, squares, attack.deviation)


def worst(harm, start, step, n_drawn, n_steps, seed=0):
    """The most harmful attack of random search and hill climbing from the five worst that it found."""
    rng = np.random.default_rng(seed)
    found = sorted(((harm(one), i, one) for i, one in enumerate(start(rng) for _ in range(n_drawn))), reverse=True)[:5]
    for i in range(n_steps):
        place = int(rng.integers(len(found)))
        other = step(rng, found[place][2])
        if (harmed := harm(other)) >= found[place][0]:
            found[place] = (harmed, n_drawn + i, other)
    return max(found)[0]


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("gap", [8.0, 20.0])
def test_the_worst_message_of_one_device_of_101_leaves_the_others_in_peace(rule, gap):
    arena = Arena(gap)

    def harm(attack):
        return -arena.agreement(arena.aggregate(attack.message("liar"), rule=rule, min_devices=2))

    found = worst(harm, lambda rng: drawn(rng, arena), lambda rng, one: changed(rng, one, arena), 100, 150)
    assert -found >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_the_worst_messages_of_ten_colluding_devices_of_100_do_little_harm(rule):
    arena = Arena(n_honest=90)

    def harm(team):
        liars = [attack.message(f"liar-{i}") for i, attack in enumerate(team)]
        return -arena.agreement(arena.aggregate(*liars, rule=rule, min_devices=11))

    def start(rng):
        if rng.random() < 0.5:
            return [drawn(rng, arena) for _ in range(10)]
        plan = drawn(rng, arena)
        jitter = 10 ** rng.uniform(-3, 1)
        moved = [np.clip(plan.centers + jitter * rng.normal(size=plan.centers.shape), -1e100, 1e100) for _ in range(10)]
        return [Attack(centers, plan.counts, plan.squares, plan.deviation) for centers in moved]

    def step(rng, team):
        seeds = rng.integers(2**32, size=10) if rng.random() < 0.5 else np.full(10, rng.integers(2**32))
        return [changed(np.random.default_rng(seed), one, arena) for seed, one in zip(seeds, team, strict=True)]

    assert -worst(harm, start, step, 60, 100) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("gap", [10.0, 20.0])
def test_no_message_of_one_device_makes_a_wrong_number_reliable(gap):
    arena = Arena(gap)

    def harm(attack):
        choice = kfed.choose_n_clusters([*arena.messages, attack.message("liar")])
        return (choice.n_clusters != 16) * (1 + choice.is_reliable)

    found = worst(harm, lambda rng: drawn(rng, arena), lambda rng, one: changed(rng, one, arena), 100, 200)
    assert found < 2
