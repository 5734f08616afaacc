"""The coordinator as an ASGI application: routes, what comes before them, and what opens and closes with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from kfed._version import __version__
from kfed.coordinator import problems
from kfed.coordinator.core import Coordinator
from kfed.coordinator.http import admin_routes, device_routes, page_routes
from kfed.coordinator.http.responses import SECURITY_SCHEMES
from kfed.coordinator.http.rights import Desk
from kfed.coordinator.http.shield import Shield, as_problem
from kfed.coordinator.problems import ProblemError
from kfed.coordinator.store import Store
from kfed.errors import KFedError

MAX_BODY_BYTES = 2**24


@dataclass(frozen=True)
class Settings:
    """How a coordinator is run.

    Attributes
    ----------
    store : str
        A file for SQLite, or a ``postgresql://`` address.
    admin_token_hash : bytes
        What is kept of the admin token.
    open_to_loopback : bool
        Whether requests that name this machine as loopback may look at everything without a token.
    max_body_bytes : int
        A request with more than this is refused before it is read.
    """

    store: str
    admin_token_hash: bytes
    open_to_loopback: bool = False
    max_body_bytes: int = MAX_BODY_BYTES


def create_app(settings: Settings) -> FastAPI:
    """The application; the store is opened when it starts."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await coordinator.start()
        yield
        await coordinator.stop()
        store.close()

    store = Store(settings.store)
    coordinator = Coordinator(store)
    app = FastAPI(
        title="kfed coordinator",
        version=__version__,
        description="One-shot federated clustering: each device sends one message, whenever it can, and is answered.",
        lifespan=lifespan,
        telemetry={"tracing": False, "metrics": False, "logs": False},
        docs_url=None,
        redoc_url=None,
    )
    app.state.desk = Desk(coordinator, settings.admin_token_hash, settings.open_to_loopback)
    for module in (device_routes, admin_routes, page_routes):
        module.register(app)
    for kind in (KFedError, HTTPException, Exception):
        app.add_exception_handler(kind, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    app.add_middleware(Shield, max_bytes=settings.max_body_bytes, measures=coordinator.measures)
    _describe(app)
    return app


async def _refuse(_: Request, error: Exception) -> Response:
    return _response(as_problem(error))


async def _refuse_invalid(_: Request, error: Exception) -> Response:
    """Say where in the request something is wrong, without repeating what stands there."""
    assert isinstance(error, RequestValidationError)
    faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()[:5]]
    return _response(ProblemError(422, "; ".join(faults)))


def _response(problem: ProblemError) -> Response:
    return Response(problem.to_bytes(), problem.status, problem.headers, problems.MEDIA_TYPE)


def _describe(app: FastAPI) -> None:
    """Add the three rights to the OpenAPI document."""
    made = app.openapi

    def described() -> dict[str, Any]:
        document = made()
        document.setdefault("components", {})["securitySchemes"] = SECURITY_SCHEMES
        return document

    app.openapi = described  # type: ignore[method-assign]
