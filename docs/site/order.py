"""The order of the site's pages, which is the order of the links in docs/README.md."""

from __future__ import annotations

import re
from pathlib import Path

ORDER = "docs/README.md"
_LINK = re.compile(r"\]\(([^)#\s]+\.(?:md|py))(?:#[^)]*)?\)")


def links(page: Path, text: str | None = None) -> list[Path]:
    """The pages and scripts that a page links to, each once, in the order of the links."""
    found = _LINK.findall(page.read_text() if text is None else text)
    aims = [(page.parent / link).resolve() for link in found if not link.startswith("http")]
    return list(dict.fromkeys(aims))


def sections(page: Path) -> list[tuple[str, list[Path]]]:
    """Each second-level heading of a page, with the pages that the section below it links to."""
    parts = re.split(r"^## (.+)$", page.read_text(), flags=re.M)[1:]
    return [(parts[i], links(page, parts[i + 1])) for i in range(0, len(parts), 2)]
