"""Bytes and files: safetensors encoded and decoded, and files written atomically."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError
from safetensors.numpy import load, save

from kfed._base.array import Array
from kfed.errors import KFedError, MessageError, OutputExistsError, VersionError

Loaded = TypeVar("Loaded")

MAX_BYTES = 2**30
"""Larger files are rejected before they are read."""

KINDS = (
    "message",
    "aggregation",
    "identity",
    "model",
    "local file",
    "local clustering",
    "clusters of a federation",
    "federated models",
    "training checkpoint",
)
"""What kfed writes. An error names one of these, and never what a file says of itself."""

_LETTERS = {"f": "F", "i": "I", "u": "U"}
_COMPACT_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def encode(arrays: Mapping[str, Array], facts: Mapping[str, Any] | None = None) -> bytes:
    """Pack named arrays and a few facts about them as safetensors; the same input gives the same bytes."""
    return bytes(save(dict(arrays), metadata=_metadata(facts)))


def encode_tables(tables: Mapping[str, Array], facts: Mapping[str, Any] | None = None) -> bytes:
    """Pack named arrays as `encode` does, into bytes that do not depend on the version of safetensors."""
    ordered = list(tables.items())
    if len(ordered) > 1:
        ordered.sort(key=lambda item: (-item[1].itemsize, item[0]))  # wide numbers first: all are aligned
    entries: dict[str, Any] = {"__metadata__": _metadata(facts)} if facts else {}
    values, end = [], 0
    for name, table in ordered:
        begin, end = end, end + table.nbytes
        dtype = f"{_LETTERS[table.dtype.kind]}{8 * table.itemsize}"
        entries[name] = {"dtype": dtype, "shape": table.shape, "data_offsets": (begin, end)}
        values.append(table.astype(table.dtype.newbyteorder("<"), copy=False).tobytes())
    header = _COMPACT_JSON.encode(entries).encode()
    header += b" " * (-len(header) % 8)
    return b"".join((len(header).to_bytes(8, "little"), header, *values))


def _metadata(facts: Mapping[str, Any] | None) -> dict[str, str] | None:
    return {"kfed": json.dumps(facts, sort_keys=True)} if facts else None


def decode(payload: bytes) -> tuple[dict[str, Array], dict[str, Any]]:
    """Unpack what `encode` packed; raise `MessageError` on anything else.

    No code in the bytes is run, and safetensors checks that shapes fit the bytes before it allocates memory.
    """
    try:
        arrays = load(payload)
        header = payload[8 : 8 + int.from_bytes(payload[:8], "little")]
        has_facts = b"__metadata__" in header
        facts = json.loads(json.loads(header).get("__metadata__", {}).get("kfed", "{}")) if has_facts else {}
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise MessageError(
            "these bytes are not a kfed file, or not a complete one; ask the sender to send it again"
        ) from error
    return arrays, facts if isinstance(facts, dict) else {}


def check_kind(facts: Mapping[str, Any], kind: str, version: int) -> None:
    """Raise unless `facts` name this kind and version."""
    found = facts.get("kind")
    if found != kind:
        got = f"a kfed {found}" if found in KINDS else "bytes of unknown kind"
        raise MessageError(f"expected a kfed {kind}; got {got}")
    if facts.get("version") != version:
        raise VersionError(
            f"this {kind} has {_format_version(facts.get('version'))}; this kfed reads version {version}: "
            "upgrade kfed, or use the version that wrote the file"
        )


def _format_version(found: object) -> str:
    return f"format version {found}" if isinstance(found, int) and 0 <= found < 1000 else "no known format version"


def read(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> bytes:
    """Read a file, or raise if it is too large to be a kfed file."""
    size = Path(path).stat().st_size
    if size > max_bytes:
        raise MessageError(f"a kfed file of this kind has at most {max_bytes:,} bytes; got {size:,}")
    return Path(path).read_bytes()


def naming(path: str | os.PathLike[str], load_it: Callable[[], Loaded]) -> Loaded:
    """Call `load_it`, and put the path in front of any `MessageError`."""
    try:
        return load_it()
    except MessageError as error:
        raise type(error)(f"{os.fspath(path)}: {error}") from error


@contextmanager
def about(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let an error from within name the file that it is about."""
    try:
        yield
    except KFedError as error:
        raise type(error)(f"{os.fspath(path)}: {error}") from error


def reason_of(error: Exception) -> str:
    """Describe an error in one sentence that names the file."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {(error.strerror or type(error).__name__).lower()}"
    return str(error)


def write(path: str | os.PathLike[str], payload: bytes, *, overwrite: bool = True, private: bool = False) -> None:
    """Write a file atomically; `private` files can be read by their owner only."""
    target = Path(path)
    if not overwrite:
        check_free(target)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        if not private:
            os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_both(kept: tuple[Any, bytes], sent: tuple[Any, bytes], *, overwrite: bool = True) -> None:
    """Write two files, each given as (path, payload); the first is private. If one fails, leave both as they were."""
    path, payload = kept
    before = Path(path).read_bytes() if os.path.exists(path) else None
    write(path, payload, overwrite=overwrite, private=True)
    try:
        write(*sent, overwrite=overwrite)
    except BaseException:
        if before is None:
            Path(path).unlink(missing_ok=True)
        else:
            write(path, before, private=True)
        raise


def check_free(path: str | os.PathLike[str]) -> None:
    """Raise if a file exists at `path`."""
    if Path(path).exists():
        raise OutputExistsError(f"{path} exists already; choose another name, or pass --force to overwrite it")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
