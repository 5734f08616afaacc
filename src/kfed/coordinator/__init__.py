"""The central server as a service, and the device that talks to it: ``kfed serve`` and ``kfed join``.

::

    client.py ══ message ══> app.py ──> service.py ──> commits.py ──> store.py      on disk, then acknowledged
              <══ identity ══            │   clusters.py <── aggregator.py <── gather.py <── store.py
                                         └──> events.py, picture.py ──> page/       what the live page shows

`app` knows HTTP and nothing else; `service` is what a coordinator does; `federation` holds its rules as pure functions;
only `store` knows SQL. Everything here takes the extra ``kfed[coordinator]``.
"""

from kfed.errors import MissingExtraError

try:
    import fastapi  # noqa: F401
    import httpx  # noqa: F401
    import sqlalchemy  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as error:  # pragma: no cover
    raise MissingExtraError(
        f"the coordinator needs {error.name}, which is not installed; pip install 'kfed[coordinator]'"
    ) from error
