"""Routes of the page at `/join`: a site joins with nothing installed but a browser; see `coordinator/browser`."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.responses import Response

from kfed.coordinator.http import assets
from kfed.coordinator.problems import ProblemError

FILES = {"join.css", "page.js", "worker.js"}

WORKER_POLICY = "default-src 'none'"
"""For the thread that reads rows: a worker has the policy that its script comes with; this one connects to nobody."""


def register(app: FastAPI) -> None:
    """Add the routes of this file."""
    app.get("/join", include_in_schema=False)(join)
    app.get("/join/{name}", include_in_schema=False)(join_file)


async def join() -> Response:
    """The page; it holds no data, and reads an invitation from its own address, behind the #."""
    return assets.page("browser/built/join.html")


async def join_file(name: str) -> Response:
    """A file of the page."""
    if name not in FILES:
        raise ProblemError(404, "the page has no such file")
    return assets.asset(f"browser/built/{name}", WORKER_POLICY if name == "worker.js" else assets.POLICY)
