"""k-FED on NVIDIA FLARE: a controller for the server, an executor for every site, and the job of both.

KFedController   asks all sites for messages, aggregates them, and answers each
KFedExecutor     its table ──> a few centers; its answer ──> the label of each row, in a file that stays at the site

kfed_job("patients", n_clusters=4, options={"n_local_clusters": 2}).export_job("jobs")
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from kfed._base import checks, files
from kfed._base.text import plural
from kfed.adapters._platform_server import PlatformRound, Replies
from kfed.adapters._platform_site import labels_reply, message_reply, safe_reply, terms_here
from kfed.adapters._platform_words import read_from_text, to_text
from kfed.errors import InvalidInputError, KFedError, MissingExtraError
from kfed.server import DEFAULT, Aggregation

try:
    from nvflare.apis.client import Client
    from nvflare.apis.controller_spec import ClientTask, Task
    from nvflare.apis.executor import Executor
    from nvflare.apis.fl_constant import ReturnCode
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.impl.controller import Controller
    from nvflare.apis.job_def import ALL_SITES
    from nvflare.apis.shareable import Shareable, make_reply
    from nvflare.apis.signal import Signal
    from nvflare.job_config.api import FedJob
except ImportError as error:
    raise MissingExtraError("kfed.adapters.nvflare needs NVIDIA FLARE: pip install 'kfed[nvflare]'") from error

__all__ = ["KFedController", "KFedExecutor", "kfed_job"]

ASK_MESSAGE, ASK_LABELS = "kfed_message", "kfed_labels"
REPLY = "kfed"
POLL_SECONDS = 0.2


def kfed_job(
    name: str = "kfed",
    *,
    n_clusters: int | Literal["auto"] | None = None,
    rule: str = DEFAULT,
    min_devices: int | None = None,
    options: Mapping[str, Any] | None = None,
    clusters: str | os.PathLike[str] | None = None,
    sites: Sequence[str] | None = None,
    label: bool = True,
    patience: int = 3600,
) -> FedJob:
    """Make the job of one round, or of an answer to sites that were late.

    It holds no code: kfed is installed at the server and at the sites, whose operators allow the classes used here.

    Parameters
    ----------
    n_clusters, rule, min_devices
        As in `kfed.aggregate`; without a number, one is found.
    options : mapping, optional
        How sites cluster their tables, as the options of `kfed device`: n_local_clusters, columns, id_column, kinds,
        missing, schema, as_is, min_cluster_size, random_state, bits. What a site answers first, it is bound to.
    clusters : path, optional
        The ``clusters.kfed`` of an earlier job. Then nothing is aggregated: `sites` are answered by these clusters.
    sites : sequence of str, optional
        The sites to ask; by default all that are connected.
    label : bool
        Whether sites label their rows at once.
    patience : int
        Seconds to wait for sites, each time they are asked; the others can be answered later.
    """
    if clusters is not None and not sites:
        raise InvalidInputError("pass sites when clusters is given: the sites to answer")
    there = None if clusters is None else Path(clusters).name
    job = FedJob(name=name, min_clients=1)
    job.set_app_packages(["kfed"])
    job.to_server(KFedController(n_clusters, rule, min_devices, dict(options or {}), there, label, patience))
    if clusters is not None:
        Aggregation.load(clusters)
        job.add_file_to_server(os.fspath(clusters), app_folder_type="config")
    # Sites that are named get an app of their own; the app for all would tell each of them what the controller holds.
    for site in sites or [ALL_SITES]:
        job.to(KFedExecutor(), site, tasks=[ASK_MESSAGE, ASK_LABELS])
    return job


class KFedController(Controller):
    """Runs one round over the sites of a job; the results are in its folder at the server.

    ``clusters.kfed`` is the aggregation, for `kfed report`, `kfed diagnose` and `kfed assign`; ``kfed.json`` has the
    facts: n_clusters, cluster_sizes, rule, k_choice; ``warnings`` with code and text; ``sites``, with the codes of what
    each should look at in its table; ``failed``, with the reason of each; ``late``; ``labelled`` and ``unlabelled``.

    Parameters
    ----------
    n_clusters, rule, min_devices, options, label, patience
        As in `kfed_job`.
    clusters : str, optional
        The name of a file with an earlier aggregation, beside the configuration of the server's app.
    """

    def __init__(
        self,
        n_clusters: int | Literal["auto"] | None = None,
        rule: str = DEFAULT,
        min_devices: int | None = None,
        options: dict[str, Any] | None = None,
        clusters: str | None = None,
        label: bool = True,
        patience: int = 3600,
    ) -> None:
        super().__init__()
        self.n_clusters, self.rule, self.min_devices = n_clusters, rule, min_devices
        self.options, self.clusters, self.label = options, clusters, label
        self.patience = checks.positive_integer(patience, "patience")

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing: all is done in `control_flow`."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing: the results are on disk."""

    def process_result_of_unknown_task(
        self,
        client: Client,
        task_name: str,  # noqa: ARG002 - NVFlare's signature, as the next two
        client_task_id: str,  # noqa: ARG002
        result: Shareable,  # noqa: ARG002
        fl_ctx: FLContext,
    ) -> None:
        """Ignore a reply that comes too late; a later job can answer its site."""
        self.log_warning(fl_ctx, f"k-FED: {client.name} replied too late; answer it by another job with these clusters")

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Ask, aggregate, save, answer."""
        sites = [client.name for client in fl_ctx.get_engine().get_clients()]
        said = {"options": self.options or {}}
        try:
            found = self._found(self._asked(ASK_MESSAGE, dict.fromkeys(sites, said), abort_signal, fl_ctx), fl_ctx)
        except KFedError as error:
            self.system_panic(f"k-FED: {error}", fl_ctx)
            return
        for notice in found.notices:
            self.log_warning(fl_ctx, f"k-FED: {notice.code}: {notice.text}")
        self._save(found.facts(), fl_ctx)
        if self.label and not abort_signal.triggered:
            answers = {
                site: said | {"identity": to_text(identity), "digest": digest}
                for site, (identity, digest) in found.answers().items()
            }
            self._save(found.facts(self._asked(ASK_LABELS, answers, abort_signal, fl_ctx)), fl_ctx)

    def _found(self, replies: Replies, fl_ctx: FLContext) -> PlatformRound:
        if self.clusters is None:
            return PlatformRound.aggregated(replies, self.n_clusters, self.rule, self.min_devices)
        folder = Path(fl_ctx.get_engine().get_workspace().get_app_config_dir(fl_ctx.get_job_id()))
        return PlatformRound.answered(replies, Aggregation.load(folder / self.clusters))

    def _asked(
        self, task_name: str, said: Mapping[str, dict[str, Any]], abort_signal: Signal, fl_ctx: FLContext
    ) -> Replies:
        """Ask each site its own question; wait for all of them, but not for ever; and read the replies."""
        heard: dict[str, Any] = {}
        codes: dict[str, str] = {}

        def hear(client_task: ClientTask, fl_ctx: FLContext) -> None:  # noqa: ARG001 - NVFlare's signature
            site, result = client_task.client.name, client_task.result
            code = result.get_return_code(ReturnCode.OK)
            if code == ReturnCode.OK:
                heard[site] = result.get(REPLY)
            else:
                codes[site] = f"its executor failed: {code}"
            client_task.result = None

        tasks = [self._sent(task_name, site, asks, hear, fl_ctx) for site, asks in said.items()]
        while not abort_signal.triggered and any(task.completion_status is None for task in tasks):
            time.sleep(POLL_SECONDS)
        mine = [reply for site, reply in heard.items() if isinstance(reply, Mapping) and reply.get("site") == site]
        replies = Replies.read(mine, said)
        replies.missing(said, codes)
        for site, reason in sorted(replies.failed.items()):
            self.log_warning(fl_ctx, f"k-FED: {site} is left out: {reason}")
        return replies

    def _sent(self, task_name: str, site: str, said: dict[str, Any], hear: Any, fl_ctx: FLContext) -> Task:
        data = Shareable()
        data[REPLY] = said
        task = Task(task_name, data, timeout=self.patience, result_received_cb=hear)
        self.send(task, fl_ctx, targets=[site])
        return task

    def _save(self, facts: dict[str, Any], fl_ctx: FLContext) -> None:
        """Write the aggregation and the facts into the folder of this job."""
        folder = Path(fl_ctx.get_engine().get_workspace().get_run_dir(fl_ctx.get_job_id()))
        read_from_text(Aggregation, facts.pop("clusters")).save(folder / "clusters.kfed")
        files.write(folder / "kfed.json", json.dumps(facts, indent=2).encode())
        n_sites, n_clusters = plural(len(facts["sites"]), "site"), plural(facts["n_clusters"], "cluster")
        self.log_info(fl_ctx, f"k-FED: {n_sites} in {n_clusters}, see {folder}")


class KFedExecutor(Executor):
    """Clusters the table of its site and labels its rows; the operator of the site says which table (KFED_TABLE)."""

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:  # noqa: ARG002
        """Reply to a task of `KFedController`."""
        said = shareable.get(REPLY)
        if task_name not in (ASK_MESSAGE, ASK_LABELS) or not isinstance(said, Mapping):
            return make_reply(ReturnCode.TASK_UNKNOWN)
        site = fl_ctx.get_identity_name()
        reply = safe_reply(site, lambda: _reply(task_name, site, said))
        if "error" in reply:
            self.log_warning(fl_ctx, f"k-FED: this site took no part: {reply['error']}")
        shareable = make_reply(ReturnCode.OK)
        shareable[REPLY] = reply
        return shareable


def _reply(task_name: str, site: str, said: Mapping[str, Any]) -> dict[str, Any]:
    terms = terms_here()
    table, options = terms.path("table", site), said.get("options") or {}
    if not table.is_file():
        raise InvalidInputError("the table that KFED_TABLE names is not there")
    note = terms.note(table.name, table.parent)
    if task_name == ASK_MESSAGE:
        return message_reply(table, site, options, terms, note)
    return labels_reply(table, site, options, terms, note, said.get("identity"), str(said.get("digest")))
