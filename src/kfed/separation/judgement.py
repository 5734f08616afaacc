"""`SeparationJudgement`: the base of reports on points and on known mixtures."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

from kfed._base.array import Array
from kfed._base.report import Conclusion
from kfed.theory import Judgement, over, verdict_of


@dataclass(frozen=True, eq=False, kw_only=True)
class SeparationJudgement(Judgement):
    """A judgement by distances of means, each beside the distance that the proofs require."""

    required_separations: Array = field(repr=False)

    @abstractmethod
    def guarantee(self) -> str:
        """What holds if every condition is met."""

    @property
    def attained(self) -> Array:
        """Distances over those that the proofs require, (n_clusters, n_clusters): at least 1 is enough."""
        return over(self.distances, self.required_separations)

    @property
    def is_guaranteed(self) -> bool | None:
        """Whether every condition that the proofs use is met; None if c is too small for them."""
        return verdict_of(self.conditions)[1]

    @property
    def verdict(self) -> str:
        """The conclusion: "guaranteed ..." and for what, or why it is not guaranteed or unknown."""
        verdict, is_guaranteed = verdict_of(self.conditions)
        return self.guarantee() if is_guaranteed else verdict

    def conclusion(self) -> Conclusion:
        """Give the verdict, and whether it is a guarantee."""
        return Conclusion(self.verdict, self.is_guaranteed)
