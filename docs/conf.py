"""How the site is built: Sphinx on the pages of this folder, `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

from kfed import __version__  # noqa: E402

project = "kfed"
author = copyright = "The kfed developers"
version = release = __version__

extensions = [
    "command_line",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_ext", "_templates", "check_site.py", "images/*.py"]
smartquotes = False
default_role = "py:obj"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
suppress_warnings = ["config.cache", "ref.python"]  # a word in a docstring may name an attribute of several classes

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"exclude-members": "set_fit_request, set_predict_request, set_score_request"}
autodoc_mock_imports = ["flwr"]
autosummary_generate = True
napoleon_google_docstring = False

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "filename_pattern": "/",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 60,
    "abort_on_example_error": True,
    "parallel": 2,  # each process imports all that scripts import; still a tenth faster on two cores
}

templates_path = ["_templates"]

html_theme = "pydata_sphinx_theme"
html_title = "kfed"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "_static" / "scorer.js")
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "kfed"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 8,
    "collapse_navigation": True,
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
