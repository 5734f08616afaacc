"""Routes of the live page, and of monitoring: health and metrics."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response, StreamingResponse

from kfed.coordinator.core import METRICS_MEDIA_TYPE, Coordinator
from kfed.coordinator.http import assets, rights
from kfed.coordinator.http.admin_routes import PATH
from kfed.coordinator.http.picture import FederationPicture
from kfed.coordinator.http.refusals import FEDERATION, STORE, TOKEN, refusals
from kfed.coordinator.http.responses import ADMIN
from kfed.coordinator.http.state import shown
from kfed.coordinator.problems import ProblemError

ASSETS = {
    "style.css",
    "icon.svg",
    *(f"{module}.js" for module in ("page", "api", "dom", "admin", "results", "charts", "docs")),
}

_METRICS = {"description": "Prometheus text", "content": {"text/plain": {"schema": {"type": "string"}}}}
_PICTURE = {"description": "What the page draws", "model": FederationPicture}


def register(app: FastAPI) -> None:
    """Add the routes of this file."""
    app.get("/", include_in_schema=False)(page)
    app.get("/docs", include_in_schema=False)(docs)
    app.get("/openapi.json", include_in_schema=False)(openapi)
    app.get("/assets/{name}", include_in_schema=False)(asset)
    app.get("/v1/events", include_in_schema=False)(events)
    app.post("/v1/views", include_in_schema=False)(view)
    app.get("/healthz", tags=["health"], responses=_probed("the coordinator hangs"))(health)
    app.get("/readyz", tags=["health"], responses=_probed("the store cannot be written"))(ready)
    about: dict[str, Any] = {"response_class": Response, "responses": {**refusals(TOKEN), 200: _METRICS}}
    refused = refusals(TOKEN, FEDERATION, STORE)
    drawn: dict[str, Any] = {"response_class": Response, "responses": {**refused, 200: _PICTURE}}
    app.get("/metrics", tags=["health"], **about, openapi_extra=ADMIN)(metrics)
    app.get(f"{PATH}/{{name}}/picture", tags=["page"], **drawn, openapi_extra=ADMIN)(picture)


def _probed(why: str) -> dict[int | str, dict[str, Any]]:
    """What a probe of a load balancer can get, which may ask by any name."""
    return {status: answer for status, answer in refusals({503: why}).items() if status != 421}


async def page() -> Response:
    """The page; it holds no data, and asks for a token if one is required."""
    return assets.page("page/index.html")


async def docs() -> Response:
    """The OpenAPI document, for people to read."""
    return assets.page("page/docs.html")


async def openapi(request: Request) -> Response:
    """The OpenAPI document, encoded once."""
    state = request.app.state
    if not hasattr(state, "openapi"):
        state.openapi = json.dumps(request.app.openapi()).encode()
    return Response(state.openapi, media_type="application/json")


async def asset(name: str) -> Response:
    """A file of the page."""
    if name not in ASSETS:
        raise ProblemError(404, "the page has no such file")
    return assets.asset(f"page/{name}")


async def health() -> dict[str, str]:
    """Whether the coordinator runs. It waits for nothing; whether its store works is `/readyz`."""
    return {"status": "ok"}


async def ready(request: Request) -> dict[str, str]:
    """Whether the store can be written."""
    await rights.desk(request).readiness.check()
    return {"status": "ready"}


async def view(request: Request) -> dict[str, str]:
    """A token for watching, in exchange for the code of a link that `kfed serve` printed."""
    return {"token": rights.exchange(request)}


async def metrics(request: Request) -> Response:
    """Metrics for Prometheus."""
    rights.look(request)
    coordinator = rights.desk(request).coordinator
    tallies = {live.federation.name: coordinator.tally(live) for live in coordinator.all()}
    sizes = {name: (tally.n_devices, tally.n_centers) for name, tally in tallies.items()}
    return Response(coordinator.measures.text(sizes), media_type=METRICS_MEDIA_TYPE)


async def picture(request: Request, name: str) -> Response:
    """What the page draws of a federation: its newest devices, and their centers in two dimensions."""
    rights.look(request)
    drawn = await rights.desk(request).pictures.of(rights.known(request, name))
    return Response(drawn, media_type="application/json")


async def events(request: Request) -> Response:
    """Server-sent events: the state of each federation, at first and whenever it changes."""
    rights.look(request)
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(_stream(request), media_type="text/event-stream", headers=headers)


async def _stream(request: Request) -> AsyncIterator[str]:
    coordinator = rights.desk(request).coordinator
    with coordinator.events.watch() as changes:
        yield "retry: 1000\n\n"
        yield _told(coordinator, {live.federation.name for live in coordinator.all()})
        async for names in changes:
            yield _told(coordinator, names)


def _told(coordinator: Coordinator, names: set[str]) -> str:
    """The events of these federations as they are now, or a sign of life if there are none."""
    events = []
    for name in sorted(names):
        live = coordinator.find(name)
        kind = "gone" if live is None else "federation"
        state = {"name": name} if live is None else shown(coordinator, live).model_dump()
        events.append(f"event: {kind}\ndata: {json.dumps(state)}\n\n")
    return "".join(events) or ": still here\n\n"
