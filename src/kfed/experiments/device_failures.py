"""Devices that never answer: how many may fail before clusters are lost, and what becomes of those that come later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kfed.datasets import mixture
from kfed.experiments.axes import Axes, grid, seed_of
from kfed.experiments.drawing import finish, plus_minus, select, spread, values_of
from kfed.experiments.experiment import Experiment, ExperimentSummary, Finding, Result, TextTable
from kfed.experiments.yardstick import holds
from kfed.metrics import matched_accuracy
from kfed.simulate import Round, cluster_devices, messages_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_FEATURES, N_CLUSTERS, SEPARATION, POINTS_EACH = 100, 16, 20.0, 100
MEASURES = {
    "answered": ("points of devices that answered", "C0"),
    "late": ("points of devices that come later", "C2"),
    "stale": ("points of devices that answered, if all 16 clusters are still asked for", "0.5"),
}
NONE = {"answered": "no device answers", "late": "none", "stale": "fewer than 16 centers"}
"""Why there is no number in a row."""

ALL_RIGHT = 99.9


def run_one(axes: Axes, seed: int) -> dict[str, Any]:
    """Let some devices fail, run one round with the others, and serve those that failed when they come back."""
    own = seed_of(seed, sharing=axes["sharing"], run=axes["run"])  # the same points whatever fails
    m0 = axes["sharing"]
    sizes = {"devices_per_group": m0, "points_per_cluster": POINTS_EACH * m0}
    drawn = mixture(N_FEATURES, N_CLUSTERS, separation=SEPARATION, seed=own, **sizes)
    targets = dict(zip(drawn.device_ids, drawn.targets, strict=True))
    order = np.random.default_rng(seed_of(seed, **axes)).permutation(list(targets)).tolist()
    failed = set(order[: round(axes["share"] * len(order))])
    local = cluster_devices(drawn.devices, drawn.n_local_clusters, random_state=own)
    there = {name: found for name, found in local.items() if name not in failed}
    held = np.unique(np.concatenate([targets[name] for name in there]))
    done = Round.of(there, len(held))
    stale = Round.of(there, N_CLUSTERS) if len(there) * drawn.n_local_clusters >= N_CLUSTERS else None
    labels = dict(zip(there, done.device_labels(), strict=True))
    late = {
        message.device_id: local[message.device_id].induced_labels(done.aggregation.assign(message))
        for message in messages_of({name: local[name] for name in sorted(failed)})
    }
    known = {name: own for name, own in late.items() if np.isin(targets[name], held).all()}
    return {
        "held": len(held),
        "answered": _right(targets, labels),
        "late": _right_later(targets, labels, known) if known else None,
        "stale": _right(targets, dict(zip(there, stale.device_labels(), strict=True))) if stale else None,
    }


def _right(targets: dict[str, Any], labels: dict[str, Any]) -> float:
    """Per cent of the points of some devices that are in the cluster matched to theirs."""
    return 100 * matched_accuracy(*_rows(targets, labels))


def _right_later(targets: dict[str, Any], answered: dict[str, Any], late: dict[str, Any]) -> float:
    """Per cent of the points of late devices that are right, by the matching of the devices that answered alone."""
    from scipy.optimize import linear_sum_assignment

    n_each = np.zeros((N_CLUSTERS, N_CLUSTERS), np.int64)  # points that answered, by component and cluster
    np.add.at(n_each, _rows(targets, answered), 1)
    components, clusters = linear_sum_assignment(n_each, maximize=True)
    truth, found = _rows(targets, late)
    return 100 * float(np.mean(components[np.argsort(clusters)][found] == truth))


def _rows(targets: dict[str, Any], labels: dict[str, Any]) -> tuple[Any, Any]:
    """Components and clusters of all points of the devices that have labels."""
    truth, found = (np.concatenate([table[name] for name in labels]) for table in (targets, labels))
    return truth, found


def summarize(results: list[Result]) -> ExperimentSummary:
    """See whether the devices that answered, and those that come later, are right whatever share failed."""
    findings = (_finding(results, "answered"), _finding(results, "late"))
    return ExperimentSummary(findings, tuple(_table(own, m0) for m0, own in _by_sharing(results).items()))


def _by_sharing(results: list[Result]) -> dict[int, list[Result]]:
    return {m0: select(results, sharing=m0) for m0 in values_of(results, "sharing")}


def _known(results: list[Result], measure: str) -> list[float]:
    return [float(r[measure]) for r in results if r[measure] is not None]


def _finding(results: list[Result], measure: str) -> Finding:
    claims = {
        "answered": "devices that answer are clustered right, whichever others fail",
        "late": "devices that come later are told their clusters without any other device, if these are known",
    }
    papers = {
        "answered": "only requires enough devices such that the k target clusters exist",
        "late": "assigning to the nearest mean is sufficient",
    }
    known = {share: _known(select(results, share=share), measure) for share in _shares(results)}
    shares = {share: float(np.mean(own)) for share, own in known.items() if own}
    least = min(shares, key=lambda share: shares[share])
    return Finding(
        claim=claims[measure],
        paper=papers[measure],
        ours=f"on average at least {shares[least]:.2f} % of their points right, with up to {max(shares):.0%} of the "
        "devices failing",
        verdict=holds(shares[least] >= ALL_RIGHT),
        reason=f"least where {least:.0%} fail" if shares[least] < ALL_RIGHT else "",
    )


def _shares(results: list[Result]) -> list[float]:
    return sorted(values_of(results, "share"))


def _table(results: list[Result], m0: int) -> TextTable:
    rows = []
    for share in _shares(results):
        own = select(results, share=share)
        cells = [plus_minus(known) if (known := _known(own, measure)) else NONE[measure] for measure in MEASURES]
        rows.append((f"{share:.0%}", f"{np.mean([r['held'] for r in own]):.1f}", *cells))
    headings = ("devices that fail", "clusters left", *(label for label, _ in MEASURES.values()))
    title = f"Points in the right cluster, in percent: k = {N_CLUSTERS}, {m0} devices share a cluster"
    return TextTable(title, headings, tuple(rows), n_words=0)


def plot(results: list[Result], figure: Figure) -> None:
    """Draw accuracy and the clusters left against the share of devices that fail, a panel for each m0."""
    cases = _by_sharing(results)
    for ax, (m0, own) in zip(figure.subplots(1, len(cases), sharey=True, squeeze=False)[0], cases.items(), strict=True):
        shares = _shares(own)
        for measure, (label, color) in MEASURES.items():
            runs = [(share, _known(select(own, share=share), measure)) for share in shares]
            drawn = [(100 * share, known) for share, known in runs if known]
            size = 10 if measure == "answered" else 5  # the others lie on it
            spread(ax, [share for share, _ in drawn], [known for _, known in drawn], label, color, markersize=size)
        left = [100 * np.mean([r["held"] for r in select(own, share=share)]) / N_CLUSTERS for share in shares]
        ax.plot([100 * share for share in shares], left, "k:", label="clusters that some device still has, % of 16")
        up = "points in the right cluster, %\n(dotted: clusters left, % of 16)" if m0 == next(iter(cases)) else ""
        finish(ax, f"{m0} devices share a cluster", "devices that fail, %", up)
        ax.set(ylim=(0, 103))


EXPERIMENT = Experiment.of(
    __name__,
    "Devices that fail",
    "Section 3, practical benefits: new devices and device failures",
    claim="Devices may fail as long as every cluster is on some device that answers, and those that come later are "
    "told their clusters without involving any other device.",
    measure="Share of points in the cluster matched to theirs, in percent, against the share of devices that never "
    "answer. Clusters are matched over the points of the devices that answered, also for those that come later.",
    setup_differs="The paper claims it and has no experiment. Mixtures of Table 1 with d = 100, k = 16, components 20 "
    "standard deviations apart and 100 points of each on a device. Devices fail at random; the server asks for as many "
    "clusters as are left, or still for 16 (the grey line), which fewer than 16 centers cannot give. Devices that "
    "come later count if the server knows all of their clusters.",
    quick=grid(sharing=[5], share=[0.0, 0.4, 0.8], run=range(2)),
    full=grid(sharing=[5, 20], share=[0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9], run=range(10)),
    side_by_side=4,
    figure_size=(10.0, 5.0),
    legend={"ncols": 2},
    minutes=(0.05, 0.4),
)
