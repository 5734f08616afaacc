"""`cluster_table`: Algorithm 1 on the table of a site."""

from __future__ import annotations

from typing import Literal

from kfed.device import MIN_CLUSTER_SIZE, cluster_device
from kfed.site.kept import LocalFile
from kfed.site.table import Table


def cluster_table(
    table: Table,
    n_local_clusters: int | Literal["auto"],
    device_id: str,
    *,
    random_state: int = 0,
    min_cluster_size: int = MIN_CLUSTER_SIZE,
) -> LocalFile:
    """Cluster the rows of a site, and keep what labels them later.

    Parameters
    ----------
    table : Table
        The rows, see `read_table`; its weights and the ids of its rows are used if it has them.
    n_local_clusters : int or "auto"
        How many clusters to look for; "auto" finds how many there are.
    device_id : str
        The name of the site.
    random_state : int
        Decides every random choice, together with the name of the site.
    min_cluster_size : int
        Clusters of fewer rows are not sent.

    Returns
    -------
    LocalFile
        Its `to_message` is what may leave the site.

    Examples
    --------
    >>> table = Table(np.array([[30.0], [31.0], [33.0], [70.0], [71.0], [73.0]]), ("age",))
    >>> kept = cluster_table(table, 2, "site7")
    >>> kept.to_message().feature_names, kept.to_message().counts.tolist()
    (('age',), [3, 3])
    """
    clustering = cluster_device(
        table,
        n_local_clusters,
        sample_weight=table.weights,
        random_state=random_state,
        device_id=device_id,
        min_cluster_size=min_cluster_size,
    )
    return LocalFile(device_id, clustering, table.row_ids, table.id_column)
