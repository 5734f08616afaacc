"""The coordinator as an ASGI application: its routes, its error handlers, and the store that opens with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute

from kfed._version import __version__
from kfed.coordinator import problems
from kfed.coordinator.core import Coordinator
from kfed.coordinator.federation import NAME_IN_WORDS
from kfed.coordinator.http import admin_routes, device_routes, join_routes, page_routes, result_routes, second_routes
from kfed.coordinator.http.audit import Audit
from kfed.coordinator.http.hosts import LOOPBACK_NAMES, HostNames
from kfed.coordinator.http.pictures import Pictures
from kfed.coordinator.http.readiness import Readiness
from kfed.coordinator.http.refusals import as_answered
from kfed.coordinator.http.responses import SECURITY_SCHEMES
from kfed.coordinator.http.results import ClusterResults
from kfed.coordinator.http.rights import Desk, GuardedRoute, is_admin
from kfed.coordinator.http.shield import Shield, as_problem
from kfed.coordinator.problems import ProblemError
from kfed.coordinator.store import Store
from kfed.errors import KFedError

MAX_BODY_BYTES = 2**24
_NO_PAGES: dict[str, Any] = {"docs_url": None, "redoc_url": None, "openapi_url": None}  # kfed has its own


@dataclass(frozen=True)
class ServiceSettings:
    """How a coordinator is run.

    Attributes
    ----------
    store : str
        A file for SQLite, or a ``postgresql://`` address.
    admin_token_hash : bytes
        Hash of the admin token.
    open_to_loopback : bool
        Whether requests that come from this machine, and not through a proxy, may watch without a token.
    max_body_bytes : int
        Largest body of a request.
    host_names : HostNames
        What the coordinator answers to.
    """

    store: str
    admin_token_hash: bytes
    open_to_loopback: bool = False
    max_body_bytes: int = MAX_BODY_BYTES
    host_names: HostNames = LOOPBACK_NAMES


def create_app(settings: ServiceSettings) -> FastAPI:
    """The application. It opens the store at once, and closes it when it stops."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await coordinator.start()
        yield
        pictures.close()
        results.close()
        readiness.close()
        await coordinator.stop()
        store.close()

    store = Store(settings.store)
    coordinator = Coordinator(store)
    app = FastAPI(
        title="kfed coordinator",
        version=__version__,
        description="One-shot federated clustering: each device sends one message and is told its clusters.",
        lifespan=lifespan,
        routes=[*_routes()],
        telemetry={"tracing": False, "metrics": False, "logs": False},
        **_NO_PAGES,
    )
    pictures, results, readiness = Pictures(coordinator), ClusterResults(coordinator), Readiness(store)
    shown = (pictures, results, readiness)
    app.state.desk = Desk(coordinator, settings.admin_token_hash, settings.open_to_loopback, *shown)
    for kind in (KFedError, HTTPException, Exception):
        app.add_exception_handler(kind, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    app.add_middleware(
        Shield, names=settings.host_names, max_bytes=settings.max_body_bytes, measures=coordinator.measures
    )
    app.add_middleware(Audit, measures=coordinator.measures, admin_token_hash=settings.admin_token_hash)
    _describe(app)
    return app


@cache
def _routes() -> list[BaseRoute]:
    """All routes. They find the coordinator in the request, so the applications of a process share them."""
    app = FastAPI(**_NO_PAGES)
    app.router.route_class = GuardedRoute
    for module in (device_routes, second_routes, admin_routes, result_routes, page_routes, join_routes):
        module.register(app)
    return app.routes


async def _refuse(request: Request, error: Exception) -> Response:
    problem = as_problem(error)
    return _response(problem if is_admin(request) else problem.for_device())


async def _refuse_invalid(_: Request, error: Exception) -> Response:
    """Say where in the request the faults are, without repeating its values."""
    assert isinstance(error, RequestValidationError)
    return _response(ProblemError(422, "; ".join(map(_in_words, error.errors()[:5]))))


def _in_words(fault: dict[str, Any]) -> str:
    """One fault of a request."""
    place = [str(part) for part in fault["loc"] if part not in ("body", "path", "query")]
    if place == ["name"] and fault["type"] == "string_pattern_mismatch":
        return f"name must be {NAME_IN_WORDS}"
    return f"{'.'.join(place) or 'the request'}: {fault['msg']}"


def _response(problem: ProblemError) -> Response:
    return Response(problem.to_bytes(), problem.status, problem.headers, problems.MEDIA_TYPE)


def _describe(app: FastAPI) -> None:
    """Add the three rights to the OpenAPI document, and let it list the errors that calls have."""
    made = app.openapi

    def described() -> dict[str, Any]:
        document = as_answered(made())
        document.setdefault("components", {})["securitySchemes"] = SECURITY_SCHEMES
        return document

    app.openapi = described  # type: ignore[method-assign]
