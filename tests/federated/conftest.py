"""Fixtures of the tests that train models."""

import pytest
from federated_worlds import fleet


@pytest.fixture(scope="package", autouse=True)
def _one_thread():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def two_kinds():
    """Eight devices of one kind each, with different numbers of rows."""
    return fleet(8)


@pytest.fixture
def mixed():
    """Eight devices with rows of both kinds on each."""
    return fleet(8, kinds_of=lambda i: [0, 1])
