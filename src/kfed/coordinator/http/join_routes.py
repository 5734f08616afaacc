"""Routes of the page at `/join`: a site joins with nothing installed but a browser; see `coordinator/browser`."""

from __future__ import annotations

from functools import cache
from importlib import resources

from fastapi import FastAPI
from starlette.responses import Response

from kfed.coordinator.http.page_routes import POLICY
from kfed.coordinator.problems import ProblemError

FILES = {
    "join.html": "text/html; charset=utf-8",
    "join.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "worker.js": "text/javascript; charset=utf-8",
}

WORKER_POLICY = "default-src 'none'"
"""For the thread that reads rows: a worker has the policy that its script comes with; this one connects to nobody."""


def register(app: FastAPI) -> None:
    """Add the routes of this file."""
    app.get("/join", include_in_schema=False)(join)
    app.get("/join/{name}", include_in_schema=False)(join_file)


async def join() -> Response:
    """The page; it holds no data, and reads an invitation from its own address, behind the #."""
    return _file("join.html")


async def join_file(name: str) -> Response:
    """A file of the page."""
    if name not in FILES:
        raise ProblemError(404, "the page has no such file")
    return _file(name)


@cache
def _content(name: str) -> bytes:
    return resources.files("kfed.coordinator").joinpath("browser", "built", name).read_bytes()


def _file(name: str) -> Response:
    policy = WORKER_POLICY if name == "worker.js" else POLICY
    return Response(_content(name), media_type=FILES[name], headers={"Content-Security-Policy": policy})
