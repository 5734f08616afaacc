"""The page on scale is computed from what was measured."""

import pytest

from benchmarks import scale
from kfed.wire import MessageBatch


@pytest.fixture
def units():
    """Round numbers, as if they had been measured."""
    return scale.Units(
        2_000, 1e-6, 2e-6, 5_000.0, 3e-6, devices_bytes=3_000_000, regions_bytes=70_000_000, n_measured=10
    )


@pytest.mark.slow
def test_unit_costs_are_those_of_real_messages_that_are_read_at_once(monkeypatch):
    read, of_bytes = [], MessageBatch.of_bytes

    def counted(payloads):
        read.append(len(payloads))
        return of_bytes(payloads)

    monkeypatch.setattr(MessageBatch, "of_bytes", counted)
    units = scale.measure_units(quick=True)
    assert read == [units.n_measured]
    centers = scale.N_LOCAL_CLUSTERS * scale.N_FEATURES * 4
    assert centers < units.message_bytes < centers + 200
    assert min(units.decode_seconds, units.flat_seconds, units.tree_seconds) > 0
    assert units.flat_bytes > centers
    assert units.regions_bytes > units.devices_bytes > scale.FAN_IN * centers


def test_a_tree_takes_memory_for_its_levels_and_not_for_its_devices(units):
    assert units.tree_bytes(1) == units.tree_bytes(scale.FAN_IN) == units.devices_bytes
    assert units.tree_bytes(scale.FAN_IN + 1) == units.tree_bytes(scale.FAN_IN**2)
    assert units.tree_bytes(scale.FAN_IN**2 + 1) == units.devices_bytes + 2 * units.regions_bytes


def test_the_page_multiplies_up_what_was_measured(units):
    text = scale.page(units, [scale.Difference("paper", 2, 0.5, 1.25)])
    assert "| 1,000,000 | flat | 1,000,000 | 2 GB | 5 GB | 3 s |" in text
    assert "| 100,000,000 | flat | 100,000,000 | 200 GB | 500 GB | 5 min |" in text
    assert "| 2 | paper | 50.0% | 1.250 |" in text
    assert "at most 25.0% more" in text
