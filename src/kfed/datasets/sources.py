"""Finds the files of a data set: in ``KFED_DATA``, in the user's cache folder, or at the data set's public home."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from kfed._base import checks, files
from kfed._base.progress import progress_bar
from kfed.errors import CorruptFileError, MissingDataError

TIMEOUT_SECONDS = 20.0
CHUNK_BYTES = 2**16


@dataclass(frozen=True)
class File:
    """One file of a data set.

    Attributes
    ----------
    folder, name : str
        Where it is under ``KFED_DATA`` or the cache folder.
    sha256 : str
        Of the file as published.
    n_bytes : int
        Its size.
    urls : tuple of str
        Places to download it from, the first that answers; none if it can only be put there by hand.
    """

    folder: str
    name: str
    sha256: str
    n_bytes: int
    urls: tuple[str, ...] = ()


def _mnist(name: str, sha256: str, n_bytes: int) -> File:
    homes = ("https://storage.googleapis.com/cvdf-datasets/mnist", "https://ossci-datasets.s3.amazonaws.com/mnist")
    return File("mnist", name, sha256, n_bytes, tuple(f"{home}/{name}" for home in homes))


def _qmnist(name: str, sha256: str, n_bytes: int) -> File:
    home = "https://raw.githubusercontent.com/facebookresearch/qmnist/94061367ec2e099ea18c553c75727ecf849ddb9b"
    return File("mnist-writers", name, sha256, n_bytes, (f"{home}/{name}",))


def _tff(name: str, sha256: str, n_bytes: int) -> File:
    return File("tff", name, sha256, n_bytes, (f"https://storage.googleapis.com/tff-datasets-public/{name}",))


def _benchmark(name: str, sha256: str, n_bytes: int) -> File:
    return File("benchmark-sets", name, sha256, n_bytes)


SOURCES: dict[str, tuple[File, ...]] = {
    "mnist": (
        _mnist(
            "train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9912422
        ),
        _mnist("train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28881),
        _mnist(
            "t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1648877
        ),
        _mnist("t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4542),
    ),
    "mnist-writers": (
        _qmnist(
            "qmnist-train-labels-idx2-int.gz",
            "2c05dc77f6b916b38e455e97ab129a42a444f3dbef09b278a366f82904e0dd9f",
            463024,
        ),
        _qmnist(
            "qmnist-test-labels-idx2-int.gz",
            "9fbcbe594c3766fdf4f0b15c5165dc0d1e57ac604e01422608bb72c906030d06",
            526800,
        ),
    ),
    "shakespeare-lines": (
        File(
            "shakespeare-lines",
            "shakespeare_lines.csv.gz",
            "f6d3b57b34c5f3f10e16118f2d3ec21ff1bd1b477cf57f60edd14c357835da8f",
            2828775,
        ),
    ),
    "tff-shakespeare": (
        _tff("shakespeare.sqlite.lzma", "d3d11fceb9e105439ac6f4d52af6efafed5a2a1e1eb24c5bd2dd54ced242f5c4", 1329828),
    ),
    "benchmark-sets": (
        _benchmark("a1.data.gz", "78fa5df93f95249e58e3ec7408c9889d738da4d1da89813ed2dee3c7b5a713c4", 16692),
        _benchmark("a1.labels0.gz", "991542b1d7753c070b868b682227c50fe7c7d1cb37fd692e04beaeebb8dc3281", 82),
        _benchmark("d31.data.gz", "e5823a38cde5b0098ef050a98eceef137b8401a0117fd92ca20c95817df6e605", 20369),
        _benchmark("d31.labels0.gz", "98bc0f45c96795e00d068077c307b35a27e37c1abad19d72ff5481338e8337b8", 97),
        _benchmark("ecoli.data.gz", "0103bfee45abb6646e5845a133dcfa83a0cc79502756f13713de197ac8cbafe6", 2490),
        _benchmark("ecoli.labels0.gz", "b356c4db317c0dabb7a3bb240a05427d61fc28e0c5e8ed23e9019a5e18227a88", 60),
        _benchmark("r15.data.gz", "3b939dd0880262b4eaee2fb866bdb84afd37fe1fc43b91a642209c87c56dbae7", 2868),
        _benchmark("r15.labels0.gz", "5e62f29725804f7bbae4ea2d6a6703f34791d0e5da90b12cd1a17af17d02a96b", 81),
        _benchmark("s2.data.gz", "2851b54c760ccabca735d733a6ba5f934b367315462641b461f4fb5a30004596", 34567),
        _benchmark("s2.labels0.gz", "31aeb544430e3571556d2e9d514cea4ea7ae9bf8d6867052b06bd7f4af7a5161", 83),
        _benchmark("s3.data.gz", "013f2299e3d3cd5c59aa24884bd99a24006aad285b870cd5ee03dd626ceae00b", 34753),
        _benchmark("s3.labels0.gz", "41761cdb8f63777dc08e0b7536aa6a8a814f9e354ae31f70961a29101bfbc641", 83),
        _benchmark("unbalance.data.gz", "8fbc2ea0b2a7e569918d6083790838080671fbd00b51f8fb90c0fd43044284bb", 37353),
        _benchmark("unbalance.labels0.gz", "3f2f56e71f0037c2d6fa3c65974d49532909bf588e471bbc4bd1c71119f6ffd6", 65),
        _benchmark("wdbc.data.gz", "e327a43e8cf472005e2fc7a2a01e9cdb3c123946db55c04587a528ea2ad1e1d8", 46543),
        _benchmark("wdbc.labels0.gz", "18acf2fd9a74c5c642c953f6f295706ef6161c53da02f92023db023eeea2239a", 169),
        _benchmark("yeast.data.gz", "11f58a5f199184b3e0ec71b880365df360c6db365823c3d42a006d198f08acd9", 11851),
        _benchmark("yeast.labels0.gz", "928ba1f1d2b3049ce36aa55f09eccaae660452b6a5bc1d820bb91a865a56d1fa", 679),
    ),
    "tff-femnist": (
        _tff("emnist_all.sqlite.lzma", "c3aaf91b4cf4e69d53d81627ad119eccdc878ff906f68e66063ff10f67faad48", 170507172),
    ),
}
"""The files of each data set that has fixed files."""


def locate(name: str, *, progress: bool | None = None) -> dict[str, Path]:
    """Find the files of a data set, or download them: their paths by name.

    Parameters
    ----------
    name : str
        A key of `SOURCES`.
    progress : bool, optional
        Show a progress bar for a download; by default on a terminal.

    Raises
    ------
    MissingDataError
        If a file is nowhere, with what to do about it.
    CorruptFileError
        If a file is not the published one.

    Examples
    --------
    >>> sorted(locate("mnist"))[:2]
    ['t10k-images-idx3-ubyte.gz', 't10k-labels-idx1-ubyte.gz']
    """
    checks.one_of(name, list(SOURCES), "data set")
    return {file.name: fetch(file, progress=progress) for file in SOURCES[name]}


def at_hand(name: str) -> bool:
    """Whether the files of a data set need no download."""
    return all(_here(file) for file in SOURCES[name])


def _here(file: File) -> Path | None:
    """Find one file in the folders, if it is there."""
    paths = (folder / file.folder / file.name for folder in data_folders())
    return next((path for path in paths if path.is_file()), None)


def leaf_files(name: str, split: str) -> list[Path]:
    """Find what LEAF's scripts make: the JSON files of a split, in the first folder that has any."""
    found = (sorted((folder / name / split).glob("*.json")) for folder in data_folders())
    return next(filter(None, found), [])


def digits_files() -> tuple[str, ...]:
    """What `kfed.datasets.digits_by_writer` reads here: FEMNIST if it is at hand, else MNIST with its writers."""
    if leaf_files("femnist", "train"):
        return ()
    return ("tff-femnist",) if at_hand("tff-femnist") else ("mnist", "mnist-writers")


def shakespeare_files() -> tuple[str, ...]:
    """What `kfed.datasets.shakespeare` reads here: LEAF's files, TFF's archive, or the table of lines."""
    if leaf_files("shakespeare", "train"):
        return ()
    has_lines_only = at_hand("shakespeare-lines") and not at_hand("tff-shakespeare")
    return ("shakespeare-lines",) if has_lines_only else ("tff-shakespeare",)


def fetch(file: File, *, progress: bool | None = None) -> Path:
    """Find one file, or download it into the cache folder; its checksum is verified in both cases."""
    path = _here(file)
    if path is None:
        return _download(file, progress)
    _check(path.read_bytes(), file, str(path))
    return path


def data_folders() -> list[Path]:
    """Folders to look in, in order: that of ``KFED_DATA`` if it is set, and the cache."""
    named = os.environ.get("KFED_DATA")
    return [*([Path(named)] if named else []), cache_folder()]


def cache_folder() -> Path:
    """Where downloads go: ``$XDG_CACHE_HOME/kfed``, by default ``~/.cache/kfed``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kfed"


def missing(what: str, put: str, why: str) -> MissingDataError:
    """Make the error for a missing file: what it is, where to put it, and why it was not downloaded."""
    places = [*map(str, data_folders()), *([] if os.environ.get("KFED_DATA") else ["a folder that KFED_DATA names"])]
    return MissingDataError(f"{what} was not found{why}; put {put} in {' or '.join(places)}")


def _download(file: File, progress: bool | None) -> Path:
    reasons = []
    for url in file.urls:
        try:
            payload = _read(url, file, progress)
        except (OSError, HTTPException) as error:
            reasons.append(f"{url}: {error}")
            continue
        _check(payload, file, url)
        path = cache_folder() / file.folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, payload)
        return path
    why = (
        f" and could not be downloaded ({'; '.join(reasons)})" if reasons else " and cannot be downloaded automatically"
    )
    put = f"{file.folder}/{file.name} ({file.n_bytes:,} bytes, sha256 {file.sha256})"
    raise missing(f"{file.name} of {file.folder}", put, why)


def _read(url: str, file: File, progress: bool | None) -> bytes:
    """Download an address, but at most one byte more than the file should have."""
    payload = bytearray()
    with (
        urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer,
        progress_bar(f"downloading {file.name}", file.n_bytes, progress) as advance,
    ):
        while len(payload) <= file.n_bytes and (chunk := answer.read(CHUNK_BYTES)):
            payload += chunk
            advance(len(chunk))
    return bytes(payload)


def _check(payload: bytes, file: File, where: str) -> None:
    found = hashlib.sha256(payload).hexdigest()
    if found != file.sha256:
        raise CorruptFileError(
            f"{where} must have the sha256 {file.sha256} and {file.n_bytes:,} bytes; got {found} and {len(payload):,}; "
            "delete it, or replace it by the published file"
        )
