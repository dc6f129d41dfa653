"""The documentation's site: `python -m sphinx -W docs build/docs`, with the extra `docs`.

Needs no network. The API reference is made from the docstrings, the notebooks are shown with the
outputs that are stored in them, and the examples of the pages are run by tests/docs/test_docs.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "extensions"), str(HERE.parent / "src")]

import fungrad  # noqa: E402

project = "fungrad"
author = "The fungrad authors"
copyright = author
smartquotes_action = "D"
release = version = fungrad.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "docstrings",
    "generated",
    "mathml",
]
exclude_patterns = ["extensions", "**/.ipynb_checkpoints"]
templates_path: list[str] = []

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the stored outputs are shown

autodoc_typehints = "none"
autodoc_preserve_defaults = True  # np.float64, not <class ...>
autodoc_member_order = "bysource"
python_display_short_literal_types = True
python_maximum_signature_line_length = 120
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "fungrad"
html_static_path = ["static"]
html_css_files = ["fungrad.css"]
html_favicon = "static/mark.svg"
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"
html_theme_options = {
    "light_logo": "mark.svg",
    "dark_logo": "mark-dark.svg",
    "light_css_variables": {
        "color-brand-primary": "#1f5fa8",
        "color-brand-content": "#1f5fa8",
        "font-stack": "Inter, 'Source Sans 3', 'Segoe UI', 'Helvetica Neue', Arial, sans-serif",
    },
    "dark_css_variables": {
        "color-brand-primary": "#8ab8f0",
        "color-brand-content": "#8ab8f0",
    },
    "navigation_with_keys": True,
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = ""
