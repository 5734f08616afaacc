"""What a reply to a request means: it is taken, it is refused, or it is not from a coordinator."""

from __future__ import annotations

from typing import Any

import httpx

from kfed.coordinator.problems import MEDIA_TYPE
from kfed.errors import KFedError

NOT_SUCH_A_PATH = (404, 405, 501)
"""How other servers answer what only a coordinator has; any other refusal may be that of a proxy before one."""


class CoordinatorError(KFedError):
    """A coordinator refused a request, or could not be reached.

    Attributes
    ----------
    status : int or None
        Status of the answer, if there was one.
    was_lost : bool
        Whether an answer to an earlier attempt at the same request may have been lost.
    """

    def __init__(self, detail: str, status: int | None = None, *, was_lost: bool = False) -> None:
        super().__init__(detail)
        self.status = status
        self.was_lost = was_lost


def accepted(answer: httpx.Response, was_lost: bool) -> httpx.Response:
    """The answer, unless it is a refusal; then raises `CoordinatorError`."""
    if answer.is_success:
        return answer
    is_problem = answer.headers.get("content-type", "").startswith(MEDIA_TYPE)
    if answer.status_code in NOT_SUCH_A_PATH and not is_problem:
        raise CoordinatorError(_about_address(answer), answer.status_code, was_lost=was_lost)
    detail = f"the coordinator refused ({answer.status_code}): {detail_of(answer)}"
    raise CoordinatorError(detail, answer.status_code, was_lost=was_lost)


def json_of(answer: httpx.Response) -> Any:
    """What an answer says in JSON. Raises `CoordinatorError` if it is something else, such as a page of a website."""
    try:
        return answer.json()
    except ValueError:
        raise CoordinatorError(_about_address(answer), answer.status_code) from None


def detail_of(answer: httpx.Response) -> str:
    """The detail of the problem, without characters that would act on a terminal."""
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.reason_phrase
    return without_controls(detail)


def without_controls(text: str) -> str:
    """Text without characters that would act on a terminal."""
    return "".join(character if character.isprintable() else " " for character in text[:1000])


def _about_address(answer: httpx.Response) -> str:
    asked = answer.request.url
    where = f"{asked.scheme}://{asked.netloc.decode()}"
    got = f"{answer.status_code} {answer.reason_phrase}".strip()
    return f"what answers at {where} is no kfed coordinator ({got} for {asked.path}); check the URL"
