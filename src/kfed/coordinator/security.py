"""Tokens: made at random, kept as hashes, compared in constant time.

Three rights are three different secrets. The *admin token* makes and closes federations, the *join token* of one lets a
device send its message, and a *device secret*, which the device itself makes up, lets it replace or remove that
message. Tokens are long and random, so one round of SHA-256 is enough: there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from kfed.errors import InvalidInputError

MIN_LENGTH = 20
MAX_LENGTH = 200


def new_token() -> str:
    """A token of 192 random bits."""
    return secrets.token_urlsafe(24)


def hashed(token: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def matches(token: str | None, kept: bytes | None) -> bool:
    """Whether this is the token of which `kept` was kept; takes as long whatever the answer.

    Examples
    --------
    >>> kept = hashed("correct horse battery staple")
    >>> matches("correct horse battery staple", kept), matches("another", kept), matches(None, kept)
    (True, False, False)
    """
    return hmac.compare_digest(hashed(token or ""), kept or _NOBODY) and token is not None and kept is not None


def checked(token: str, name: str) -> str:
    """A token that somebody else made, if it is one that cannot be guessed."""
    if not MIN_LENGTH <= len(token) <= MAX_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInputError(
            f"{name} must be {MIN_LENGTH} to {MAX_LENGTH} printable ASCII characters without spaces, "
            f"and has {len(token)}; let kfed make one"
        )
    return token


_NOBODY = hashed(new_token())
