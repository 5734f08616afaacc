"""Routes about the clusters: how many there should be, what they are, their names, and files to take home."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from starlette.responses import Response

from kfed.coordinator.core import Live
from kfed.coordinator.http import rights
from kfed.coordinator.http.admin_routes import PATH, state_with_names
from kfed.coordinator.http.refusals import FEDERATION, INVALID, NO_CLUSTERS, STORE, TOKEN, refusals
from kfed.coordinator.http.responses import ADMIN
from kfed.coordinator.http.result_schemas import ComparisonAnswer, KRange, NewNames, ResultAnswer, RightsAnswer
from kfed.coordinator.http.state import FederationState
from kfed.coordinator.names import BYTES
from kfed.coordinator.problems import ProblemError
from kfed.errors import InvalidInputError
from kfed.insight import check_names

DOWNLOADS = {
    "aggregation": (BYTES, "clusters.kfed", "The bytes of a `kfed.Aggregation`, for `kfed label` and `kfed report`"),
    "report": ("text/html; charset=utf-8", "report.html", "One page that loads nothing else, as `kfed report --html`"),
    "centers": ("text/csv; charset=utf-8", "centers.csv", "Centers and profiles, as `kfed report --csv`"),
}
SANDBOX = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
"""A report needs its own style and pictures, and nothing else."""

_TOO_FEW = {409: "devices have sent fewer than three centers, or too many to compare in time"}
_TOO_EARLY = {409: f"still gathering devices; or {_TOO_FEW[409]}"}

Which = Annotated[str, Path(pattern="^(aggregation|report|centers)$", description="aggregation, report or centers")]


def register(app: FastAPI) -> None:
    """Add the routes of this file."""
    about: dict[str, Any] = {"tags": ["clusters"], "openapi_extra": ADMIN, "response_class": Response}
    of_one = (TOKEN, FEDERATION, STORE)
    compared: dict[int | str, dict[str, Any]] = {200: {"model": ComparisonAnswer}}
    seen, made = refusals(*of_one, _TOO_EARLY) | compared, refusals(*of_one, INVALID, _TOO_FEW) | compared
    shown = refusals(*of_one, NO_CLUSTERS)
    app.get("/v1/admin", tags=["federations"], responses=refusals(TOKEN), openapi_extra=ADMIN)(check_admin)
    app.get(f"{PATH}/{{name}}/comparison", **about, responses=seen)(show_comparison)
    app.post(f"{PATH}/{{name}}/comparison", **about, responses=made)(compare_numbers)
    app.get(f"{PATH}/{{name}}/result", **about, responses={**shown, 200: {"model": ResultAnswer}})(show_result)
    files = {
        media.partition(";")[0]: {"schema": {"type": "string", "format": "binary"}} for media, *_ in DOWNLOADS.values()
    }
    taken = {"description": "; ".join(what for *_, what in DOWNLOADS.values()), "content": files}
    downloaded = {**refusals(*of_one, INVALID, NO_CLUSTERS), 200: taken}
    app.get(f"{PATH}/{{name}}/download/{{which}}", **about, responses=downloaded)(download)
    named = refusals(*of_one, INVALID)
    app.put(f"{PATH}/{{name}}/cluster-names", tags=["clusters"], responses=named, openapi_extra=ADMIN)(name_clusters)


async def check_admin(request: Request) -> RightsAnswer:
    """Check an admin token, as the page does when somebody signs in."""
    rights.require_admin(request)
    return RightsAnswer()


async def show_comparison(request: Request, name: str) -> Response:
    """Compare numbers of clusters, k, by what devices sent: which one stands out, and how stable clusters are.

    It is computed once everybody has joined: at the quorum, when the federation is closed or aggregated, or when the
    administrator has asked for it.
    """
    rights.look(request)
    live, desk = rights.known(request, name), rights.desk(request)
    live.check()
    if not _is_everybody_there(live, desk.coordinator.tally(live).n_devices) and not desk.results.has_compared(live):
        raise ProblemError(409, "still gathering devices; only the administrator can compare numbers of clusters now")
    return Response(await desk.results.comparison(live, None), media_type="application/json")


async def compare_numbers(request: Request, name: str, which: KRange | None = None) -> Response:
    """Compare these numbers of clusters now, with all devices that have joined."""
    live = rights.administer(request, name)
    asked = which or KRange()
    if asked.last < asked.first:
        raise ProblemError(422, f"last must be at least {asked.first}; got {asked.last}")
    found = await rights.desk(request).results.comparison(live, (asked.first, asked.last))
    return Response(found, media_type="application/json")


async def show_result(request: Request, name: str) -> Response:
    """What the clusters are: size, devices, profile and name of each, as `kfed report` tells it."""
    live = rights.administer(request, name)
    return Response(await rights.desk(request).results.rendered(live, "result"), media_type="application/json")


async def download(request: Request, name: str, which: Which) -> Response:
    """Download the aggregation, its report as a page, or the centers and profiles as CSV."""
    live = rights.administer(request, name)
    media, file, _ = DOWNLOADS[which]
    payload = await rights.desk(request).results.rendered(live, which)
    attached = {"Content-Disposition": f'attachment; filename="{name}-{file}"', "Content-Security-Policy": SANDBOX}
    return Response(payload, 200, attached, media)


async def name_clusters(request: Request, name: str, names: NewNames) -> FederationState:
    """Name clusters by their numbers; an empty name takes it away. A cluster keeps its name as long as its number."""
    live = rights.administer(request, name)
    n_clusters = 0 if live.clusters is None else live.clusters.n_clusters
    unknown = [cluster for cluster in names.names if cluster >= n_clusters]
    if unknown:
        known = f"the last one is {n_clusters - 1}" if n_clusters else "there are no clusters yet"
        raise ProblemError(422, f"there is no cluster {unknown[0]}; {known}")
    administration = rights.desk(request).coordinator.administration
    await administration.name_clusters(live, names.names, partial(_check_names, n_clusters))
    return await state_with_names(request, live)


def _check_names(n_clusters: int, names: Mapping[int, str], known: Mapping[int, str]) -> None:
    try:
        check_names(names, {cluster: name for cluster, name in known.items() if cluster < n_clusters})
    except InvalidInputError as error:
        raise ProblemError(422, str(error)) from error


def _is_everybody_there(live: Live, n_devices: int) -> bool:
    quorum = live.federation.quorum
    return live.clusters is not None or live.federation.closed or (quorum is not None and n_devices >= quorum)
