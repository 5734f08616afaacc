"""`kfed aggregate`: shared clusters from the messages of the sites."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import numpy as np
import typer
from rich.markup import escape

from kfed._base.files import write
from kfed._base.report import Notes
from kfed.cli._app import app
from kfed.cli._comparison import compare_and_show, show_comparison
from kfed.cli._options import Rule
from kfed.cli._report import on_terminal
from kfed.cli._terminal import (
    Force,
    Json,
    claim,
    flag,
    note,
    number_range_or_auto,
    option,
    plural,
    print_json,
    rich_table,
    say,
)
from kfed.errors import InvalidInputError
from kfed.server import DEFAULT, Aggregation, ComparisonWords, Inbox, aggregate_refined, read_messages, rows_left_out
from kfed.server import aggregate as aggregate_messages
from kfed.wire import DeviceMessage, load

Plot = Annotated[Path | None, option("FILE", "Also draw the device centers, or the comparison.")]

MAX_NAME, MOST_DEVICES_LISTED = 120, 100


@app.command(
    epilog="`kfed aggregate *.kfed`   finds how many clusters there are, and writes clusters.kfed\n\n"
    "`kfed aggregate *.kfed -k 16 -o clusters.kfed`\n\n"
    "`kfed aggregate *.kfed -k 2-12 --plot k.png`   only compares these numbers of clusters\n\n"
    "`kfed aggregate *.kfed -k auto --rule robust`   if k is not known and some rows are bad\n\n"
    "`kfed aggregate *.kfed -k 16 --rule robust --min-devices 2`   no site makes a cluster of its own\n\n"
    "`kfed aggregate inbox/*.kfed -k 16 --skip-bad --identities answers --plot clusters.png`\n\n"
    "`kfed aggregate *.kfed -k 16 -o clusters.kfed --message europe.region`   a region, as one device\n\n"
    "`kfed aggregate *.refined --clusters clusters.kfed -o better.kfed`   after `kfed refine` at the sites\n\n"
    "`kfed aggregate *.region -k 16 --rule regions -o world.kfed`   at the parent server of the regions\n\n"
    "clusters.kfed holds the centers of all devices. If devices should not see the centers of others, send each "
    "its identity instead: answers/site7.identity holds only the shared clusters."
)
def aggregate(
    files: Annotated[list[Path], typer.Argument(metavar="MESSAGE", help="The .kfed files that the sites sent.")],
    n_clusters: Annotated[
        Any,
        option(
            "N|A-B|auto",
            "Number of shared clusters. Default: the best number. auto: fail unless one stands out. 2-12: only compare "
            "these numbers.",
            "-k",
            "--n-clusters",
            parser=number_range_or_auto,
        ),
    ] = None,
    clusters: Annotated[
        Path | None,
        option(
            "FILE",
            "Refine these clusters by second messages, from `kfed refine`; instead of -k.",
            "--clusters",
        ),
    ] = None,
    output: Annotated[Path, option("FILE", "Where to write the aggregation.", "-o", "--output")] = Path(
        "clusters.kfed"
    ),
    rule: Rule = DEFAULT,
    first_device: Annotated[
        str | None,
        option(
            "NAME",
            "The device to start from. By default the one with the most rows among those with at most k centers. The "
            "pooled rule, and --min-devices above 1, start from a single center.",
        ),
    ] = None,
    min_devices: Annotated[
        int | None,
        option(
            "N",
            "Least number of sites behind every cluster; centers of fewer sites are set aside, and named. By "
            "default 1, or 2 with the robust and the pooled rule if 30 sites or more sent centers.",
            min=1,
        ),
    ] = None,
    skip_bad: Annotated[bool, flag("--skip-bad", "Skip files that are not valid, and name them.")] = False,
    identities: Annotated[Path | None, option("DIR", "Also write the identity of each site, in its own file.")] = None,
    message: Annotated[
        Path | None,
        option(
            "FILE",
            "Also write a message that summarises these sites for a parent server; its file name is the device id.",
        ),
    ] = None,
    require_epsilon: Annotated[
        float | None, option("E", "Refuse messages that are not differentially private with this epsilon.")
    ] = None,
    plot: Plot = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Group the centers that the sites sent into shared clusters.

    The order of the files does not matter. The same message twice counts once.
    """
    if n_clusters is not None and clusters is not None:
        raise InvalidInputError("--clusters refines clusters that exist, and -k makes new ones; use only one of them")
    if plot is not None:
        _check_plot(plot)
    inbox = read_messages(files, skip_bad=skip_bad, max_epsilon=require_epsilon)
    _report(inbox)
    if isinstance(n_clusters, range):
        options: dict[str, Any] = {"min_devices": min_devices, "force": force, "as_json": as_json}
        compare_and_show(inbox.messages, n_clusters, rule, plot, files, **options)
        return
    answers = {
        message.device_id: _answer_path(identities, message.device_id) for message in inbox.messages if identities
    }
    outputs = [path for path in (output, message, plot) if path is not None]
    _claim_all(outputs, identities, list(answers.values()), [*inbox.paths, *([clusters] if clusters else [])], force)
    how: dict[str, Any] = {"first_device": first_device, "min_devices": min_devices}
    if clusters is not None:
        result = aggregate_refined(load(clusters, Aggregation), inbox.messages)
    elif n_clusters in ("auto", None):
        result = _aggregate_auto(inbox.messages, rule, plot, sure=n_clusters == "auto", as_json=as_json, **how)
    else:
        result = aggregate_messages(inbox.messages, n_clusters, rule=rule, **how)
    for notice in result.notices:
        note(f"warning: {notice.text}")
    summary = None if message is None else result.to_message(message.stem).to_bytes()
    write(output, result.to_bytes(), overwrite=force)
    if message is not None and summary is not None:
        write(message, summary, overwrite=force)
    for device_id, path in answers.items():
        path.parent.mkdir(exist_ok=True)
        write(path, result.identity(device_id).to_bytes(), overwrite=force)
    if plot is not None:
        from kfed.insight import plot_centers

        plot_centers(result, plot)
    facts = _aggregate_facts(result, inbox) | {
        "output": str(output),
        "identities": {device_id: str(path) for device_id, path in answers.items()},
        "message": None if message is None else str(message),
        "plot": None if plot is None else str(plot),
    }
    print_json(facts) if as_json else say(*_aggregate_text(facts))


def _aggregate_auto(
    messages: Sequence[DeviceMessage], rule: str, plot: Path | None, *, sure: bool, as_json: bool, **how: Any
) -> Aggregation:
    """Aggregate with the number that the centers show, or that stands out among those compared.

    If none does, the best of them is taken, unless an answer that is not sure is to be refused (`sure`): then the
    command ends with 1.
    """
    result = aggregate_messages(messages, rule=rule, **how)
    choice = result.k_choice
    if choice is None or choice.comparison is None:
        return result
    found = choice.comparison
    if sure and found.recommended is None:
        show_comparison(found, result, plot, as_json=as_json)
        note("no clusters were written; choose a number from the table, and pass it with -k")
        raise typer.Exit(1)
    if not as_json:
        words = ComparisonWords(found)
        say(*on_terminal([words.table(), Notes(tuple(words.notes()))]))  # the reason is said with the clusters
    return result


def _check_plot(path: Path) -> None:
    """Raise if a picture cannot be drawn, before any work is done."""
    from kfed._base.figures import check_format, require_matplotlib

    check_format(path)
    require_matplotlib()


def _report(inbox: Inbox) -> None:
    for _, reason in inbox.skipped:
        note(f"skipped: {reason}")
    for path in inbox.repeated:
        note(f"{path} holds the same message as another file; it counts once")


def _answer_path(folder: Path | None, device_id: str) -> Path:
    """The file for the identity of a device: in this folder, whatever the device is called."""
    name = quote(device_id, safe=" ,;=+@()")
    if len(name) > MAX_NAME:
        name = f"{name[:MAX_NAME]}-{hashlib.blake2b(device_id.encode(), digest_size=8).hexdigest()}"
    return (folder or Path()) / f"{name}.identity"


def _claim_all(outputs: list[Path], folder: Path | None, answers: list[Path], inputs: list[Any], force: bool) -> None:
    """Check every output, and that no two have the same name."""
    claim(outputs, inputs=inputs, force=force)
    if folder is not None:
        claim(answers if folder.exists() else [folder], inputs=inputs, force=force)
    if len({path.absolute() for path in [*outputs, *answers]}) < len(outputs) + len(answers):
        raise InvalidInputError("every output must have a name of its own; two have the same name")


def _aggregate_facts(result: Aggregation, inbox: Inbox) -> dict[str, Any]:
    left_out = rows_left_out(result.messages)
    return {
        "n_clusters": result.n_clusters,
        "n_devices": result.messages.n_devices,
        "n_devices_without_centers": result.messages.n_devices - len(np.unique(result.messages.owners)),
        "n_device_centers": len(result.messages.centers),
        "n_rows_left_out": sum(left_out.values()),
        "rows_left_out_by_device": left_out if len(left_out) <= MOST_DEVICES_LISTED else None,
        "rule": result.rule,
        "rounds": result.settings.rounds,
        "min_devices": result.settings.min_devices,
        "k_choice": None if result.k_choice is None else str(result.k_choice),
        "k_certainty": None if result.k_choice is None else result.k_choice.certainty,
        "warnings": [notice._asdict() for notice in result.notices],
        "cluster_sizes": result.cluster_sizes.tolist(),
        "centers_in_cluster": np.bincount(result.center_labels, minlength=result.n_clusters).tolist(),
        "devices_in_cluster": result.devices_in_cluster.tolist(),
        "devices_with_center": _devices_with_center(result),
        "skipped": [{"file": str(path), "reason": reason} for path, reason in inbox.skipped],
        "repeated": list(map(str, inbox.repeated)),
    }


def _devices_with_center(result: Aggregation) -> list[int]:
    """How many devices have a center in each cluster, as `kfed report` counts them."""
    pairs = np.unique(np.stack([result.center_labels, result.messages.owners]), axis=1)
    counts: list[int] = np.bincount(pairs[0], minlength=result.n_clusters).tolist()
    return counts


def _aggregate_text(facts: dict[str, Any]) -> list[Any]:
    columns = zip(facts["cluster_sizes"], facts["centers_in_cluster"], facts["devices_with_center"], strict=True)
    rows = [(str(cluster), *(f"{value:,}" for value in values)) for cluster, values in enumerate(columns)]
    again = ", refined by second messages" if facts["rounds"] == 2 else ""
    n_silent = facts["n_devices_without_centers"]
    lines: list[Any] = [
        f"{plural(facts['n_device_centers'], 'center')} of {plural(facts['n_devices'] - n_silent, 'device')} in "
        f"{plural(facts['n_clusters'], 'cluster')} (rule: {facts['rule']}{again})",
        rich_table(None, ["cluster", "rows", "device centers", "devices"], rows),
        f"  [green]wrote[/]  {escape(facts['output'])}  (for `kfed label` and `kfed assign`)",
    ]
    if facts["k_choice"] and "unsure k" not in [warning["code"] for warning in facts["warnings"]]:
        lines.insert(1, f"  [green]found[/]  {escape(facts['k_choice'])}")
    if facts["identities"]:
        folder = escape(str(Path(next(iter(facts["identities"].values()))).parent))
        lines.append(f"  [green]wrote[/]  {plural(len(facts['identities']), 'identity', 'identities')} in {folder}")
    if facts["message"]:
        above = "(for a parent server: `kfed aggregate --rule regions`)"
        lines.append(f"  [green]wrote[/]  {escape(facts['message'])}  {above}")
    if facts["plot"]:
        lines.append(f"  [green]wrote[/]  {escape(facts['plot'])}")
    if facts["skipped"]:
        lines.append(f"  [yellow]skipped[/]  {plural(len(facts['skipped']), 'file')}, named above")
    return lines
