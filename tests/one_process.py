"""A round in one process, whose answer those on other engines must repeat."""

import kfed


def in_one_process(devices, n_local_clusters, n_clusters, **options):
    """The clusters of devices, given as rows by name, and the labels of the rows of each."""
    local = dict(zip(devices, kfed.cluster_fleet(devices, n_local_clusters, random_state=0), strict=True))
    result = kfed.aggregate([own.to_message(name) for name, own in local.items()], n_clusters, **options)
    return result, {name: own.induced_labels(result.identity(name)) for name, own in local.items()}
