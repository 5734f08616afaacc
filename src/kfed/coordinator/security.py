"""Tokens: random, stored as hashes, compared in constant time.

Three rights are three different secrets. The *admin token* creates and closes federations, the *join token* of one lets
a device send its message, and a *device secret*, which the device itself chooses, lets it replace or remove that
message. An *invitation* is a join token for one device, and works once. Tokens are long and random and cannot be
guessed, so one round of SHA-256 is enough.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from kfed.errors import InvalidInputError

MIN_LENGTH = 20
MAX_LENGTH = 200


def new_token() -> str:
    """A token of 192 random bits."""
    return secrets.token_urlsafe(24)


def derived_token(admin_token: str, name: str, key: str) -> str:
    """The join token of a federation that was created with an idempotency key.

    The same request gives the same token, so that one whose response was lost can be repeated. Only who has the admin
    token can derive it.

    Examples
    --------
    >>> first = derived_token("an admin token", "clinics", "key-1")
    >>> first == derived_token("an admin token", "clinics", "key-1"), len(first) == len(new_token())
    (True, True)
    """
    digest = hmac.digest(admin_token.encode(), f"kfed join token\n{name}\n{key}".encode(), "sha256")
    return base64.urlsafe_b64encode(digest[:24]).decode()


def hashed(token: str) -> bytes:
    """The hash of a token, which is what is stored."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def matches(token: str | None, kept: bytes | None) -> bool:
    """Whether `kept` is the hash of this token, in constant time.

    Examples
    --------
    >>> kept = hashed("correct horse battery staple")
    >>> matches("correct horse battery staple", kept), matches("another", kept), matches(None, kept)
    (True, False, False)
    """
    return hmac.compare_digest(hashed(token or ""), kept or _NOBODY) and token is not None and kept is not None


def checked(token: str, name: str) -> str:
    """Return a token that somebody else chose. Raises unless it is long enough and printable."""
    if not MIN_LENGTH <= len(token) <= MAX_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInputError(
            f"{name} must be {MIN_LENGTH} to {MAX_LENGTH} printable ASCII characters without spaces; "
            f"got {len(token)} characters; let kfed make one"
        )
    return token


_NOBODY = hashed(new_token())
