"""`Profile`: what each cluster is, column by column, in the units of the tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base import text
from kfed._base.array import Array, readonly_fields
from kfed._base.dates import date_of
from kfed._base.notebook import InNotebook, data_frame
from kfed._base.report import Block, Notes, TextTable
from kfed.server.view.profile_plot import plot_profile
from kfed.wire import FeatureSchema, MessageBatch

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Profile(InNotebook):
    """The clusters of an aggregation, described by their columns. Made by `Aggregation.profile`.

    Attributes
    ----------
    names : tuple of str
        The features; "feature 0" and so on if devices did not name them.
    shares : array of shape (n_clusters,)
        Share of all rows in each cluster.
    sizes : array of shape (n_clusters,)
        Rows (or weight) of each cluster.
    device_ids : tuple of str
    rows_on_devices : array of shape (n_devices, n_clusters)
        Rows of each device in each cluster.
    means : array of shape (n_clusters, n_features)
        Mean of all rows of a cluster; NaN where no cell was observed. Shares of levels and flags are approximate, see
        `about_shares`.
    spreads : array of shape (n_clusters, n_features) or None
        Standard deviation of the rows of a cluster; None if devices did not say it by column.
    overall_means, overall_spreads : arrays of shape (n_features,)
        The same of all rows; if devices did not say it by column, the spread is that of the device centers.
    is_share : array of bool, shape (n_features,)
        Whether a feature is a level of a category, or a flag, so that its mean is a share of the rows.
    is_date : array of bool, shape (n_features,)
        Whether a feature is a date, in days since 1970.
    """

    names: tuple[str, ...]
    shares: Array
    sizes: Array
    device_ids: tuple[str, ...]
    rows_on_devices: Array
    means: Array
    spreads: Array | None
    overall_means: Array
    overall_spreads: Array
    is_share: Array
    is_date: Array

    def __post_init__(self) -> None:
        readonly_fields(self)

    @classmethod
    def of(cls, batch: MessageBatch, labels: Array, n_clusters: int) -> Profile:
        """Describe the grouping that puts device center s in cluster ``labels[s]``."""
        counts = batch.counts.astype(np.float64)
        observed, squares = _by_column(batch)
        members = np.zeros((n_clusters, len(labels)))
        members[labels, np.arange(len(labels))] = 1
        overall, _, spread_of_all = _moments(np.ones((1, len(labels))), batch.centers, observed, squares)
        means, cells, spreads = _moments(members, batch.centers, observed, squares)
        on_devices = np.zeros((batch.n_devices, n_clusters))
        np.add.at(on_devices, (batch.owners, labels), counts)
        sizes = members @ counts
        return cls(
            names=batch.schema.names or tuple(f"feature {position}" for position in range(batch.n_features)),
            shares=sizes / max(sizes.sum(), 1e-300),
            sizes=sizes,
            device_ids=batch.device_ids,
            rows_on_devices=on_devices,
            means=np.where(cells > 0, means, np.nan),
            spreads=None if squares is None else np.where(cells > 0, spreads, np.nan),
            overall_means=overall[0],
            overall_spreads=spread_of_all[0],
            is_share=_are(("category", "flag"), batch.schema),
            is_date=_are(("date",), batch.schema),
        ).in_units(*_units(batch.schema))

    def in_units(self, shifts: Array, scales: Array) -> Profile:
        """The same for centers on a scale, back in the units of the tables: values times `scales` plus `shifts`."""
        return replace(
            self,
            means=self.means * scales + shifts,
            spreads=None if self.spreads is None else self.spreads * scales,
            overall_means=self.overall_means * scales + shifts,
            overall_spreads=self.overall_spreads * scales,
        )

    @property
    def n_clusters(self) -> int:
        """Number of clusters, k."""
        return len(self.means)

    @property
    def differences(self) -> Array:
        """Mean of a cluster minus that of all rows, in standard deviations of all rows, (n_clusters, n_features)."""
        gaps = np.nan_to_num(self.means - self.overall_means)
        rounding = 1e-9 * np.abs(self.overall_means)  # a column that is constant but for rounding has no spread
        has_spread = self.overall_spreads > rounding
        return np.asarray(np.divide(gaps, self.overall_spreads, out=np.zeros_like(gaps), where=has_spread))

    @property
    def about_shares(self) -> str:
        """What to know of the shares of levels and flags; empty if there are none."""
        if not self.is_share.any():
            return ""
        return (
            "shares of levels and of yes/no columns are approximate: a level that only few rows of a group have is "
            "counted as the most common level there, so shares of rare levels are too low and those of common ones too "
            "high (more so without -k, where groups are small), and small differences may come from that; the tables "
            "that `kfed label --append` writes at the sites give exact counts"
        )

    def telling(self, cluster: int) -> Array:
        """The features that set a cluster apart, first those that do so most, (n_features,)."""
        return np.argsort(-np.abs(self.differences[cluster]), kind="stable")

    def in_words(self, cluster: int, n_columns: int = 3, least: float = 0.3) -> str:
        """What sets a cluster apart, in a few words."""
        differences = self.differences[cluster]
        chosen = [int(j) for j in self.telling(cluster)[:n_columns] if abs(differences[j]) >= least]
        return ", ".join(self._word(cluster, j, differences[j]) for j in chosen) or "near the average in every column"

    def _word(self, cluster: int, feature: int, difference: float) -> str:
        much = "much " if abs(difference) >= 1 else ""
        value, average = (self.shown(means[feature], feature) for means in (self.means[cluster], self.overall_means))
        more, less = ("more often", "less often") if self.is_share[feature] else ("higher", "lower")
        more, less = ("later", "earlier") if self.is_date[feature] else (more, less)
        return f"{much}{more if difference > 0 else less} {self.names[feature]} ({value}; overall {average})"

    def shown(self, value: float, feature: int) -> str:
        """A mean as people read it."""
        if np.isnan(value):
            return "not observed"
        if self.is_date[feature] and (written := date_of(value)) is not None:
            return written
        return _share(value) if self.is_share[feature] else _number(value, float(self.overall_spreads[feature]))

    def shown_spread(self, cluster: int, feature: int) -> str:
        """Standard deviation of a column in a cluster; empty if it is not known, or if a share says it all."""
        if self.spreads is None or self.is_share[feature] or np.isnan(self.spreads[cluster, feature]):
            return ""
        spread = float(self.spreads[cluster, feature])
        return f"{spread:,.0f} days" if self.is_date[feature] else _number(spread, float(self.overall_spreads[feature]))

    def rows(self) -> Iterator[dict[str, Any]]:
        """A record for each cluster and feature, in types that JSON knows; means of dates are dates such as 2026-01-31.

        The spread of a date is a number of days.
        """
        are_dates = dict(zip(self.names, self.is_date.tolist(), strict=True))
        for record in self._records():
            means = {key: record[key] for key in ("mean", "mean_of_all") if are_dates[record["column"]]}
            yield record | {key: date_of(day) or day for key, day in means.items() if day is not None}

    def _records(self) -> Iterator[dict[str, Any]]:
        """The same, with dates as days since 1970."""
        differences = self.differences
        for cluster in range(self.n_clusters):
            for feature, name in enumerate(self.names):
                record = {
                    "cluster": cluster,
                    "column": name,
                    "mean": self.means[cluster, feature],
                    "spread": None if self.spreads is None else self.spreads[cluster, feature],
                    "mean_of_all": self.overall_means[feature],
                    "spread_of_all": self.overall_spreads[feature],
                    "difference": differences[cluster, feature],
                }
                yield {key: text.plain(value) for key, value in record.items()}

    def to_frame(self) -> pandas.DataFrame:
        """A data frame with a row for each cluster and column; needs pandas."""
        records = list(self._records())
        return data_frame({key: [record[key] for record in records] for key in records[0]}, ["cluster", "column"])

    def centers_frame(self) -> pandas.DataFrame:
        """A data frame of the means, with a row for each cluster and its size as ``(rows)``; needs pandas.

        Means of dates are dates such as 2026-01-31.
        """
        days = zip(self.names, self.means.T, self.is_date, strict=True)
        means = {name: list(map(_dated, own)) if are_dates else own for name, own, are_dates in days}
        columns: dict[str, Any] = {"cluster": range(self.n_clusters), "(rows)": self.sizes, **means}
        return data_frame(columns, "cluster")

    def plot(self, path: str | os.PathLike[str] | None = None, ax: Axes | None = None) -> Axes:
        """Draw how far each cluster is from the mean of all, column by column; save it as `path` if given."""
        return plot_profile(self, path, ax)

    def _shown(self) -> Iterable[Block]:
        heads = ("cluster", "rows", "share", "what sets it apart")
        rows = tuple(
            (str(r), f"{self.sizes[r]:,.0f}", f"{self.shares[r]:.1%}", self.in_words(r)) for r in range(self.n_clusters)
        )
        yield TextTable("", heads, rows, n_words=4)
        yield Notes((self.about_shares,) if self.about_shares else ())


def _dated(day: float) -> float | str:
    """A day as a date, or as it is if it is not known or in no year."""
    return day if np.isnan(day) else date_of(day) or day


def _moments(members: Array, centers: Array, observed: Array, squares: Array | None) -> tuple[Array, Array, Array]:
    """Means, cells and standard deviations of groups of device centers, (n_groups, n_features) each.

    Without sums of squares by column, the deviations are those of the centers.
    """
    wide = centers.astype(np.float64)
    cells = members @ observed
    means = members @ (observed * wide) / np.maximum(cells, 1e-300)
    deviations = np.empty(means.shape)
    for group, own in enumerate(members.astype(bool)):
        about = observed[own] * np.square(wide[own] - means[group])
        total = (about if squares is None else about + squares[own]).sum(axis=0)
        deviations[group] = np.sqrt(total / np.maximum(cells[group], 1e-300))
    return means, cells, deviations


def _by_column(batch: MessageBatch) -> tuple[Array, Array | None]:
    """Cells behind each value of a center, and the squares about it, if all devices said them."""
    details = batch.details
    if details is None:
        return np.repeat(batch.counts[:, None].astype(np.float64), batch.n_features, axis=1), None
    known = len(details.squares) > 0 and np.isfinite(details.squares).all()
    return details.observed, details.squares if known else None


def _units(schema: FeatureSchema) -> tuple[Array, Array]:
    """Shift and scale of each feature that turn centers on an agreed scale into the units of the table."""
    if schema.scaling != "agreed" or schema.columns is None:
        return np.zeros(schema.n_features), np.ones(schema.n_features)
    pairs = [(column.shift or 0.0, column.scale or 1.0) for column in schema.columns for _ in column.features]
    shifts, scales = np.array(pairs).T
    return shifts, scales


def _are(kinds: tuple[str, ...], schema: FeatureSchema) -> Array:
    """Which features come from columns of these kinds."""
    found = [column.kind in kinds for column in schema.columns or () for _ in column.features]
    return np.array(found or [False] * schema.n_features)


def _share(value: float) -> str:
    """A share of rows, of which the last few are not known."""
    rounded = f"{min(max(value, 0.0), 1.0):.0%}"  # noise of private messages may lead beyond
    return {"0%": "hardly any", "100%": "nearly all"}.get(rounded, rounded)


def _number(value: float, spread: float) -> str:
    """A number with the digits that its spread leaves meaningful: about a hundredth of it."""
    if not np.isfinite(spread) or spread <= 0:
        return f"{value:.4g}"
    digits = int(np.clip(1 - np.floor(np.log10(spread)), 0, 6))
    if abs(value) >= 1e9:
        return f"{value:.4g}"
    return f"{round(float(value), digits) + 0.0:,.{digits}f}"  # + 0.0 turns a minus zero into zero
