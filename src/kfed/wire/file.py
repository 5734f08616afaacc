"""`KfedFile`: how everything that is kept or sent becomes bytes and files, and what is checked when it comes back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar

from kfed._base import files
from kfed._base.array import Array
from kfed.errors import MessageError

WRITERS = {
    "message": "a message (from `kfed device`)",
    "aggregation": "an aggregation (from `kfed aggregate`)",
    "identity": "an identity (from `kfed aggregate --identities` or `kfed assign -o`)",
    "model": "a model (from `kfed export`)",
    "local file": "a local file (from `kfed device`, kept at the site)",
}
"""The kinds of files that people handle, and where they come from."""


class KfedFile:
    """A frozen value that is saved as named arrays and a few facts, and checked when it is read."""

    _kind: ClassVar[str]
    _version: ClassVar[int] = 1
    _max_bytes: ClassVar[int] = files.MAX_BYTES
    """A larger file, or more bytes, are refused."""
    _is_private: ClassVar[bool] = False
    """Whether its files may be read by their owner only."""

    def _parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """The arrays and the facts that `_restored` makes an equal value of."""
        raise NotImplementedError

    @classmethod
    def _restored(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> Self:
        """Check the parts and make a value of them; an error that bad parts cause is a refusal, see `_from_parts`."""
        raise NotImplementedError

    @classmethod
    def _from_parts(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> Self:
        """See `from_parts`; classes that read older versions translate those first."""
        files.check_kind(facts, cls._kind, cls._version)
        try:
            return cls._restored(tensors, facts)
        except (LookupError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
            raise MessageError(f"this {cls._kind} is not valid: {error}") from error

    @classmethod
    def _check_size(cls, payload: bytes) -> None:
        if len(payload) > cls._max_bytes:
            raise MessageError(f"a kfed {cls._kind} has at most {cls._max_bytes:,} bytes; got {len(payload):,}")

    def to_bytes(self) -> bytes:
        """Everything, as safetensors; equal values give equal bytes."""
        return files.encode(*to_parts(self))

    @classmethod
    def from_bytes(cls, payload: bytes) -> Self:
        """Read what `to_bytes` wrote, trusting nothing in it. Raises `MessageError` if it is not valid."""
        cls._check_size(payload)
        return from_parts(cls, *files.decode(payload))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file, whole or not at all."""
        files.write(path, self.to_bytes(), private=self._is_private)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read from a file; an error names the file."""
        return files.naming(path, lambda: cls.from_bytes(files.read(path, cls._max_bytes)))


Saved = TypeVar("Saved", bound=KfedFile)


def kind_of(saved: type[KfedFile]) -> str:
    """What files of this class are called."""
    return saved._kind


def to_parts(value: KfedFile) -> tuple[dict[str, Array], dict[str, Any]]:
    """Named arrays and facts, with kind and version, for `from_parts`; a file may hold those of another value."""
    tensors, facts = value._parts()
    return tensors, {"kind": value._kind, "version": value._version, **facts}


def from_parts(saved: type[Saved], tensors: dict[str, Array], facts: Mapping[str, Any]) -> Saved:
    """Like `from_bytes` of the class, from bytes that are already decoded."""
    return saved._from_parts(tensors, facts)


def load(path: str | os.PathLike[str], *expected: type[KfedFile]) -> Any:
    """Read a kfed file of one of the expected kinds; an error names the file, and says what it holds instead."""
    most = max(candidate._max_bytes for candidate in expected)
    return files.naming(path, lambda: _one_of(expected, files.read(path, most)))


def _one_of(expected: tuple[type[KfedFile], ...], payload: bytes) -> Any:
    *others, last = (WRITERS.get(candidate._kind, f"a {candidate._kind}") for candidate in expected)
    wanted = f"{', '.join(others)} or {last}" if others else last
    try:
        tensors, facts = files.decode(payload)
    except MessageError as error:
        raise MessageError(f"this is not a kfed file, or not a complete one; expected {wanted}") from error
    kind = "message" if any(name.startswith("kfed") for name in tensors) else str(facts.get("kind"))
    for candidate in expected:
        if kind == candidate._kind:
            candidate._check_size(payload)
            return from_parts(candidate, tensors, facts)
    found = WRITERS.get(kind, f"a {kind}").partition(" (")[0] if kind in files.KINDS else "not a kfed file"
    raise MessageError(f"this is {found}; expected {wanted}")
