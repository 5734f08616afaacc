"""The JSON that sites and servers of platforms exchange; messages and answers in it are text."""

from __future__ import annotations

import base64
import binascii
from typing import Any, TypeVar

from kfed.errors import MessageError
from kfed.wire import KfedFile, kind_of

ERROR, LABELLED, MESSAGE, SITE, WARNINGS = "error", "labelled", "message", "site", "warnings"
"""What a reply of a site may hold."""

Kind = TypeVar("Kind", bound=KfedFile)


def to_text(value: KfedFile) -> str:
    """A message, an identity or an aggregation as text."""
    return base64.b64encode(value.to_bytes()).decode("ascii")


def read_from_text(kind: type[Kind], text: Any) -> Kind:
    """Read what `to_text` wrote, trusting nothing in it."""
    if not isinstance(text, str):
        raise MessageError(f"expected a kfed {kind_of(kind)} as text; got a {type(text).__name__}")
    try:
        payload = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MessageError(f"expected a kfed {kind_of(kind)} as base64") from error
    return kind.from_bytes(payload)
