"""A federation as it is now, on the terminal."""

from __future__ import annotations

import time
from typing import Any

from rich.markup import escape

from kfed.cli._terminal import plural, print_json, printable, rich_table, say


def print_state(state: dict[str, Any], as_json: bool) -> None:
    """Print a federation as it is now."""
    print_json(state) if as_json else say(*state_text(state))


def state_text(state: dict[str, Any]) -> list[Any]:
    """Lines and tables that describe it."""
    when = [f"at a quorum of {state['quorum']:,}"] if state["quorum"] else []
    when += [f"by {time.strftime('%Y-%m-%d %H:%M', time.localtime(state['deadline']))}"] if state["deadline"] else []
    lines: list[Any] = [
        f"[bold]{escape(state['name'])}[/]: {state['state']}{', closed' if state['closed'] else ''}; "
        f"{plural(state['n_devices'], 'device')}, {plural(state['n_centers'], 'center')}, {state['n_bytes']:,} bytes",
        f"  {plural(state['n_features'], _noun(state))}, {_number(state)}, rule: {_rule(state)}; "
        f"aggregates {' or '.join(when) or 'on request'}",
    ]
    if state.get("agreed_schema"):
        scale = "an agreed scale" if state["agreed_schema"]["scaling"] == "agreed" else "the scale that messages tell"
        lines.append(f"  by a schema, on {scale}: sites fetch it when they join")
    if state.get("rounds", 1) > 1:
        second = f"{state['n_second']:,} of {plural(state['n_aggregated'], 'device')} sent a second message"
        lines.append("  refined by second messages" if state["round"] > 1 else f"  two rounds: {second}")
    lines.append(f"  {_resting(state)}")
    if state.get("invited_only"):
        lines.append("  devices join by invitation")
    if state["reason"] and all(one["text"] != state["reason"] for one in state.get("notices", [])):
        lines.append(f"  [green]found[/]  {escape(state['reason'])}")
    if state["remark"]:
        what = "damaged" if state["state"] == "damaged" else "not aggregated"
        lines.append(f"  [yellow]{what}:[/] {escape(state['remark'])}")
    lines += [f"  [yellow]warning:[/] {escape(printable(one['text']))}" for one in state.get("notices", [])]
    if state["cluster_sizes"] is not None:
        lines.append(_clusters(state["cluster_sizes"], state.get("cluster_names") or {}))
    return lines


def _clusters(sizes: list[float], names: dict[str, str]) -> Any:
    """The sizes of clusters, and what they are called if somebody named one."""
    rows = [(str(cluster), escape(names.get(str(cluster), "")), f"{size:,g}") for cluster, size in enumerate(sizes)]
    if names:
        return rich_table(None, ["cluster", "name", "points"], rows, left=2)
    return rich_table(None, ["cluster", "points"], [(cluster, size) for cluster, _, size in rows])


def _noun(state: dict[str, Any]) -> str:
    return "column" if state.get("by_column") or state.get("agreed_schema") else "feature"


def _rule(state: dict[str, Any]) -> str:
    """The rule that was asked for, and the one that made the clusters."""
    answered, asked = state.get("answered_by"), str(state["rule"])
    return asked if answered in (None, asked) else f"{asked} (used: {answered})"


def _number(state: dict[str, Any]) -> str:
    """How many clusters there are to be, or what somebody asked for last."""
    if state.get("n_clusters_asked"):
        return f"chosen: {plural(state['n_clusters_asked'], 'cluster')}"
    return "the best number of clusters" if state["n_clusters"] is None else f"n_clusters {state['n_clusters']}"


def _resting(state: dict[str, Any]) -> str:
    """On how many devices clusters rest, and from how many on devices see a center."""
    needed = "set by the rule" if state.get("min_devices") is None else f"{state['min_devices']:,}"
    return f"devices needed for a cluster: {needed}; for its center to be shown: {state.get('min_devices_shown', 1):,}"
