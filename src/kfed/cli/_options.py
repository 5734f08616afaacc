"""Options that several commands share: each group is a dataclass, and a command takes it as one parameter."""

from __future__ import annotations

import csv
import functools
import inspect
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import numpy as np
import typer

from kfed._base import checks
from kfed.cli._terminal import number_or_auto
from kfed.device import Privacy
from kfed.errors import InvalidInputError, PrivacyWarning
from kfed.site import MIN_TABLE_CLUSTER_SIZE, Ledger, LocalFile, cluster_file, read_schema
from kfed.wire import load

TABLE_HELP = "The rows of this site: .csv (also .gz, .zst), .parquet, .feather, .xlsx or .npy."

ScaleFile = Annotated[
    Path | None,
    typer.Option("--scale", metavar="FILE", help="JSON with the shift and scale of each column that all sites use."),
]
CaFile = Annotated[
    Path | None, typer.Option("--cafile", metavar="FILE", help="Certificates to trust, for a coordinator with TLS.")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Allow another machine without TLS.")]
Patience = Annotated[
    float,
    typer.Option("--patience", metavar="SECONDS", min=0, help="How long to retry a coordinator that does not answer."),
]


def _bits(text: str) -> int:
    if text not in ("4", "8", "16"):
        raise typer.BadParameter(f"must be 4, 8 or 16; got {text!r}")
    return int(text)


Bits = Annotated[
    Any,
    typer.Option(
        "--bits",
        metavar="4|8|16",
        parser=_bits,
        help="Round centers to so many bits a number, for a smaller message; it says how far they may be off.",
    ),
]


def column_names(text: str) -> list[str]:
    """Split a list of columns at its commas; a name with a comma is in quotes."""
    return next(csv.reader([text]), [])


def column_kinds(text: str) -> dict[str, str]:
    """Read kinds of columns, such as sex=category,code=category."""
    pairs = [entry.rpartition("=") for entry in column_names(text)]
    if not all(name and kind for name, _, kind in pairs):
        raise typer.BadParameter("must look like sex=category,code=category")
    return {name.strip(): kind.strip() for name, _, kind in pairs}


Kinds = Annotated[
    Any,
    typer.Option(
        metavar="A=KIND,...",
        parser=column_kinds,
        help="What columns are, where cells do not show it: number, category, flag or date.",
    ),
]


def _missing(text: str) -> str:
    return checks.one_of(text, ["observed", "drop", "mean"], "--missing")


@dataclass(frozen=True)
class SiteOptions:
    """How the rows of a site are read and clustered: for `kfed device` and `kfed join`."""

    n_local_clusters: Annotated[
        Any,
        typer.Option(
            "-k",
            "--n-local-clusters",
            metavar="N|auto",
            parser=number_or_auto,
            help="Clusters to look for here; auto finds how many there are. By default a fine summary of the rows is "
            "sent, which needs no number.",
        ),
    ] = None
    device_id: Annotated[
        str | None, typer.Option("--id", metavar="NAME", help="Name of this site; by default that of the table.")
    ] = None
    columns: Annotated[
        Any, typer.Option(metavar="A,B,...", parser=column_names, help="Columns to cluster; by default all.")
    ] = None
    id_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column that says whose a row is, to label and to count by; it stays here."),
    ] = None
    weight_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column that says how much a row counts.")
    ] = None
    scale: ScaleFile = None
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON that all sites use: columns, their kinds and their scale."),
    ] = None
    as_is: Annotated[
        bool | None,
        typer.Option("--as-is/--by-column", help="Take numbers as they are, without any scale; or send spreads."),
    ] = None
    kinds: Kinds = None
    missing: Annotated[
        Any,
        typer.Option(
            metavar="observed|drop|mean",
            parser=_missing,
            help="Missing cells: cluster by the others (the default), do not count such rows, or fill in the mean.",
        ),
    ] = "observed"
    min_cluster_size: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Clusters of fewer different rows, or ids, stay here; so do those whose center is a row.",
        ),
    ] = MIN_TABLE_CLUSTER_SIZE
    small_clusters: Annotated[
        str,
        typer.Option(
            metavar="withhold|borrow",
            help="What becomes of clusters with too few rows: not sent, or sent with the nearest rows of larger ones.",
        ),
    ] = "withhold"
    seed: Annotated[
        int, typer.Option(metavar="N", help="Decides every random choice, together with the name of the site.")
    ] = 0
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help="Whether the first line of a CSV file holds names.")
    ] = None
    moments: Annotated[
        bool,
        typer.Option(
            "--moments",
            help="Also send how all rows together spread in every direction: then the server can say how far its "
            "clusters are from the best possible.",
        ),
    ] = False
    float32: Annotated[bool, typer.Option("--float32", help="Compute and send in single precision.")] = False
    bits: Bits = None
    epsilon: Annotated[
        float | None,
        typer.Option(metavar="E", help="Make the message differentially private; 1 is a strong promise, 0.1 stronger."),
    ] = None
    delta: Annotated[
        float | None,
        typer.Option(metavar="D", help="With --epsilon, less than 1 over the number of rows; 1e-6 by default."),
    ] = None
    radius: Annotated[
        float | None,
        typer.Option(
            metavar="R",
            help="With --epsilon, a public bound on the length of a row; 2 sqrt(columns) if a scale is agreed.",
        ),
    ] = None
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="E", help="Refuse if all private releases of this table add up to more than this epsilon."
        ),
    ] = None

    def name(self, data: Path) -> str:
        """The name of the site whose table this is."""
        return data.stem if self.device_id is None else self.device_id

    def released_before(self, data: Path, kept_file: Path) -> LocalFile | None:
        """What a local file keeps of a private release of this table, if that promises what is asked for now."""
        privacy = self.privacy()
        if privacy is None or not kept_file.exists():
            return None
        kept: LocalFile = load(kept_file, LocalFile)
        private = kept.clustering.private
        is_same = kept.device_id == self.name(data) and private is not None and private.promise == privacy.promise
        return kept if is_same and Ledger.beside(data).has(kept.to_message()) else None

    def cluster(self, data: Path, *, as_is: bool | None = None) -> LocalFile:
        """Read and cluster the table of the site; `as_is` holds unless an option says otherwise.

        A private release is written to the ledger of the table, or refused.
        """
        privacy = self.privacy()
        if privacy is None:
            return self._clustered(data, as_is, None)
        ledger = Ledger.beside(data)
        ledger.check(privacy.promise, self.budget)
        with warnings.catch_warnings():
            warnings.simplefilter("error", PrivacyWarning)
            try:
                kept = self._clustered(data, True if self.schema is None else as_is, privacy)
            except PrivacyWarning as warning:
                raise InvalidInputError(f"{warning}; nothing was released") from None
        ledger.spend(kept.to_message(), self.budget)
        return kept

    def privacy(self) -> Privacy | None:
        """What is promised for the rows, if anything."""
        given = {"delta": self.delta, "radius": self.radius, "budget": self.budget}
        if self.epsilon is None:
            for name, value in given.items():
                if value is not None:
                    raise InvalidInputError(f"--{name} applies to private messages; add --epsilon")
            return None
        if self.missing == "mean":
            raise InvalidInputError("missing cells cannot be filled with the mean of the rows in a private message")
        radius, agreed = self.radius, self.schema or self.scale
        if radius is None and agreed is not None:
            radius = 2 * math.sqrt(read_schema(agreed).n_features)
        if radius is None:
            raise InvalidInputError(
                "--epsilon needs --schema or --scale, agreed with the other sites and not computed from these rows; or "
                "--radius, a bound on the length of a row as it is"
            )
        return Privacy(epsilon=self.epsilon, delta=self.delta, radius=radius)

    def _clustered(self, data: Path, as_is: bool | None, privacy: Privacy | None) -> LocalFile:
        return cluster_file(
            data,
            self.n_local_clusters,
            self.name(data),
            random_state=self.seed,
            min_cluster_size=self.min_cluster_size,
            small_clusters=self.small_clusters,  # type: ignore[arg-type]
            columns=self.columns,
            id_column=self.id_column,
            weight_column=self.weight_column,
            scale=self.scale,
            schema=self.schema,
            as_is=as_is if self.as_is is None and self.schema is None else self.as_is,
            kinds=self.kinds,
            missing=self.missing,
            header=self.header,
            moments=self.moments,
            dtype=np.float32 if self.float32 else None,
            privacy=privacy,
            bits=self.bits,
        )


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Make every parameter whose type is a dataclass one option for each field of it."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {one.name: one.annotation for one in parameters if is_dataclass(one.annotation)}

    @functools.wraps(command)
    def expanded(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    flat = [option for one in parameters for option in (_options_of(one.annotation) if one.name in groups else [one])]
    by_name = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in flat]
    # Typer reads a command's options from these two attributes, and calls it with keywords.
    expanded.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]
    expanded.__annotations__ = {option.name: option.annotation for option in by_name}
    return expanded


def _options_of(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    own = inspect.signature(group).parameters.values()
    return [one.replace(annotation=hints[one.name]) for one in own]
