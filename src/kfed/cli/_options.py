"""Options that several commands share: each group is a dataclass, and a command takes it as one parameter."""

from __future__ import annotations

import csv
import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import numpy as np
import typer

from kfed._base import checks
from kfed.cli._terminal import flag, number_or_auto, option
from kfed.device import Privacy
from kfed.errors import InvalidInputError
from kfed.server import RULES, rule_name
from kfed.site import MIN_TABLE_CLUSTER_SIZE, Ledger, LocalFile, read_schema, table_stem
from kfed.wire import FeatureSchema, load

TABLE_HELP = "The rows of this site: .csv (also .gz, .zst), .parquet, .feather, .xlsx or .npy."

ScaleFile = Annotated[
    Path | None,
    option(
        "FILE",
        "JSON file with the shift and scale of each column. Sites must use the same file; only --schema checks that.",
        "--scale",
    ),
]
Sheet = Annotated[
    str | None, option("NAME", "Sheet of an Excel file; by default the first with several columns.", "--sheet")
]
CaFile = Annotated[Path | None, option("FILE", "Certificates (PEM) to trust, for a coordinator with TLS.", "--cafile")]
Insecure = Annotated[bool, flag("--insecure", "Allow a coordinator on another machine without TLS.")]
Patience = Annotated[
    float, option("SECONDS", "How long to keep trying if the coordinator does not answer.", "--patience", min=0)
]


def _bits(text: str) -> int:
    if text not in ("4", "8", "16"):
        raise typer.BadParameter(f"must be 4, 8 or 16; got {text!r}")
    return int(text)


Bits = Annotated[
    Any,
    option(
        "4|8|16",
        "Round the numbers in centers to this many bits, for a smaller message; it states the rounding error. "
        "A table has a scale for each column; arrays, and tables with --as-is, have one for each center.",
        "--bits",
        parser=_bits,
    ),
]


def known_rule(text: str) -> str:
    """Read the name of a rule."""
    try:
        return rule_name(text)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from None


Rule = Annotated[
    str,
    option(
        "|".join(RULES),
        "How centers are grouped: paper is Algorithm 2 of the paper, pooled is for summaries of rows, robust tolerates "
        "stray centers, and regions is for messages of regions (`kfed aggregate --message`), which may have several "
        "centers of one cluster. Default: pooled if a site sent a summary; otherwise paper, and robust to compare "
        "numbers of clusters.",
        "--rule",
        show_default=False,
        parser=known_rule,
    ),
]


def split_names(text: str) -> list[str]:
    """Split a list of columns at its commas; a name with a comma is in quotes."""
    return next(csv.reader([text]), [])


def column_kinds(text: str) -> dict[str, str]:
    """Read kinds of columns, such as sex=category,code=category."""
    pairs = [entry.rpartition("=") for entry in split_names(text)]
    if not all(name and kind for name, _, kind in pairs):
        raise typer.BadParameter(f"must look like sex=category,code=category; got {text!r}")
    return {name.strip(): kind.strip() for name, _, kind in pairs}


Kinds = Annotated[
    Any,
    option(
        "A=KIND,...",
        "The kind of some columns, where the cells do not show it: number, category, flag or date.",
        parser=column_kinds,
    ),
]
Clusters = Annotated[Path, typer.Argument(metavar="CLUSTERS", help="An aggregation, from `kfed aggregate`.")]

Exclude = Annotated[Any, option("A,B,...", "Columns to leave out, instead of --columns.", parser=split_names)]

Missing = Annotated[
    Any,
    option(
        "observed|drop|mean",
        "What to do about missing cells: cluster by the observed ones, drop the row, or fill in the mean.",
        parser=lambda text: checks.one_of(text, ["observed", "drop", "mean"], "--missing"),
    ),
]


@dataclass(frozen=True)
class SiteOptions:
    """How the rows of a site are read and clustered: for `kfed device` and `kfed join`."""

    n_local_clusters: Annotated[
        Any,
        option(
            "N|auto",
            "Number of local clusters; auto estimates it. By default, a fine summary of the rows is sent instead.",
            "-k",
            "--n-local-clusters",
            parser=number_or_auto,
        ),
    ] = None
    device_id: Annotated[str | None, option("NAME", "Name of this site; by default the name of the table.", "--id")] = (
        None
    )
    columns: Annotated[
        Any, option("A,B,...", "Columns to cluster; by default all but identifiers.", parser=split_names)
    ] = None
    exclude: Exclude = None
    id_column: Annotated[
        str | None,
        option("NAME", "Column with the id of the person or owner of each row; counts and labels use it. Not sent."),
    ] = None
    weight_column: Annotated[str | None, option("NAME", "Column with the weight of each row.")] = None
    scale: ScaleFile = None
    schema: Annotated[
        Any,
        option("FILE", "JSON file with the columns, their kinds and their scale, the same at all sites.", parser=Path),
    ] = None
    as_is: Annotated[
        bool | None,
        flag("--as-is/--by-column", "Use numbers unchanged (--as-is), or scale each column (--by-column)."),
    ] = None
    kinds: Kinds = None
    missing: Missing = "observed"
    min_cluster_size: Annotated[
        int,
        option(
            "N",
            "Clusters with fewer different rows (or ids), or whose center equals a row, are not sent.",
            min=1,
        ),
    ] = MIN_TABLE_CLUSTER_SIZE
    small_clusters: Annotated[
        str,
        option(
            "withhold|borrow",
            "Clusters of too few rows: withhold them, or borrow the nearest rows of larger ones (needs --as-is or "
            "--scale).",
        ),
    ] = "withhold"
    seed: Annotated[int, option("N", "Seed of all random choices, together with the name of the site.")] = 0
    header: Annotated[
        bool | None, flag("--header/--no-header", "Whether a CSV or Excel file begins with the names of its columns.")
    ] = None
    sheet: Sheet = None
    moments: Annotated[
        bool,
        flag(
            "--moments",
            "Also send the scatter of all rows, so that the server can say how far its clusters are from the best "
            "possible.",
        ),
    ] = False
    float32: Annotated[bool, flag("--float32", "Compute and send in single precision; with --as-is or --scale.")] = (
        False
    )
    bits: Bits = None
    max_bytes: Annotated[
        int | None,
        option("N", "Limit the summary to N bytes, with fewer or rounded centers if needed.", min=1),
    ] = None
    epsilon: Annotated[
        float | None, option("E", "Make the message differentially private: smaller is more private; 1 is strong.")
    ] = None
    delta: Annotated[
        float | None, option("D", "With --epsilon: less than 1 over the number of rows; by default 1e-6.")
    ] = None
    radius: Annotated[
        float | None,
        option(
            "R", "With --epsilon: a public bound on the norm of a row; by default 2 sqrt(columns) on an agreed scale."
        ),
    ] = None
    budget: Annotated[
        float | None,
        option("E", "With --epsilon: refuse if all private releases of this table add up to more than this."),
    ] = None

    def name(self, data: Path) -> str:
        """The name of the site whose table this is."""
        return table_stem(data) if self.device_id is None else self.device_id

    def released_before(self, data: Path, kept_file: Path) -> LocalFile | None:
        """The local file of an earlier private release of this table, if its promise was the same as now."""
        privacy = self.privacy()
        if privacy is None or not kept_file.exists():
            return None
        kept: LocalFile = load(kept_file, LocalFile)
        private = kept.clustering.private
        is_same = kept.device_id == self.name(data) and private is not None and private.promise == privacy.promise
        return kept if is_same and Ledger.beside(data).has(kept.to_message()) else None

    def how(self, data: Path, *, as_is: bool | None = None) -> dict[str, Any]:
        """These options as arguments of `cluster_file` and `release_file`; `as_is` applies unless an option sets it."""
        return {
            "n_local_clusters": self.n_local_clusters,
            "device_id": self.name(data),
            "random_state": self.seed,
            "min_cluster_size": self.min_cluster_size,
            "small_clusters": self.small_clusters,
            "columns": self.columns,
            "exclude": self.exclude,
            "id_column": self.id_column,
            "weight_column": self.weight_column,
            "scale": self.scale,
            "schema": self.schema,
            "as_is": as_is if self.as_is is None and self.schema is None else self.as_is,
            "kinds": self.kinds,
            "missing": self.missing,
            "header": self.header,
            "sheet": self.sheet,
            "moments": self.moments,
            "dtype": np.float32 if self.float32 else None,
            "privacy": self.privacy(),
            "bits": self.bits,
            "max_bytes": self.max_bytes,
        }

    def privacy(self) -> Privacy | None:
        """What is promised for the rows, if anything."""
        given = {"delta": self.delta, "radius": self.radius, "budget": self.budget}
        if self.epsilon is None:
            for name, value in given.items():
                if value is not None:
                    raise InvalidInputError(f"--{name} applies to private messages; add --epsilon")
            return None
        if self.missing == "mean":
            raise InvalidInputError(
                "a private message cannot use the mean of the rows for missing cells; leave out --missing mean"
            )
        radius, agreed = self.radius, self.schema or self.scale
        if radius is None and agreed is not None:
            schema = agreed if isinstance(agreed, FeatureSchema) else read_schema(agreed)
            radius = 2 * math.sqrt(schema.n_features)
        if radius is None:
            raise InvalidInputError(
                "--epsilon needs --schema or --scale, agreed with the other sites and not computed from these rows; or "
                "--radius, a bound on the norm of an unscaled row"
            )
        if not isinstance(self.n_local_clusters, int):
            raise InvalidInputError("--epsilon needs -k N: finding a number of local clusters would look at the rows")
        return Privacy(epsilon=self.epsilon, delta=self.delta, radius=radius)


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
