"""Hypothesis profiles: `dev` looks for new examples, `ci` tries the same and more of them every time.

``HYPOTHESIS_PROFILE`` chooses one; by default it is `ci` where ``CI`` is set, and `dev` elsewhere.
"""

import os

import pytest
from hypothesis import settings

settings.register_profile("dev", max_examples=25, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


@pytest.fixture
def write(tmp_path):
    """Write a file of text; gives its path."""

    def write(text, name="site.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write
