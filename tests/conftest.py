"""In continuous integration Hypothesis tries the same examples every time; elsewhere it looks for new ones."""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")
