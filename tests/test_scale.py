"""The page on scale is computed from what was measured."""

from dataclasses import replace

import pytest

from benchmarks import scale


@pytest.fixture(scope="module")
def units():
    return scale.measure_units(quick=True)


def test_unit_costs_are_those_of_real_messages(units):
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
    made_up = replace(units, message_bytes=2_000, decode_seconds=1e-6, flat_seconds=2e-6, flat_bytes=5_000.0)
    text = scale.page(made_up, [scale.Difference("paper", 2, 0.5, 1.25)])
    assert "| 1,000,000 | flat | 1,000,000 | 2 GB | 5 GB | 3 s |" in text
    assert "| 100,000,000 | flat | 100,000,000 | 200 GB | 500 GB | 5 min |" in text
    assert "| 2 | paper | 50.0% | 1.250 |" in text
    assert "at most 25.0% more" in text
