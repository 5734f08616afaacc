"""Files that people keep are read for ever: fixtures/version_1 was written before local files had version 2.

`expected.json` says what that kfed read in them. Add a folder for each format that comes; never write one anew.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import kfed
from kfed._base import files
from kfed.federated import _checkpoint, _models_file
from kfed.site import LocalFile
from kfed.wire import KfedFile, load, to_parts
from kfed.wire.file import WRITERS

FOLDER = Path(__file__).parent / "fixtures" / "version_1"
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
KINDS = {".kfed": kfed.DeviceMessage, ".local": LocalFile, ".identity": kfed.Identity}


def kind_of(name):
    return kfed.Aggregation if name == "clusters.kfed" else KINDS[Path(name).suffix]


def content(value):
    """Everything that a file says, as JSON has it."""
    if isinstance(value, LocalFile):
        return {**vars(value), **vars(value.clustering)}
    if isinstance(value, kfed.Aggregation):
        batch = value.messages
        columns = {"device_ids": batch.device_ids, "centers": batch.centers, "owners": batch.owners}
        names = ("rule", "center_labels", "cluster_centers", "cluster_sizes")
        return columns | vars(value.grouping) | vars(value.settings) | {name: getattr(value, name) for name in names}
    if isinstance(value, kfed.DeviceMessage):
        names = ("device_id", "centers", "counts", "sums_of_squares", "spectral_deviation", "feature_names")
        return {name: getattr(value, name) for name in names} | {"dtype": str(value.centers.dtype)}
    return vars(value)


FILES = [name for name in EXPECTED if (FOLDER / name).exists()]


def test_each_of_the_four_kinds_is_here():
    assert {kind_of(name) for name in FILES} == {kfed.DeviceMessage, LocalFile, kfed.Identity, kfed.Aggregation}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_version_1_says_what_it_said(name):
    found = content(load(FOLDER / name, kind_of(name)))
    for key, expected in EXPECTED[name].items():
        plain = found[key].tolist() if isinstance(found[key], np.ndarray) else found[key]
        assert json.loads(json.dumps(plain)) == expected, key


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_version_1_is_written_and_read_again_without_a_loss(name):
    value = kind_of(name).load(FOLDER / name)
    again = type(value).from_bytes(value.to_bytes())
    assert again.to_bytes() == value.to_bytes()
    if not isinstance(value, LocalFile):
        assert value.to_bytes() == (FOLDER / name).read_bytes()


def test_a_local_file_of_version_1_labels_its_rows_as_before():
    kept, clusters = LocalFile.load(FOLDER / "north.local"), kfed.Aggregation.load(FOLDER / "clusters.kfed")
    identity = kfed.Identity.load(FOLDER / "north.identity")
    assert kept.to_message() == kfed.DeviceMessage.load(FOLDER / "north.kfed")
    for answer in (clusters, identity):
        assert kept.labels(answer).tolist() == EXPECTED["labels of north"]


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_decoded_once(name, tmp_path, monkeypatch):
    value, path = kind_of(name).load(FOLDER / name), tmp_path / name
    value.save(path)
    payloads, decode = [], files.decode
    monkeypatch.setattr(files, "decode", lambda payload: payloads.append(payload) or decode(payload))
    for read in (lambda: load(path, kfed.Identity, kind_of(name)), lambda: kind_of(name).load(path)):
        payloads.clear()
        read()
        assert payloads == [path.read_bytes()]


def test_a_local_file_holds_its_arrays_as_tensors():
    tensors, facts = files.decode(LocalFile.load(FOLDER / "north.local").to_bytes())
    assert facts["version"] == 2
    np.testing.assert_array_equal(tensors["labels"], EXPECTED["north.local"]["labels"])


@pytest.mark.parametrize(
    "change",
    [
        {"clustering": {}},
        {"clustering": None},
        {"row_ids": b"[1, 2]"},
        {"row_ids": b'["too", "few"]'},
        {"row_ids": b"{"},
        {"device_id": 7},
        {"version": 3},
        {"labels": np.array([0, 9])},
        {"counts": np.array([1.0])},
    ],
    ids=str,
)
def test_an_unsound_local_file_is_refused(change):
    tensors, facts = to_parts(LocalFile.load(FOLDER / "north.local"))
    for key, value in change.items():
        if isinstance(value, (bytes, np.ndarray)):
            tensors[key] = np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value
        else:
            facts[key] = value
    with pytest.raises(kfed.MessageError):
        LocalFile.from_bytes(files.encode(tensors, facts))


def test_a_file_of_a_kind_that_no_command_takes_is_called_by_its_name(tmp_path):
    local = kfed.cluster_device(np.arange(12.0)[:, None], 2, random_state=0)
    local.save(tmp_path / "points.local")
    kfed.aggregate([local.to_message("a")], 2).save(tmp_path / "clusters.kfed")
    with pytest.raises(kfed.MessageError, match="this is a local clustering; expected"):
        load(tmp_path / "points.local", kfed.Aggregation)
    with pytest.raises(kfed.MessageError, match="expected a local clustering"):
        load(tmp_path / "clusters.kfed", kfed.LocalClustering)


def test_an_error_never_shows_what_a_foreign_file_says_of_itself(tmp_path):
    said = "\x1b[2J" + "x" * 200_000
    for facts in ({"kind": said}, {"kind": [said]}, {"kind": "aggregation", "version": said}):
        path = tmp_path / "foreign.kfed"
        path.write_bytes(files.encode({"a": np.ones(1)}, facts))
        for read in (lambda path=path: load(path, kfed.Aggregation), lambda path=path: kfed.Aggregation.load(path)):
            with pytest.raises(kfed.MessageError) as found:
                read()
            assert "xx" not in str(found.value)


def test_every_kind_of_file_is_called_by_its_name():
    kinds = {kind._kind for kind in KfedFile.__subclasses__()} | {_checkpoint.KIND, _models_file.KIND}
    assert kinds <= set(files.KINDS)
    assert set(WRITERS) <= set(files.KINDS)
