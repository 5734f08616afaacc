"""`KfedFile`: how everything that is kept or sent becomes bytes and files, and what is checked when it comes back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Self

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

    KIND: ClassVar[str]
    VERSION: ClassVar[int] = 1
    MAX_BYTES: ClassVar[int] = files.MAX_BYTES
    """A larger file, or more bytes, are refused."""
    IS_PRIVATE: ClassVar[bool] = False
    """Whether its files may be read by their owner only."""

    def _parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """The arrays and the facts that `_restored` makes an equal value of."""
        raise NotImplementedError

    @classmethod
    def _restored(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> Self:
        """Check the parts and make a value of them; any `LookupError`, `TypeError` or `ValueError` is a refusal."""
        raise NotImplementedError

    def to_parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Named arrays and facts, with kind and version, for `from_parts`; a file may hold those of another value."""
        tensors, facts = self._parts()
        return tensors, {"kind": self.KIND, "version": self.VERSION, **facts}

    def to_bytes(self) -> bytes:
        """Everything, as safetensors; equal values give equal bytes."""
        return files.encode(*self.to_parts())

    @classmethod
    def from_bytes(cls, payload: bytes) -> Self:
        """Read what `to_bytes` wrote, trusting nothing in it. Raises `MessageError` if it is not valid."""
        cls._check_size(payload)
        return cls.from_parts(*files.decode(payload))

    @classmethod
    def _check_size(cls, payload: bytes) -> None:
        if len(payload) > cls.MAX_BYTES:
            raise MessageError(f"a kfed {cls.KIND} has at most {cls.MAX_BYTES:,} bytes; got {len(payload):,}")

    @classmethod
    def from_parts(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> Self:
        """Like `from_bytes`, from bytes that are already decoded."""
        files.check_kind(facts, cls.KIND, cls.VERSION)
        try:
            return cls._restored(tensors, facts)
        except (LookupError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
            raise MessageError(f"this {cls.KIND} is not valid: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file, whole or not at all."""
        files.write(path, self.to_bytes(), private=self.IS_PRIVATE)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read from a file; an error names the file."""
        return files.naming(path, lambda: cls.from_bytes(files.read(path, cls.MAX_BYTES)))


def load(path: str | os.PathLike[str], *expected: type[KfedFile]) -> Any:
    """Read a kfed file of one of the expected kinds; an error names the file, and says what it holds instead."""
    return files.naming(path, lambda: _one_of(expected, files.read(path)))


def _one_of(expected: tuple[type[KfedFile], ...], payload: bytes) -> Any:
    tensors, facts = files.decode(payload)
    kind = "message" if any(name.startswith("kfed") for name in tensors) else str(facts.get("kind"))
    for candidate in expected:
        if kind == candidate.KIND:
            candidate._check_size(payload)
            return candidate.from_parts(tensors, facts)
    if kind not in WRITERS:
        raise MessageError("this is not a kfed file")
    wanted = " or ".join(WRITERS[candidate.KIND] for candidate in expected)
    raise MessageError(f"this is {WRITERS[kind].partition(' (')[0]}; expected {wanted}")
