"""pyarrow, which is an extra: imported where a table needs it."""

from __future__ import annotations

import sys
from typing import Any

from kfed.errors import MissingExtraError


def arrow() -> Any:
    """The module pyarrow."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError("this kind of table needs pyarrow: pip install 'kfed[parquet]'") from error
    return pyarrow


def release() -> None:
    """Give memory that pyarrow no longer uses back to the system, if it was used at all."""
    if (module := sys.modules.get("pyarrow")) is not None:
        module.default_memory_pool().release_unused()
