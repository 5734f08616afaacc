"""The paper's applications, on PyTorch: one model for each cluster, and clients that are not copies of each other.

::

    models = fit_personalized(devices, n_clusters, model_factory)   # one-shot clustering, then FedAvg for each cluster
    models = fit_ifca(devices, n_clusters, model_factory)           # k models sent in every round, for comparison
    models = fit_global(devices, model_factory)                     # one model for all, for comparison
    models.evaluate(test_devices), models.communication
    models.add("late", inputs), models.save("models.kfed"), PersonalizedModels.load("models.kfed", model_factory)

    selection = KFedPowerOfChoice(sizes, clusters, n_candidates=50) # or PowerOfChoice, RandomSelection
    chosen = selection.select(round, n, losses=losses)              # in any training loop

Selection, `update_point`, `described_by` and `GroupWorth` need NumPy only; the rest needs PyTorch:
``pip install 'kfed[federated]'``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kfed.errors import MissingExtraError
from kfed.federated.selection import KFedPowerOfChoice, PowerOfChoice, RandomSelection, Selection
from kfed.federated.sketch import described_by, update_point
from kfed.federated.worth import GroupWorth
from kfed.federated.worth import coincide as coincide  # for adapters
from kfed.federated.worth import n_judged_of as n_judged_of
from kfed.federated.worth import useless as useless
from kfed.simulate import Communication

if TYPE_CHECKING:
    from kfed.federated._fleet import Fleet as Fleet  # as all that is not in __all__: for experiments
    from kfed.federated._plans import ByLabel as ByLabel
    from kfed.federated._stack import Stack as Stack
    from kfed.federated._stack import cross_entropy as cross_entropy
    from kfed.federated.baselines import IFCAModels, fit_global, fit_ifca
    from kfed.federated.engine import Progress as Progress
    from kfed.federated.engine import RoundRecord
    from kfed.federated.engine import Run as Run
    from kfed.federated.evaluation import Evaluation
    from kfed.federated.evaluation import evaluate as evaluate
    from kfed.federated.models import FederatedModels
    from kfed.federated.models import total_sent as total_sent
    from kfed.federated.personalization import PersonalizedModels, fit_personalized
    from kfed.federated.settings import FedAvg

__all__ = [
    "Communication",
    "Evaluation",
    "FedAvg",
    "FederatedModels",
    "GroupWorth",
    "IFCAModels",
    "KFedPowerOfChoice",
    "PersonalizedModels",
    "PowerOfChoice",
    "RandomSelection",
    "RoundRecord",
    "Selection",
    "described_by",
    "fit_global",
    "fit_ifca",
    "fit_personalized",
    "update_point",
]

_MODULES = {
    "ByLabel": "_plans",
    "Evaluation": "evaluation",
    "FedAvg": "settings",
    "FederatedModels": "models",
    "Fleet": "_fleet",
    "IFCAModels": "baselines",
    "PersonalizedModels": "personalization",
    "Progress": "engine",
    "RoundRecord": "engine",
    "Run": "engine",
    "Stack": "_stack",
    "cross_entropy": "_stack",
    "evaluate": "evaluation",
    "fit_global": "baselines",
    "fit_ifca": "baselines",
    "fit_personalized": "personalization",
    "total_sent": "models",
}


def __getattr__(name: str) -> Any:
    """Import what needs PyTorch when it is first asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module 'kfed.federated' has no attribute {name!r}")
    try:
        return getattr(import_module(f"kfed.federated.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtraError(
            f"kfed.federated.{name} needs PyTorch, which is not installed: pip install 'kfed[federated]'"
        ) from error
