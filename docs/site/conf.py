"""Sphinx's settings: the site is the repository's own Markdown, in the order of docs/README.md.

The source folder is the repository itself, so that every link leads to the same file here as on a
code host. The table of contents, which the Markdown pages do not have, is added while they are
read.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import download_reference, pending_xref

sys.path.insert(0, str(Path(__file__).parent))
from listing import Listing
from order import ORDER, links, sections
from versions import ROOT, own_version

project = "ontarget"
author = "The ontarget developers"
copyright = "the ontarget developers; MIT license"
release = version = own_version()

extensions = ["myst_parser"]
root_doc = "README"
source_suffix = {".md": "markdown", ".py": "listing", ".toml": "listing"}
include_patterns = ["*.md", "docs/**.md", "docs/*.py", "examples/**", "bench/*.py", "deploy/*.toml"]
exclude_patterns = [".*", "out", "dist", "src", "tests", "**/__pycache__", "docs/site"]
myst_heading_anchors = 4
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # a signature may show what no code can

html_theme = "furo"
html_title = f"ontarget {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["../../versions.js", "versions_menu.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
pygments_style = "tango"
pygments_dark_style = "github-dark"


def add_contents(app, name, source):
    """Add the site's table of contents to the front page and to pages that list other pages."""
    if name == root_doc:
        trees = sections(ROOT / ORDER)
    elif name in ("docs/api/README", "examples/README"):
        folder = (ROOT / name).parent
        trees = [("", [page for page in links(ROOT / f"{name}.md") if page.parent == folder])]
    elif name == "docs/README":  # the list itself: its order is what the others have
        source[0] = "---\norphan: true\n---\n\n" + source[0]
        return
    else:
        return
    for caption, pages in trees:
        names = (page.relative_to(ROOT).with_suffix("").as_posix() for page in pages)
        entries = "\n".join("self" if page == name else f"/{page}" for page in names)
        head = f":caption: {caption}\n" if caption else ""
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n{head}\n{entries}\n```\n"


def settle_links(app, tree):
    """Let a link to a file open that file; a link to a folder becomes plain text."""
    name = app.env.docname
    folder = (ROOT / name).parent
    for link in list(tree.findall(pending_xref)):
        if (folder / link["reftarget"]).is_dir():
            link.replace_self(link.children)
    for link in list(tree.findall(download_reference)):
        kept = (folder / link["reftarget"]).resolve().relative_to(ROOT)
        copy = Path(app.outdir) / kept
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / kept, copy)
        address = "../" * name.count("/") + kept.as_posix()
        link.replace_self(nodes.reference("", "", *link.children, refuri=address))


def setup(app):
    """Register the functions and the parser of this file with Sphinx."""
    app.add_source_parser(Listing)
    app.connect("source-read", add_contents)
    app.connect("doctree-read", settle_links)
