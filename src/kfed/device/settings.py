"""The settings that all devices of a fleet share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kfed._base import checks
from kfed.device.choosing import MAX_LOCAL_CLUSTERS

MIN_CLUSTER_SIZE = 3
MAX_ITERATIONS = 300


@dataclass(frozen=True)
class DeviceSettings:
    """Settings of Algorithm 1 and of what is measured and withheld."""

    max_local_clusters: int = MAX_LOCAL_CLUSTERS
    min_cluster_size: int = MIN_CLUSTER_SIZE
    max_iterations: int = MAX_ITERATIONS
    measure_deviation: bool = True
    weighted: bool = False
    borrows: bool = False
    summarises: bool = False

    @classmethod
    def checked(
        cls,
        *,
        max_local_clusters: Any,
        min_cluster_size: Any,
        max_iterations: Any,
        measure_deviation: bool,
        weighted: bool = False,
        small_clusters: Any = "withhold",
        summarises: bool = False,
    ) -> DeviceSettings:
        """Check a caller's settings: the numbers must be whole and at least 1."""
        return cls(
            max_local_clusters=checks.positive_integer(max_local_clusters, "max_local_clusters"),
            min_cluster_size=checks.positive_integer(min_cluster_size, "min_cluster_size"),
            max_iterations=checks.positive_integer(max_iterations, "max_iterations"),
            measure_deviation=measure_deviation,
            weighted=weighted,
            borrows=checks.one_of(small_clusters, ["withhold", "borrow"], "small_clusters") == "borrow",
            summarises=summarises,
        )
