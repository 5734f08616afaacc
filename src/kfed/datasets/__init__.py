"""Data for simulations: mixtures of Gaussians, digits, MNIST, FEMNIST and Shakespeare, and ways to spread them.

::

    data = datasets.mnist_by_writer()                               # points, classes, and who wrote each
    split = datasets.partition.structured(data.classes, 100, 2)     # rows of each device; every row at most once
    fleet = split.of(data.points)                                   # one table a device

`digits` always works. The others look in the folder that ``KFED_DATA`` names, then in the user's cache folder, and then
download the files; if that fails too, the error says which file to put where.
"""

from kfed.datasets import partition
from kfed.datasets.images import digits, digits_by_writer, mnist, mnist_by_writer
from kfed.datasets.leaf import femnist, leaf_shakespeare, stream_femnist
from kfed.datasets.mixtures import Mixture, mixture
from kfed.datasets.partition import Partition
from kfed.datasets.shakespeare import shakespeare, shakespeare_lines, shakespeare_roles
from kfed.datasets.sources import digits_files as digits_files  # for experiments
from kfed.datasets.sources import locate
from kfed.datasets.sources import shakespeare_files as shakespeare_files
from kfed.datasets.table import Dataset
from kfed.datasets.text import character_features, letter_features, windows

__all__ = [
    "Dataset",
    "Mixture",
    "Partition",
    "character_features",
    "digits",
    "digits_by_writer",
    "femnist",
    "leaf_shakespeare",
    "letter_features",
    "locate",
    "mixture",
    "mnist",
    "mnist_by_writer",
    "partition",
    "shakespeare",
    "shakespeare_lines",
    "shakespeare_roles",
    "stream_femnist",
    "windows",
]
