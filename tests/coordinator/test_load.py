"""Thousands of devices at once, and a million centers: none lost, and the figures printed."""

import pytest

from benchmarks import load
from benchmarks.coordinator import coordinator
from benchmarks.run import SERVICES, WORKLOADS


@pytest.mark.slow
def test_ten_thousand_devices_are_all_there_and_a_million_centers_stop_nobody(capsys):
    figures = {figure.measure: figure for figure in coordinator(quick=False)}
    with capsys.disabled():
        for figure in figures.values():
            sign = "≥" if figure.higher_is_better else "≤"
            print(f"\n  {figure.measure}: {figure.value:,.4g} ({sign} {figure.target:g}) {figure.detail}", end="")  # noqa: T201
    assert figures["share of messages there"].value == 1
    assert "10,000 of 10,000" in figures["share of messages there"].detail
    assert figures["longest wait meanwhile, ms"].reached
    assert figures["peak memory over the centers"].reached


def test_the_service_is_measured_when_named():
    assert "coordinator" in SERVICES
    assert "coordinator" not in WORKLOADS


def test_a_connection_that_an_answer_says_is_closed_is_not_used_again(socket_caller):
    """The gate closes the connection of a health check, and says so."""
    asked = [load.request("GET", path, {}) for path in ("/healthz", "/readyz", "/healthz", "/readyz")]
    assert load.send(socket_caller.http.base_url.port, asked, 1).statuses == {200: 4}
