"""Whole numbers in JSON that no float can hold are refused as what they are in, never with an OverflowError."""

import json
import struct

import numpy as np
import pytest

import kfed
from kfed.site import TableSummary, cluster_file, read_scale, read_schema
from kfed.wire import Column, FeatureSchema
from kfed.wire.bulk import read_tables

HUGE = [10**400, -(10**400)]


@pytest.mark.parametrize("huge", HUGE)
@pytest.mark.parametrize("where", ["count", "means", "variances"])
def test_a_summary_with_a_huge_number_is_refused(write, where, huge):
    column = {"name": "x", "count": 60, "means": [1], "variances": [1]}
    column[where] = huge if where == "count" else [huge]
    path = write(json.dumps({"kind": "kfed table summary", "columns": [column]}), "x.summary")
    with pytest.raises(kfed.InvalidInputError, match="this is not a summary"):
        TableSummary.load(path)


@pytest.mark.parametrize("huge", [*HUGE, "9" * 5000])
@pytest.mark.parametrize("where", ["shift", "scale"])
def test_a_scale_file_or_schema_with_a_huge_number_is_refused(write, where, huge):
    entry = json.dumps({"shift": 1, "scale": 1, where: "HUGE"}).replace('"HUGE"', str(huge))
    with pytest.raises(kfed.InvalidInputError, match="scale"):
        read_scale(write(f'{{"x": {entry}}}', "scale.json"))
    schema = f'{{"columns": [{{"name": "x", {entry[1:]}], "scaling": "agreed", "missing": "observed"}}'
    with pytest.raises(kfed.InvalidInputError, match="schema"):
        read_schema(write(schema, "schema.json"))


def with_facts(payload, change):
    """The bytes of a message whose facts were changed; "HUGE" stands for a huge number."""
    size = struct.unpack("<Q", payload[:8])[0]
    head = json.loads(payload[8 : 8 + size])
    facts = json.loads(head["__metadata__"]["kfed"])
    change(facts)
    head["__metadata__"]["kfed"] = json.dumps(facts).replace('"HUGE"', str(HUGE[0]))
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + payload[8 + size :]


CHANGES = {
    "shift": lambda facts: facts["schema"]["columns"][0].update(shift="HUGE"),
    "scale": lambda facts: facts["schema"]["columns"][0].update(scale="HUGE"),
    "left out": lambda facts: facts.update(n_left_out="HUGE"),
    "promise": lambda facts: facts.update(promise={"epsilon": 1, "delta": 0.1, "mu": "HUGE", "radius": 1}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_message_with_a_huge_number_is_refused(write, change):
    rng = np.random.default_rng(0)
    rows = "".join(f"{x:.3f},{y:.3f}\n" for x, y in rng.normal(size=(60, 2)))
    schema = FeatureSchema.of_columns([Column(name, shift=0.0, scale=1.0) for name in "xy"], "agreed")
    sent = cluster_file(write("x,y\n" + rows), 2, "a", schema=schema).to_message().to_bytes()
    assert kfed.DeviceMessage.from_bytes(with_facts(sent, lambda facts: None)).device_id == "a"
    crafted = with_facts(sent, change)
    with pytest.raises(kfed.MessageError):
        kfed.DeviceMessage.from_bytes(crafted)
    with pytest.raises(kfed.MessageError):
        read_tables([crafted])
