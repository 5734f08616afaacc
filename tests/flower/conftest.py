"""A home for Flower that is ended and forgotten after a test."""

import pytest


@pytest.fixture
def home(tmp_path):
    from deployment import end_left_behind

    made = tmp_path / "home"
    made.mkdir()
    yield made
    end_left_behind(made)
