"""Shows a script or a settings file as a page of the site: its name, and its text in colour."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.parsers import Parser


class Listing(Parser):
    """A parser for Sphinx that turns a script or a settings file into a page."""

    supported = ("listing",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Make a page with one section that has the file's text as a block of code."""
        path = Path(document["source"])
        section = nodes.section("", ids=[nodes.make_id(path.stem)])
        section += nodes.title("", path.name)
        code = nodes.literal_block(inputstring, inputstring)
        code["language"] = {".py": "python"}.get(path.suffix, path.suffix[1:])
        section += code
        document += section
        env = document.settings.env
        env.metadata[env.docname]["orphan"] = "true"  # most of them stand in no list of pages
