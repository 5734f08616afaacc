"""The version of a store's tables, and the steps from one to the next.

A store of an older version is brought up to date when it is opened, one step in each transaction. A store of a newer
version is left alone. Steps are plain SQL, and stay as they are when tables change again.
"""

from __future__ import annotations

from sqlalchemy import Connection, Engine, inspect, select, text

from kfed.coordinator.store.counters import SCHEMA, set_counter
from kfed.coordinator.store.schema import counters, metadata, writing_connection
from kfed.errors import InvalidInputError

_STEPS = {
    2: ["CREATE TABLE kfed_counters (name VARCHAR(40) NOT NULL PRIMARY KEY, value BIGINT NOT NULL)"],
    3: [
        "ALTER TABLE kfed_federations ADD COLUMN invited_only BOOLEAN NOT NULL DEFAULT FALSE",
        "CREATE TABLE kfed_invitations (federation_id INTEGER NOT NULL, device_id VARCHAR(200) NOT NULL, "
        "token_hash {bytes} NOT NULL, created_at FLOAT(53) NOT NULL, used_at FLOAT(53), "
        "PRIMARY KEY (federation_id, device_id))",
    ],
    4: [
        "ALTER TABLE kfed_federations ADD COLUMN max_count FLOAT(53)",
        "ALTER TABLE kfed_federations ADD COLUMN max_value FLOAT(53)",
        "ALTER TABLE kfed_federations ADD COLUMN min_devices INTEGER",
    ],
    5: ["ALTER TABLE kfed_federations ADD COLUMN max_epsilon FLOAT(53)"],
    6: ["ALTER TABLE kfed_federations ADD COLUMN by_column BOOLEAN NOT NULL DEFAULT FALSE"],
    7: ["ALTER TABLE kfed_federations ADD COLUMN min_devices_shown INTEGER NOT NULL DEFAULT 3"],
    8: [
        "ALTER TABLE kfed_federations ADD COLUMN rounds INTEGER NOT NULL DEFAULT 1",
        "CREATE TABLE kfed_second_messages (federation_id INTEGER NOT NULL, device_id VARCHAR(200) NOT NULL, "
        "version INTEGER NOT NULL, message {bytes} NOT NULL, PRIMARY KEY (federation_id, device_id))",
        "CREATE TABLE kfed_cluster_names (federation_id INTEGER NOT NULL, cluster INTEGER NOT NULL, "
        "name VARCHAR(200) NOT NULL, PRIMARY KEY (federation_id, cluster))",
    ],
    9: ["ALTER TABLE kfed_federations ADD COLUMN agreed_schema JSON"],  # and n_clusters may be 0
}
_BYTES = {"sqlite": "BLOB", "postgresql": "BYTEA"}

LATEST = max(_STEPS)


def migrate(engine: Engine) -> None:
    """Make the tables, or bring them up to date. Raises `InvalidInputError` if they are of a newer version."""
    with writing_connection(engine) as connection:
        version = _version(connection)
        if version is None:
            metadata.create_all(connection)
            set_counter(connection, SCHEMA, LATEST, is_new=True)
            connection.commit()
            return
    if version > LATEST:
        raise InvalidInputError(
            f"the store was written by a newer kfed: its tables have version {version}, and this kfed knows up to "
            f"version {LATEST}; install the newer kfed, or restore a backup into another store"
        )
    for step in range(version + 1, LATEST + 1):
        with writing_connection(engine) as connection:
            for statement in _STEPS[step]:
                connection.execute(text(statement.format(bytes=_BYTES[engine.dialect.name])))
            set_counter(connection, SCHEMA, step, is_new=_saved(connection) is None)
            connection.commit()


def _version(connection: Connection) -> int | None:
    """The version of the tables, or None if there are none; the first two versions did not say theirs."""
    tables = inspect(connection).get_table_names()
    if "kfed_federations" not in tables:
        return None
    if counters.name not in tables:
        return 1
    return _saved(connection) or 2


def _saved(connection: Connection) -> int | None:
    return connection.execute(select(counters.c.value).where(counters.c.name == SCHEMA)).scalar()
