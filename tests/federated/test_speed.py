"""How the fastest way of training is found: by few steps."""

from collections import Counter

import pytest

torch = pytest.importorskip("torch", reason="needs kfed[federated]")

from kfed.federated import _speed  # noqa: E402


def steps_timed(seconds_of, monkeypatch):
    """The way that is taken where a step takes so long, and how many steps were timed in each."""
    now, counts = [0.0], Counter()

    def step(batched):
        now[0] += seconds_of[batched]
        counts[batched] += 1

    monkeypatch.setattr(_speed.time, "perf_counter", lambda: now[0])
    return _speed.fastest(object(), "auto", 1, step, can_batch=True).batched, dict(counts)


def test_a_way_that_is_far_slower_is_timed_no_longer_than_it_takes_to_see_that(monkeypatch):
    assert steps_timed({False: 1.0, True: 1.5}, monkeypatch) == (False, {False: 4, True: 2})


def test_a_way_that_is_about_as_fast_is_timed_as_often_as_the_other(monkeypatch):
    assert steps_timed({False: 1.0, True: 0.8}, monkeypatch) == (True, {False: 4, True: 4})
