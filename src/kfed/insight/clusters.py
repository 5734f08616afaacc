"""`kfed report`: what the clusters are, for the people whose rows they hold."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kfed._base import text
from kfed._base.report import Block, HeatTable, Notes, Paragraph, Report, Section
from kfed._version import __version__
from kfed.errors import InvalidInputError
from kfed.insight.assessment import Assessment
from kfed.insight.images import ImageLayout
from kfed.insight.names import check_names, default_name
from kfed.insight.warned import warnings_of
from kfed.server import Aggregation, Profile

FULL_HEAT = 2.0
"""Standard deviations from the average at which a colour is full."""

MOST_COLUMNS, MOST_DEVICES, MOST_TELLING = 40, 40, 12


def cluster_report(
    aggregation: Aggregation,
    title: str,
    names: Mapping[int, str] | None = None,
    image_shape: tuple[int, int] | None = None,
    profile: Profile | None = None,
) -> Report:
    """Describe the clusters of an aggregation for any output.

    Parameters
    ----------
    aggregation : Aggregation
    title : str
    names : mapping from cluster to str, optional
        Names of clusters; others are called by their number.
    image_shape : (height, width), optional
        The features are the pixels of such an image, row by row. Names such as pixel0, pixel1, ... or pixel_0_0,
        pixel_0_1, ... of all pixels say so, too; where others such as px1 or 1x1 do, columns are shown as well.
    profile : Profile, optional
        Its profile in other units; see `Profile.in_units`.
    """
    profile = profile or aggregation.profile()
    called = _names(names or {}, profile.n_clusters)
    layout = ImageLayout.of(image_shape, profile)
    has_columns = layout is None or not layout.is_sure
    assessment = Assessment.of(aggregation)
    measured = filter(None, [assessment.instability, assessment.nearness])
    warnings = (*measured, *warnings_of(aggregation, assessment))
    sections = [
        Section("", tuple(_summary(assessment, profile, called, has_columns=has_columns))),
        *([Section("Look at this first", (Notes(warnings, "warning"),))] if warnings else []),
        *([Section("Mean images", (layout.pictures(profile, _with_shares(profile, called)),))] if layout else []),
        *([Section("What sets clusters apart", (_heatmap(profile, called),))] if has_columns else []),
        Section("Where they live", tuple(_devices(profile, called))),
        *(_cluster(profile, called, cluster) for cluster in range(profile.n_clusters if has_columns else 0)),
    ]
    foot = f"Written by kfed {__version__} from messages of devices; no row was seen."
    return Report(title, tuple(sections), foot=foot)


def profile_csv(profile: Profile, names: Mapping[int, str] | None = None) -> str:
    """A line for each cluster and column: mean, spread, those of all rows, and the difference."""
    called = _names(names or {}, profile.n_clusters)
    file = io.StringIO()
    records = [{**record, "name": called[record["cluster"]]} for record in profile.rows()]
    writer = csv.DictWriter(file, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


def _names(names: Mapping[int, str], n_clusters: int) -> list[str]:
    unknown = [number for number in names if not 0 <= number < n_clusters]
    if unknown:
        raise InvalidInputError(f"names must be of clusters 0 to {n_clusters - 1}; got one of cluster {unknown[0]}")
    check_names(names)
    return [names.get(number, default_name(number)) for number in range(n_clusters)]


def _heads(called: Sequence[str]) -> list[str]:
    """Names for the head of a narrow column."""
    return [str(cluster) if name == default_name(cluster) else name for cluster, name in enumerate(called)]


def _signed(number: float, digits: int) -> str:
    rounded = round(float(number), digits)
    return f"{rounded:+.{digits}f}" if rounded else f"{0:.{digits}f}"


def _summary(found: Assessment, profile: Profile, called: Sequence[str], *, has_columns: bool) -> Iterator[Block]:
    """A few plain sentences."""
    n_rows, n_devices = round(float(profile.sizes.sum())), int(np.count_nonzero(profile.rows_on_devices.any(axis=1)))
    sentences = [
        f"{text.plural(n_rows, 'row')} of {text.plural(n_devices, 'device')} are in "
        f"{text.plural(profile.n_clusters, 'cluster')}."
    ]
    if profile.n_clusters > 1:
        sentences.append(_sizes(profile, called))
    of_what = "the rows" if found.has_squares else "the device centers (devices did not say how far their rows spread)"
    share = f"{found.about}{_percent(found.explained)}"
    sentences.append(f"The clustering explains {share} of the variance of {of_what}.")
    bound = found.optimality
    if bound is not None and np.isfinite(bound.ratio):
        sentences.append(text.sentence(bound.conclusion().text))
    again = ", and refined by second messages, which do not tell whether they are stable"
    rounds = found.aggregation.settings.rounds
    sentences.append(f"The clusters were found by the {found.aggregation.rule} rule{again if rounds > 1 else ''}.")
    yield Paragraph(" ".join(sentences))
    if has_columns:
        shares = map(_percent, profile.shares)
        words = (f"{_title(called, r)} ({share}): {profile.in_words(r)}" for r, share in enumerate(shares))
        yield Notes(tuple(words), "")
        if profile.about_shares:
            yield Paragraph(text.sentence(profile.about_shares), is_aside=True)
    lone = [called[r] for r in range(len(called)) if np.count_nonzero(profile.rows_on_devices[:, r]) == 1]
    if lone and len(profile.device_ids) > 1:
        one, each = (
            f"Only one device has rows of {lone[0]}.",
            f"Each of these is on one device alone: {text.listed(lone)}.",
        )
        yield Paragraph(one if len(lone) == 1 else each)


def _sizes(profile: Profile, called: Sequence[str]) -> str:
    """The largest cluster and the smallest, if they differ in what is shown of them."""
    largest, smallest = int(profile.shares.argmax()), int(profile.shares.argmin())
    most, least = _percent(profile.shares[largest]), _percent(profile.shares[smallest])
    if most == least:
        return f"Each has about {most} of the rows."
    return f"The largest is {called[largest]} with {most} of the rows, the smallest {called[smallest]} with {least}."


def _heatmap(profile: Profile, called: Sequence[str]) -> HeatTable:
    """Differences from the average, columns that set clusters apart first."""
    differences = profile.differences
    order = np.argsort(-np.abs(differences).max(axis=0), kind="stable")[:MOST_COLUMNS]
    rows = tuple((profile.names[j], *(_signed(d, 1) for d in differences[:, j])) for j in order)
    left_out = len(profile.names) - len(order)
    of_what = "all rows" if profile.spreads is not None else "the device centers"
    more = f" {text.plural(left_out, 'further column differs', 'further columns differ')} less." if left_out else ""
    return HeatTable(
        "",
        ("column", *_heads(called)),
        rows,
        heats=tuple(tuple(float(d) / FULL_HEAT for d in differences[:, j]) for j in order),
        caption=f"Mean of the cluster minus the mean of all rows, in standard deviations of {of_what}.{more}",
    )


def _devices(profile: Profile, called: Sequence[str]) -> Iterator[Block]:
    """The share of each device's rows in each cluster."""
    rows = profile.rows_on_devices
    shares = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-300)
    order = np.argsort(-rows.sum(axis=1), kind="stable")[:MOST_DEVICES]
    table = tuple(
        (profile.device_ids[z], f"{rows[z].sum():,.0f}", *(f"{s:.0%}" if s else "" for s in shares[z])) for z in order
    )
    left_out = len(rows) - len(order)
    more = f" {text.plural(left_out, 'smaller device is', 'smaller devices are')} left out." if left_out else ""
    yield HeatTable(
        "",
        ("device", "rows", *_heads(called)),
        table,
        heats=tuple((0.0, *(float(s) for s in shares[z])) for z in order),
        caption="Share of the rows of each device in each cluster. All rows of a center that a device sent count for "
        f"the cluster of the center; kfed label looks at each row, so its counts can differ.{more}",
    )


def _cluster(profile: Profile, called: Sequence[str], cluster: int) -> Section:
    """Size, devices and columns of one cluster."""
    on = profile.rows_on_devices[:, cluster]
    devices = [f"{profile.device_ids[z]} ({on[z]:,.0f})" for z in np.argsort(-on, kind="stable") if on[z] > 0]
    facts = (
        f"{text.plural(round(float(profile.sizes[cluster])), 'row')}, {_percent(profile.shares[cluster])} of all, on "
        f"{len(devices):,} of {text.plural(len(on), 'device')}: {text.listed(devices)}."
    )
    return Section(_title(called, cluster), (Paragraph(facts), _columns(profile, cluster)))


def _title(called: Sequence[str], cluster: int) -> str:
    """The number of a cluster, and its name, which stays as it was given."""
    number = default_name(cluster)
    return number.capitalize() + ("" if called[cluster] == number else f", {called[cluster]}")


def _columns(profile: Profile, cluster: int) -> HeatTable:
    differences = profile.differences[cluster]
    order = profile.telling(cluster)[:MOST_TELLING]
    columns = {
        "column": [profile.names[j] for j in order],
        "mean": [profile.shown(profile.means[cluster, j], j) for j in order],
        "spread": [profile.shown_spread(cluster, j) for j in order],
        "mean of all": [profile.shown(profile.overall_means[j], j) for j in order],
        "difference": [_signed(differences[j], 2) for j in order],
    }
    if profile.spreads is None:
        del columns["spread"]
    cold = (0.0,) * (len(columns) - 2)
    more = text.plural(len(differences) - len(order), "more column that differs", "more columns that differ")
    return HeatTable(
        "",
        tuple(columns),
        tuple(zip(*columns.values(), strict=True)),
        heats=tuple((*cold, float(differences[j]) / FULL_HEAT) for j in order),
        caption=f"and {more} less" if len(order) < len(differences) else "",
    )


def _with_shares(profile: Profile, called: Sequence[str]) -> list[str]:
    return [f"{name} ({_percent(share)})" for name, share in zip(called, profile.shares, strict=True)]


def _percent(share: float) -> str:
    return f"{share:.1%}" if share < 0.1 else f"{share:.0%}"
