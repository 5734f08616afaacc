"""The fast distances, assignment and traversal give exactly the textbook's answer, for fewer distances."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kfed._base import geometry
from kfed._base.geometry import Near, middle, move, nearest, product_distances, squared_distances
from kfed.server import farthest_first

N_PICKS = 24
START = [5, 0, 9]


def textbook_traversal(points: np.ndarray, n_picks: int, start: list[int]) -> tuple[list[int], list[float]]:
    picks, distances = list(start), []
    squared = squared_distances(points, points[picks]).min(axis=1)
    while len(picks) < n_picks:
        squared[picks] = -1
        row = int(squared.argmax())
        picks.append(row)
        distances.append(math.sqrt(squared[row]))
        squared = np.minimum(squared, squared_distances(points, points[[row]])[:, 0])
    return picks, distances


def assert_textbook(points: np.ndarray, n_picks: int, start: list[int], n_jobs: int | None = None) -> None:
    traversal = farthest_first(points, n_picks, start, n_jobs)
    picks, distances = textbook_traversal(points, n_picks, start)
    assert traversal.picks.tolist() == picks
    assert traversal.distances.tolist() == distances
    centers = points[picks]
    labels = squared_distances(points, centers).argmin(axis=1)
    np.testing.assert_array_equal(nearest(points, centers, n_jobs), labels)
    np.testing.assert_array_equal(nearest(points, centers, n_jobs, traversal.near), labels)


def overlapping(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((1500, 20))


def separated(rng: np.random.Generator) -> np.ndarray:
    return 50 * rng.standard_normal((30, 20))[rng.integers(30, size=1500)] + rng.standard_normal((1500, 20))


def duplicated(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((60, 7))[rng.integers(60, size=1500)]


def fewer_distinct_rows_than_picks(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((10, 7))[rng.integers(10, size=300)]


def all_equal(rng: np.random.Generator) -> np.ndarray:
    return np.full((300, 7), rng.standard_normal())


def integer_grid(rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(np.stack(np.meshgrid(np.arange(40), np.arange(35)), axis=-1).reshape(-1, 2)).astype(float)


def equidistant(rng: np.random.Generator) -> np.ndarray:
    return np.eye(200)


def large_offset(rng: np.random.Generator) -> np.ndarray:
    return 1e4 + rng.standard_normal((1500, 20))


def opposite_offsets(rng: np.random.Generator) -> np.ndarray:
    return 1e4 * rng.choice([-1, 1], size=(1500, 1)) + rng.standard_normal((1500, 20))


def far_outliers(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((1500, 20)) * np.where(rng.random((1500, 1)) < 0.005, 1e5, 1)


def underflowing(rng: np.random.Generator) -> np.ndarray:
    return 1e-22 * rng.standard_normal((1500, 20))


def overflowing(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(-3e38, 3e38, (300, 20)) * rng.choice([1, 1e-19, 1e-30], size=(300, 1))


def one_feature(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((1500, 1))


KINDS = [
    overlapping,
    separated,
    duplicated,
    fewer_distinct_rows_than_picks,
    all_equal,
    integer_grid,
    equidistant,
    large_offset,
    opposite_offsets,
    far_outliers,
    underflowing,
    overflowing,
    one_feature,
]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "_BLOCK_ELEMENTS", 1)
    monkeypatch.setattr("kfed.server.rules.traversal._PART_ELEMENTS", 2000)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_picks_distances_and_labels_are_the_textbooks(kind: Callable, dtype: type) -> None:
    for seed in range(3):
        points = kind(np.random.default_rng(seed)).astype(dtype)
        assert_textbook(points, N_PICKS, START)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@pytest.mark.parametrize("kind", [overlapping, separated, integer_grid])
def test_neither_blocks_nor_threads_change_the_answer(kind: Callable, n_jobs: int) -> None:
    assert_textbook(kind(np.random.default_rng(7)).astype(np.float32), N_PICKS, START, n_jobs)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("n_picks", [200, 900])
def test_nor_do_blocks_of_many_picks(n_picks: int) -> None:
    rng = np.random.default_rng(7)
    places = 50 * rng.standard_normal((300, 20))[rng.integers(300, size=1500)]
    assert_textbook((places + rng.standard_normal((1500, 20))).astype(np.float32), n_picks, START)


def few_values(dtype: type) -> st.SearchStrategy[np.ndarray]:
    """Small tables of a few repeated values, so that ties and duplicates abound."""
    values = st.sampled_from([dtype(value) for value in (0, 1, -1, 2, 3, 0.1, 1e-3, 1e3, 1e4, 10001, 1e-30)])
    shapes = st.tuples(st.integers(1, 25), st.integers(1, 4))
    return shapes.flatmap(lambda shape: hnp.arrays(dtype, shape, elements=values))


@given(data=st.data(), dtype=st.sampled_from([np.float32, np.float64]))
def test_any_small_table_is_traversed_as_by_the_textbook(data: st.DataObject, dtype: type) -> None:
    points = data.draw(few_values(dtype))
    rows = st.integers(0, len(points) - 1)
    start = data.draw(st.lists(rows, min_size=1, max_size=len(points), unique=True))
    assert_textbook(points, data.draw(st.integers(len(start), len(points))), start, n_jobs=1)


@given(data=st.data(), dtype=st.sampled_from([np.float32, np.float64]))
def test_whatever_is_known_before_the_nearest_center_is_the_textbooks(data: st.DataObject, dtype: type) -> None:
    points = np.tile(data.draw(few_values(dtype)), (4, 1))
    centers = points[data.draw(st.lists(st.integers(0, len(points) - 1), min_size=1, max_size=len(points) // 4))]
    distances = squared_distances(points, centers)
    any_labels = data.draw(hnp.arrays(np.int32, len(points), elements=st.integers(0, len(centers) - 1)))
    is_nearest = data.draw(hnp.arrays(bool, len(points)))
    labels = np.where(is_nearest, distances.argmin(axis=1), any_labels).astype(np.int32)
    slack = data.draw(hnp.arrays(float, len(points), elements=st.sampled_from([0.0, 1e-6, 1.0, np.inf])))
    known = Near(labels, distances[np.arange(len(points)), labels] + slack)
    np.testing.assert_array_equal(nearest(points, centers, near=known), distances.argmin(axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_a_traversal_knows_for_each_row_a_pick_that_is_as_near_as_it_says(kind: Callable, dtype: type) -> None:
    points = kind(np.random.default_rng(0)).astype(dtype)
    traversal = farthest_first(points, N_PICKS, START)
    distances = squared_distances(points, points[traversal.picks])
    assert np.all(distances[np.arange(len(points)), traversal.near.labels] <= traversal.near.upper)


def any_values(dtype: type) -> st.SearchStrategy[np.ndarray]:
    width = np.dtype(dtype).itemsize * 8
    values = st.floats(-1e10, 1e10, width=width) | st.floats(9999, 10001, width=width)
    shapes = st.tuples(st.integers(2, 12), st.integers(1, 40))
    return shapes.flatmap(lambda shape: hnp.arrays(dtype, shape, elements=values))


@given(data=st.data(), dtype=st.sampled_from([np.float32, np.float64]))
def test_distances_by_product_bound_the_textbooks_from_both_sides(data: st.DataObject, dtype: type) -> None:
    points = data.draw(any_values(dtype))
    moved = move(points, middle(points[:2]))
    exact = squared_distances(points, points)
    for side in (-1, +1):
        halves = moved.half_norms(side)
        partial = product_distances(moved.coordinates, moved.coordinates, halves).astype(np.float64)
        bounds = 2 * (partial + halves[:, np.newaxis])
        assert np.all(side * bounds >= side * exact)


@given(data=st.data(), dtype=st.sampled_from([np.float32, np.float64]))
def test_a_textbook_distance_depends_on_its_two_points_alone(data: st.DataObject, dtype: type) -> None:
    points = data.draw(any_values(dtype))
    rows = st.lists(st.integers(0, len(points) - 1), min_size=1, max_size=5)
    some, others = data.draw(rows), data.draw(rows)
    whole = squared_distances(points, points)
    np.testing.assert_array_equal(squared_distances(points[some], points[others]), whole[np.ix_(some, others)])
    np.testing.assert_array_equal(whole, whole.T)


def test_a_textbook_distance_is_right_to_float64_rounding() -> None:
    points = np.random.default_rng(0).standard_normal((20, 50)).astype(np.float32) + np.float32(1e4)
    true = [[math.fsum((float(a) - float(b)) ** 2 for a, b in zip(x, y, strict=True)) for y in points] for x in points]
    np.testing.assert_allclose(squared_distances(points, points), true, rtol=1e-14)


def test_five_points_on_a_line_are_picked_as_on_paper() -> None:
    points = np.array([[0.0], [10.0], [4.0], [5.0], [7.0]])
    traversal = farthest_first(points, n_picks=5, start=[0])
    assert traversal.picks.tolist() == [0, 1, 3, 4, 2]
    assert traversal.distances.tolist() == [10.0, 5.0, 2.0, 1.0]


def test_all_rows_can_be_picked() -> None:
    assert_textbook(np.random.default_rng(0).standard_normal((80, 3)), 80, [17])


def test_a_start_that_is_large_enough_is_the_answer() -> None:
    points = np.random.default_rng(0).standard_normal((20, 3))
    for start in ([4], [3, 1, 2]):
        traversal = farthest_first(points, len(start), start)
        assert traversal.picks.tolist() == start
        assert traversal.distances.shape == (0,)


def test_a_row_is_picked_once_even_when_nothing_is_left_to_cover() -> None:
    traversal = farthest_first(np.zeros((6, 2)), n_picks=5, start=[3])
    assert traversal.picks.tolist() == [3, 0, 1, 2, 4]
    assert traversal.distances.tolist() == [0.0] * 4


def test_one_center_is_nearest_to_all_and_no_points_have_no_labels() -> None:
    points = np.random.default_rng(0).standard_normal((9, 3))
    assert nearest(points, points[:1]).tolist() == [0] * 9
    assert nearest(points[:0], points[:1]).tolist() == []


def test_a_point_between_two_centers_goes_to_the_first() -> None:
    centers = np.array([[4.0, 0.0], [0.0, 0.0], [4.0, 0.0], [0.0, 0.0]], dtype=np.float32)
    assert nearest(np.array([[2, 5], [1, 0], [3, 0]], dtype=np.float32), centers).tolist() == [0, 1, 0]


def test_points_are_left_as_they_were() -> None:
    points = separated(np.random.default_rng(0)).astype(np.float32)
    points.flags.writeable = False
    assert len(farthest_first(points, N_PICKS, START).picks) == N_PICKS


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Pairwise distances computed so far, by kind; all of them pass through these two functions."""
    counter: Counter[str] = Counter()

    def counted(name: str) -> Callable:
        function = getattr(geometry, name)

        def wrapper(left: np.ndarray, right: np.ndarray, *rest: np.ndarray) -> np.ndarray:
            counter[name] += len(left) * len(right)
            return function(left, right, *rest)

        return wrapper

    for name in ("product_distances", "squared_distances"):
        monkeypatch.setattr(geometry, name, counted(name))
    return counter


@pytest.mark.parametrize(("kind", "share"), [(separated, 1.0), (overlapping, 0.5)])
def test_a_traversal_computes_at_most_n_times_k_distances(kind: Callable, share: float, counts: Counter[str]) -> None:
    points = np.concatenate([kind(np.random.default_rng(seed)) for seed in range(4)]).astype(np.float32)
    n_picks = 60
    farthest_first(points, n_picks, START)
    assert counts["squared_distances"] < 0.05 * len(points) * n_picks
    assert counts.total() <= share * len(points) * n_picks


def test_even_if_all_rows_tie_at_every_step_a_traversal_computes_at_most_2_n_k_distances(
    counts: Counter[str],
) -> None:
    points = np.eye(400)
    farthest_first(points, 100, START)
    assert counts.total() <= 2 * len(points) * 100


def test_rows_that_coincide_with_picks_are_not_measured_again(counts: Counter[str]) -> None:
    points = np.ones((300, 2))
    farthest_first(points, 200, START)
    assert counts.total() <= 3 * len(points) * len(START)


def test_a_shared_offset_costs_few_direct_distances(counts: Counter[str]) -> None:
    points = large_offset(np.random.default_rng(0)).astype(np.float32)
    nearest(points, points[farthest_first(points, N_PICKS, START).picks])
    assert counts["squared_distances"] <= 0.05 * len(points) * N_PICKS


@pytest.mark.parametrize("kind", [separated, overlapping])
def test_an_assignment_computes_n_times_k_distances_and_few_more(kind: Callable, counts: Counter[str]) -> None:
    points = kind(np.random.default_rng(0)).astype(np.float32)
    nearest(points, points[:40])
    assert len(points) * 40 <= counts.total() <= 1.02 * len(points) * 40
    assert counts["squared_distances"] <= 0.002 * len(points) * 40


@pytest.mark.usefixtures("small_blocks")
def test_after_a_traversal_of_separated_clusters_few_rows_are_asked_for_their_nearest_pick(
    counts: Counter[str],
) -> None:
    rng = np.random.default_rng(0)
    places = 50 * rng.standard_normal((100, 20))[rng.integers(100, size=3000)]
    points = (places + rng.standard_normal((3000, 20))).astype(np.float32)
    traversal = farthest_first(points, 100, START)
    counts.clear()
    nearest(points, points[traversal.picks], near=traversal.near)
    assert counts.total() <= 0.15 * len(points) * 100
