"""Configuration of Sphinx for the manual: what ``make site`` builds."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

project = "Tenantry"
extensions = ["myst_parser", "tools.site.extension"]
root_doc = "docs/README"
include_patterns = ["*.md", "docs/**"]
exclude_patterns = [
    ".*",
    "data",
    "demo-data",
    "dist",
    *("deploy", "harness", "requirements", "src", "templates", "testkit", "tests", "tools"),
]
# The depth of the headings that links name.
myst_heading_anchors = 4

html_theme = "furo"
html_title = "Tenantry"
html_logo = html_favicon = str(ROOT / "src/tenantry/console/static/icon.svg")
html_static_path = ["static"]
html_css_files = ["console-tokens.css", "manual.css"]
html_js_files = ["manual.js"]
templates_path = ["templates"]
html_additional_pages = {"search": "search.html"}
html_copy_source = False
html_show_copyright = False
html_use_index = False
html_permalinks_icon = "#"
# A block without a language is a command or what it prints, and not Python, the default.
highlight_language = "none"
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "github-dark"
