"""k-FED on vantage6: an algorithm of three functions, for an image whose PKG_NAME is this module.

central           runs at one organization: asks all for messages, aggregates them, and answers each
partial_message   runs at every node: its table ──> a few centers, as text
partial_labels    runs at every node: its answer ──> the label of each row, in a file that stays at the node

client.task.create(..., input_={"method": "central", "kwargs": {"n_clusters": 4, "options": {"n_local_clusters": 2}}})
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from kfed._base.text import plural
from kfed.adapters._platform_note import AskedNote, RefusedError
from kfed.adapters._platform_server import PlatformRound, Replies
from kfed.adapters._platform_site import labels_reply, message_reply, safe_reply, terms_here
from kfed.adapters._platform_words import read_from_text, to_text
from kfed.errors import EngineError, InvalidInputError, MissingExtraError
from kfed.server import DEFAULT, Aggregation

try:
    from vantage6.algorithm.tools.decorators import algorithm_client, data
    from vantage6.algorithm.tools.util import info
    from vantage6.common.task_status import has_task_failed, has_task_finished
except ImportError as error:
    raise MissingExtraError(
        "kfed.adapters.vantage6 needs vantage6's algorithm tools: pip install 'vantage6-algorithm-tools>=4.15,<5'"
    ) from error

__all__ = ["central", "partial_labels", "partial_message"]

POLL_SECONDS = 2.0
NOT_GIVEN = ("", "[]", "null", "None")
"""What a node may say where a task brings no query and no preprocessing."""


@algorithm_client
def central(
    client: Any,
    n_clusters: int | Literal["auto"] | None = None,
    *,
    rule: str = DEFAULT,
    min_devices: int | None = None,
    options: Mapping[str, Any] | None = None,
    clusters: str | None = None,
    organizations: Sequence[int] | None = None,
    names: Mapping[str, str] | None = None,
    label: bool = True,
    patience: float = 3600.0,
) -> dict[str, Any]:
    """Run one round over organizations of the collaboration, or answer late ones from existing clusters.

    Parameters
    ----------
    n_clusters, rule, min_devices
        As in `kfed.aggregate`; without a number, one is found.
    options : mapping, optional
        How nodes cluster their tables, see `partial_message`.
    clusters : str, optional
        The `clusters` of an earlier result. Then nothing is aggregated: organizations are answered by these.
    organizations : sequence of int, optional
        Ids of the organizations to ask; by default all of the collaboration.
    names : mapping from the id of an organization to a name, optional
        What they are called in the result; by default as at the server.
    label : bool
        Whether nodes label their rows at once.
    patience : float
        Seconds to wait for nodes, each time they are asked; those that are offline can be answered later.

    Returns
    -------
    dict
        ``clusters`` is the aggregation as base64, a file for `kfed report`, `kfed diagnose` and `kfed assign`. Beside
        it are n_clusters, cluster_sizes, rule, k_choice; ``warnings`` with code and text; ``sites``, with the codes of
        what each should look at in its table; ``failed``, with the reason of each; ``late``; ``labelled`` and
        ``unlabelled``.
    """
    known = _names(client, organizations, names)
    how = dict(options or {})
    said = {"names": {str(id_): name for id_, name in known.items()}, "options": how}
    replies = _asked(client, {tuple(known): {"method": "partial_message", "kwargs": said}}, known, patience)
    if clusters is None:
        found = PlatformRound.aggregated(replies, n_clusters, rule, min_devices)
    else:
        found = PlatformRound.answered(replies, read_from_text(Aggregation, clusters))
    asked, into = plural(len(known), "organization"), plural(found.result.n_clusters, "cluster")
    info(f"k-FED: {len(replies.messages)} of {asked} in {into}")
    return found.facts(_labelled(client, found, known, how, patience) if label else None)


def _labelled(
    client: Any, found: PlatformRound, known: Mapping[int, str], how: Mapping[str, Any], patience: float
) -> Replies:
    """Send each organization the answer to its message, and to no other."""
    answers = found.answers()
    asks: dict[tuple[int, ...], dict[str, Any]] = {}
    for id_, name in known.items():
        if name in answers:
            identity, digest = answers[name]
            said = {"name": name, "identity": to_text(identity), "digest": digest, "options": how}
            asks[(id_,)] = {"method": "partial_labels", "kwargs": said}
    return _asked(client, asks, {id_: known[id_] for (id_,) in asks}, patience)


def _answering(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Reply with the reason if a function fails, also while vantage6 reads the table: what it logs, its server gets."""

    @functools.wraps(function)
    def answering(client: Any, **given: Any) -> dict[str, Any]:
        name = given.pop("name", None) or given.pop("names", {}).get(str(client.organization_id))
        name = str(client.organization_id) if name is None else str(name)
        return safe_reply(name, lambda: function(name, _note(client), **given))

    return answering


def _note(client: Any) -> AskedNote:
    """The note of the table that a task asks about, by what a node and its token say: a task chooses names of sites."""
    label = os.environ.get("USER_REQUESTED_DATABASE_LABELS", "default").split(",")[0].upper()
    if any(os.environ.get(f"{label}_{how}", "") not in NOT_GIVEN for how in ("QUERY", "PREPROCESSING")):
        raise RefusedError("the rows are for the site to choose; a task may bring neither a query nor preprocessing")
    return terms_here().note(f"kfed-{client.organization_id}-{label}")


@algorithm_client
@_answering
@data(1)
def partial_message(frame: Any, name: str, note: AskedNote, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Cluster the table of this node, and reply with the message.

    The options are those of `kfed device`: n_local_clusters, columns, id_column, kinds, missing, schema, as_is,
    min_cluster_size, random_state, bits. What a node answers first, it is bound to.
    """
    _check_header(list(map(str, frame.columns)))
    return message_reply(frame, name, options or {}, terms_here(), note)


@algorithm_client
@_answering
@data(1)
def partial_labels(
    frame: Any, name: str, note: AskedNote, identity: str, digest: str, options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Label the rows of this node by the answer to its message, in the file that its operator named (KFED_LABELS)."""
    _check_header(list(map(str, frame.columns)))
    return labels_reply(frame, name, options or {}, terms_here(), note, identity, digest)


def _check_header(names: Sequence[str]) -> None:
    """Raise, without showing them, if what pandas took for the names of columns are the cells of a row."""
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise InvalidInputError(
            "the table has one column; vantage6 reads CSV files with commas and decimal points alone"
        )
    if any(_is_number(name) for name in names):
        raise InvalidInputError("the first line of the table must hold the names of the columns; it holds numbers")


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _names(client: Any, organizations: Sequence[int] | None, names: Mapping[str, str] | None) -> dict[int, str]:
    """The name of each organization that is to be asked."""
    there = {int(one["id"]): str(one["name"]) for one in client.organization.list()}
    wanted = list(there) if organizations is None else [int(id_) for id_ in organizations]
    unknown = [id_ for id_ in wanted if id_ not in there]
    if unknown:
        raise InvalidInputError(f"organizations must be of this collaboration; got {unknown}")
    given = {str(id_): str(name) for id_, name in (names or {}).items()}
    known = {id_: given.get(str(id_), there[id_]) for id_ in wanted}
    if len(set(known.values())) < len(known):
        raise InvalidInputError("organizations must have names that differ; use the argument names")
    return known


def _asked(
    client: Any, asks: Mapping[tuple[int, ...], dict[str, Any]], known: Mapping[int, str], patience: float
) -> Replies:
    """Create a task for each question, wait for all of them, and read the replies."""
    tasks = [_created(client, list(ids), ask) for ids, ask in asks.items()]
    states = _waited_for(client, tasks, len(known), patience)
    results = [result for task in tasks for result in client.result.from_task(task)]
    replies = Replies.read(results, known.values())
    ended = {id_: state for id_, state in states.items() if has_task_failed(state)}
    replies.missing(known.values(), {known[id_]: f"its run ended as {state!r}" for id_, state in ended.items()})
    return replies


def _created(client: Any, organizations: list[int], ask: dict[str, Any]) -> int:
    """Create a task; return its id."""
    task = client.task.create(input_=ask, organizations=organizations)
    if "id" not in task:
        raise EngineError(f"vantage6 did not create a task for organizations {organizations}: {task.get('msg')}")
    return int(task["id"])


def _waited_for(client: Any, tasks: Sequence[int], n_runs: int, patience: float) -> dict[int, str]:
    """Wait until every run has ended, but not for ever; return the state of each organization's run.

    The client's own `wait_for_results` does not end while a node is offline.
    """
    ends = time.monotonic() + patience
    while True:
        runs = [run for task in tasks for run in client.run.from_task(task)]
        states = {int(run["organization"]["id"]): str(run["status"]) for run in runs}
        left = ends - time.monotonic()
        if sum(map(has_task_finished, states.values())) >= n_runs or left <= 0:
            return states
        time.sleep(min(POLL_SECONDS, left))
