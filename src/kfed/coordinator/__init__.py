"""The central server as a service, and the device that talks to it: ``kfed serve`` and ``kfed join``.

::

    client.py ══ message ══> app.py ──> service.py ──> commits.py ──> store.py      on disk, then acknowledged
              <══ identity ══            │   clusters.py <── aggregator.py <── gather.py <── store.py
                                         └──> events.py, picture.py ──> page/       what the live page shows

`app` knows HTTP and nothing else; `service` is what a coordinator does; `federation` holds its rules as pure functions;
only `store` knows SQL. Everything here takes the extra ``kfed[coordinator]``.
"""

from importlib.util import find_spec

from kfed.errors import MissingExtraError

for _needed in ("fastapi", "httpx", "prometheus_client", "sqlalchemy", "uvicorn"):
    if find_spec(_needed) is None:
        raise MissingExtraError(
            f"the coordinator needs {_needed}, which is not installed; pip install 'kfed[coordinator]'"
        )
