"""k-FED + FedAvg: one cheap round of clustering, then one model for each group of devices, or of their rows.

A device whose data is of several groups trains each of its models on its share. A row that comes later goes to the
model of the group of its nearest local center. The devices stay apart: what crosses between them and the server is the
k-FED message, its answer, parameters, and short points made of updates.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch

from kfed._base import checks
from kfed.device import MIN_CLUSTER_SIZE
from kfed.errors import InvalidInputError
from kfed.federated._fleet import Devices, Fleet
from kfed.federated._plans import ByLabel
from kfed.federated._routes import Route
from kfed.federated._stack import Stack, check_fits
from kfed.federated._updates import FirstUpdate
from kfed.federated._ways import Features
from kfed.federated.engine import Observe, Progress, RoundRecord, Run
from kfed.federated.groups import Clustering, Clusters, Door, Groups, Search
from kfed.federated.models import FederatedModels, OnRound, total_sent, watching
from kfed.federated.selection import Selection
from kfed.federated.settings import FedAvg
from kfed.federated.worth import GroupWorth
from kfed.simulate import Communication


@dataclass(frozen=True, eq=False, repr=False)
class PersonalizedModels(FederatedModels):
    """Models of the groups, with what is known of these.

    Attributes
    ----------
    worth : GroupWorth or None
        How far the groups matter to the model; None if that was not asked, or cannot be told.
    by : str
        What devices were grouped by: "inputs", "features", "updates" or "given".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = [rng.normal(size=(40, 2)) for _ in range(4)]
    >>> devices = {f"phone-{i}": (own, ((-1) ** i * own[:, 0] > 0).astype(int)) for i, own in enumerate(rows)}
    >>> training = FedAvg(rounds=5, batched=False, threads=1)
    >>> models = fit_personalized(devices, 2, lambda: torch.nn.Linear(2, 2), training, by="updates")
    >>> models.by, models.n_models
    ('updates', 2)
    >>> print(models.worth)
    100% of 4 devices fit their own group best; by chance it would be 50%
    >>> int(models.route("phone-0", rows[0])[0]) == int(models.route("phone-2", rows[2])[0])
    True
    """

    worth: GroupWorth | None
    by: str
    _clustering: Clustering | None
    _door: Door | None

    @property
    def clustering(self) -> Clustering:
        """What the one round of k-FED found."""
        if self._clustering is None:
            raise InvalidInputError("there is no clustering: groups were given, or the models come from a file")
        return self._clustering

    def _facts(self) -> dict[str, Any]:
        return {"by": self.by, "worth": None if self.worth is None else asdict(self.worth)}

    def _way_in(self) -> Door | None:
        return self._door

    @classmethod
    def _own_fields(cls, read: Any) -> dict[str, Any]:
        worth = read.facts["worth"]
        if worth is not None:
            worth = GroupWorth(**(worth | {"communication": Communication(**worth["communication"])}))
        return {"worth": worth, "by": read.facts["by"], "_clustering": None, "_door": read.door()}

    def _route_with(self, newcomer: Fleet, has_targets: bool) -> Route:
        if self.n_models == 1:
            return super()._route_with(newcomer, has_targets)
        if self._door is None:
            raise InvalidInputError("groups were given: name the group of a late device, group=")
        if self._door.way.needs_targets and not has_targets:
            raise InvalidInputError(f"targets must be given: devices are grouped by {self.by}")
        return self._door.let_in(self._route, newcomer)


def fit_personalized(
    devices: Devices,
    n_clusters: int,
    model_factory: Callable[[], torch.nn.Module],
    training: FedAvg | None = None,
    *,
    by: Literal["inputs", "updates", "auto"] = "inputs",
    n_local_clusters: int | Literal["auto"] | Sequence[int | Literal["auto"]] = 1,
    rule: str | None = None,
    features: Features | None = None,
    clusters: Clusters | None = None,
    min_cluster_size: int = MIN_CLUSTER_SIZE,
    if_useless: Literal["warn", "merge", "ignore"] = "warn",
    selection: Selection | None = None,
    observe: Observe | None = None,
    on_round: OnRound | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> PersonalizedModels:
    """Group devices, or their rows, in one round of k-FED, then train one model for each group with FedAvg.

    Parameters
    ----------
    devices : mapping from device id to (inputs, targets), or sequence of such pairs
        Training data, arrays or tensors of shapes (n_points, ...) and (n_points,).
    n_clusters : int
        Number of groups, k, and of models.
    model_factory : callable
        Returns a new `torch.nn.Module`; called once for each group.
    training : FedAvg, optional
        Rounds, learning rate and so on.
    by : {"inputs", "updates", "auto"}
        What to group by: what rows look like, or what devices learn from the first model in one round, sent as one
        short point, see `update_point`. Labels that mean something else on some devices show in updates alone. "auto"
        looks for both kinds of groups, and takes the one that matters more.
    n_local_clusters : int, "auto", or sequence of such
        Clusters on a device, k^(z); with 1, each device is one whole. For groups by inputs.
    rule : {"paper", "robust"}, optional
        The server's rule, see `kfed.aggregate`; by default the paper's for groups by rows, and the robust one where a
        device is one point, or with "auto".
    features : callable, optional
        Maps the inputs of a device, or ``features(inputs, targets)`` its inputs and targets, to the points to cluster:
        (n_points, n_features), such as embeddings, or one point for the device, (n_features,), such as a histogram of
        its labels. By default inputs are flattened.
    clusters : mapping from device id to int, or sequence of int, optional
        The group of each device, if it is known; then nothing is clustered.
    min_cluster_size : int
        As in `kfed.cluster_device`. A device with fewer rows sends no update and no point of features, either; it picks
        the nearest group itself.
    if_useless : {"warn", "merge", "ignore"}
        What to do if groups do not matter to the model: warn, also train one model for all, or do not look. To find
        out, 40 devices, or 8 for each group, are grouped by half of their rows, and send what the first model learns
        from the other half as one short point; see `GroupWorth`.
    selection : Selection, optional
        Who takes part in a round; by default random.
    observe : callable, optional
        Called after each round with its number and the models as tensors; numbers it returns are kept in `history`.
    on_round : callable, optional
        ``on_round(round, models)`` is called after each round with the models so far, which hold no row of a device; on
        test data of one's own they can `evaluate`. Numbers that it returns in a dict are kept in `history`; True, or a
        true "stop" among them, ends the training.
    checkpoint : path, optional
        File to keep the run in. If it exists, the run continues from it.
    progress : bool, optional
        Show a progress bar; by default on a terminal, when it takes a while.

    Returns
    -------
    PersonalizedModels

    Warns
    -----
    AggregationWarning
        If the groups do not matter to the model.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def device(sign):  # two kinds of device, whose labels mean the opposite
    ...     x = rng.normal(loc=5 * sign, size=(60, 2)).astype(np.float32)
    ...     return x, (sign * (x[:, 0] - x[:, 1]) > 0).astype(int)
    >>> devices = {f"device-{i}": device((-1) ** i) for i in range(6)}
    >>> models = fit_personalized(devices, 2, lambda: torch.nn.Linear(2, 2), FedAvg(rounds=10))
    >>> models.evaluate(devices).accuracy > 0.95
    True
    """
    fleet, training = Fleet.of(devices), training or FedAvg()
    stack = Stack.of(model_factory, checks.positive_integer(n_clusters, "n_clusters"), training.seed)
    check_fits(stack, fleet.inputs, fleet.targets, training.loss)
    checks.one_of(if_useless, ["warn", "merge", "ignore"], "if_useless")
    first, is_judged = FirstUpdate.of(stack, training), if_useless != "ignore" and n_clusters > 1
    search = Search(fleet, n_clusters, first, is_judged, rule, n_local_clusters, features, min_cluster_size)
    groups = search.groups(by) if clusters is None else search.given(clusters)
    if is_judged and groups.are_useless:
        warnings.warn(groups.complaint, stacklevel=2)
        if if_useless == "merge":
            groups, stack = groups.merged(fleet), stack.only([0])

    def models(stack: Stack, history: tuple[RoundRecord, ...] = (), known: Groups | None = None) -> PersonalizedModels:
        return PersonalizedModels(
            method="k-FED",
            _stack=stack,
            _route=groups.route,
            _loss=training.loss,
            device_ids=fleet.device_ids,
            history=history,
            communication=groups.sent + total_sent(history),
            worth=groups.worth,
            by=groups.by,
            _clustering=known.clustering if known else None,
            _door=known.door if known else None,
        )

    watched = watching(observe, on_round, models)
    run = Run.of(fleet, ByLabel(fleet, groups.labels), training, selection, watched)
    done = run.finish(Progress(stack), checkpoint=checkpoint, show_progress=progress)
    return models(done.stack, done.history, groups)
