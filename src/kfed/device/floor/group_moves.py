"""Rows change their cluster in groups, so that what two messages of one device tell together is about enough rows.

The first message gives the sums of local clusters C_i, the second those of global clusters G_r, over the same rows. Any
sum that somebody can make of the two, with factors a_i and -b_r, counts a row of C_i and G_r with a_i - b_r. Draw a
graph with a node for each C_i and each G_r, and an edge as heavy as the rows that both have: for any value t, the rows
with another factor than 0 include those on the edges between the nodes whose factor is t and all others. So the sum
is empty, or is about at least as many rows as the lightest cut of a part of the graph. That cut must hold the floor.

A local cluster whose rows all go to one global cluster adds nothing, so the graph leaves it out. A graph of the same
kind is checked for the rows with a cell in each column, and for the rows with each level of a category.
"""

from __future__ import annotations

import numpy as np

from kfed._base.array import Array
from kfed.device.floor.told_cells import ToldCells

MOST_NODES = 400
"""The lightest cut of a larger graph takes too long to find; there, every edge must hold the floor."""


def move_in_groups(cells: ToldCells, own: Array, wanted: Array, floor: int, n_clusters: int) -> Array:
    """Global cluster of each told row: the wanted one, unless that would reveal a group below the floor, (n_rows,).

    Parameters
    ----------
    cells : ToldCells
    own : array of shape (n_local_clusters,)
        Global cluster of each local cluster, where its rows stay together.
    wanted : array of shape (n_rows,)
        Global cluster that each row would rather be in.
    floor : int
        Different rows, or people, that must be behind whatever is told.
    """
    labels, parts = wanted.copy(), _parts_of_persons(cells)
    patterns = _patterns(cells)
    while True:
        before = labels.copy()
        for told in patterns:
            _heal(labels, cells.labels, own, np.where(told, parts, 0), floor, n_clusters)
        if np.array_equal(labels, before):
            return labels


def stay_whole(cells: ToldCells, own: Array, labels: Array, clusters: Array) -> Array:
    """The labels, where every local cluster that is split and has rows in one of these clusters stays together."""
    pairs = _pairs(cells.labels, labels, np.ones(len(labels)), len(own), int(max(labels.max(), own.max())) + 1)
    split = (np.count_nonzero(pairs, axis=1) > 1) & (pairs[:, clusters] > 0).any(axis=1)
    return np.where(split[cells.labels], own[cells.labels], labels)


def _parts_of_persons(cells: ToldCells) -> Array:
    """What each row adds to the people behind a sum: no more, for any set of rows, than people are in it.

    Of weighted rows, no more than the weight of the set over that of the heaviest person.
    """
    behind = np.bincount(cells.whose, cells.weights)
    if np.ptp(cells.weights) > 0:
        return np.asarray(cells.weights / behind.max())
    return np.asarray(cells.weights / behind[cells.whose])


def _patterns(cells: ToldCells) -> list[Array]:
    """Sets of rows of which something is told: those with a cell in each column, and with each level; each set once."""
    told = np.ones((len(cells.labels), 1), bool) if cells.is_told is None else cells.is_told
    return list(np.unique(np.concatenate([told, cells.levels], axis=1), axis=1).T)


def _heal(labels: Array, local_labels: Array, own: Array, parts: Array, floor: int, n_clusters: int) -> None:
    """Move rows on light cuts back to their company, until there is no light cut; changes `labels`."""
    told = parts > 0
    while True:
        pairs = _pairs(local_labels[told], labels[told], parts[told], len(own), n_clusters)
        pairs[np.count_nonzero(pairs, axis=1) < 2] = 0  # a cluster that stays whole
        if np.count_nonzero(pairs.any(axis=1)) + np.count_nonzero(pairs.any(axis=0)) > MOST_NODES:
            _join_light_pairs(labels, local_labels, own, pairs, floor)
            return
        side = _light_cut(pairs, floor)
        if side is None:
            return
        of_local, of_global = side[: len(own)], side[len(own) :]
        for i, r in np.argwhere((pairs > 0) & (of_local[:, None] != of_global)):
            rows = local_labels == i
            beside = np.where(of_global == of_local[i], pairs[i], 0)
            if beside.any():
                labels[rows & (labels == r)] = beside.argmax()
            else:
                labels[rows] = own[i]


def _join_light_pairs(labels: Array, local_labels: Array, own: Array, pairs: Array, floor: int) -> None:
    """Move the rows of every light pair to the heaviest one of their local cluster; changes `labels`."""
    for i in np.flatnonzero(((pairs > 0) & (pairs < floor)).any(axis=1)):
        rows, heaviest = local_labels == i, int(pairs[i].argmax())
        if pairs[i, heaviest] < floor:
            labels[rows] = own[i]
        else:
            labels[rows & ((pairs[i] > 0) & (pairs[i] < floor))[labels]] = heaviest


def _pairs(local_labels: Array, labels: Array, parts: Array, n_local: int, n_clusters: int) -> Array:
    """How much is in each pair of a local and a global cluster, (n_local, n_clusters)."""
    flat = np.bincount(local_labels * n_clusters + labels, parts, minlength=n_local * n_clusters)
    return np.asarray(flat.reshape(n_local, n_clusters))


def _light_cut(pairs: Array, floor: int) -> Array | None:
    """One side of a cut of less than the floor through a part of the graph, (n_local + n_clusters,); None if none."""
    from scipy.sparse.csgraph import connected_components

    n_local, n_clusters = pairs.shape
    graph = np.zeros((n_local + n_clusters,) * 2)
    graph[:n_local, n_local:] = pairs
    graph += graph.T
    _, component = connected_components(graph > 0, directed=False)
    for number in np.flatnonzero(np.bincount(component) > 1):
        nodes = np.flatnonzero(component == number)
        weight, side = lightest_cut(graph[np.ix_(nodes, nodes)])
        if weight < floor - min(1e-6 * floor, 0.5):
            cut = np.zeros(len(graph), bool)
            cut[nodes[side]] = True
            return cut
    return None


def lightest_cut(graph: Array) -> tuple[float, Array]:
    """Weight of the lightest cut of a connected graph, and the nodes on one side of it.

    This is the algorithm of Stoer and Wagner, "A simple min-cut algorithm", JACM 1997.

    Examples
    --------
    >>> two_pairs = np.array([[0, 9, 1, 0], [9, 0, 0, 1], [1, 0, 0, 9], [0, 1, 9, 0]])
    >>> weight, side = lightest_cut(two_pairs)
    >>> float(weight), sorted(side.tolist()) in ([0, 1], [2, 3])
    (2.0, True)
    """
    graph = graph.astype(np.float64)
    merged = [[node] for node in range(len(graph))]
    best, side = np.inf, [0]
    left = np.ones(len(graph), bool)
    for n_left in range(len(graph), 1, -1):
        added, heaviness = ~left, np.where(left, 0.0, -np.inf)
        previous = last = -1
        for _ in range(n_left):
            previous, last = last, int(np.where(added, -np.inf, heaviness).argmax())
            added[last] = True
            heaviness = heaviness + graph[last]
        of_last = float(graph[last][left].sum())
        if of_last < best:
            best, side = of_last, list(merged[last])
        merged[previous] += merged[last]
        graph[previous] += graph[last]
        graph[:, previous] += graph[:, last]
        graph[previous, previous] = 0
        left[last] = False
        graph[last], graph[:, last] = 0, 0
    return best, np.array(side)
