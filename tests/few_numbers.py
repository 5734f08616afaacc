"""Where nobody says how many clusters there are, few numbers are compared, which takes a fourth of the time."""

from functools import partial

import kfed


def compare_few(patched):
    """Compare few numbers of clusters, by few resamplings, as long as `patched` is."""
    patched.setattr("kfed.server.k.finding.COMPARED", range(2, 7))
    patched.setattr("kfed.server.k.finding.MORE", range(7, 9))
    patched.setattr("kfed.server.k.finding.compare_k", partial(kfed.compare_k, n_resamplings=6))
