"""What browsers get: files of this package with their media type and policy, and pages, which share one head."""

from __future__ import annotations

from functools import cache
from importlib import resources

from starlette.responses import Response

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def page(path: str) -> Response:
    """A page: the head that all pages share, and the file, which begins with its title."""
    return _response(_content("page/head.html") + _content(path), "html", POLICY)


def asset(path: str, policy: str = POLICY) -> Response:
    """A file as it is."""
    return _response(_content(path), path.rpartition(".")[2], policy)


@cache
def _content(path: str) -> bytes:
    return resources.files("kfed.coordinator").joinpath(path).read_bytes()


def _response(body: bytes, suffix: str, policy: str) -> Response:
    return Response(body, media_type=MEDIA_TYPES[suffix], headers={"Content-Security-Policy": policy})
