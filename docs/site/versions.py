"""The folder with one site per version: its menu, its front page, and a check for foreign links.

Nothing here needs Sphinx.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]

# What a page loads by itself. A link that a reader follows may lead anywhere.
_LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=\"((?:https?:)?//[^\"]+)"
    r"|<link\b(?=[^>]*rel=\"(?:stylesheet|preload|preconnect|icon)\")[^>]*"
    r"href=\"((?:https?:)?//[^\"]+)"
    r"|@import\s+(?:url\()?[\"']?((?:https?:)?//[^\"')]+)"
    r"|url\([\"']?((?:https?:)?//[^\"')]+)"
)
_HEAD = "window.ONTARGET_VERSIONS = "
_FRONT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>ontarget</title>
<meta http-equiv="refresh" content="0; url={0}/index.html">
<a href="{0}/index.html">ontarget {0}</a></html>
"""


def own_version() -> str:
    """The version of the library in this repository."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def foreign(site: Path) -> list[str]:
    """What the pages and styles of a site would load from another host, each with its file."""
    files = sorted(path for path in site.rglob("*") if path.suffix in (".html", ".css"))
    return [
        f"{path.relative_to(site)}: {''.join(found)}"
        for path in files
        for found in _LOADED.findall(path.read_text())
    ]


def enter(folder: Path, name: str) -> None:
    """Add a version to the menu, newest first, and let the folder's front page lead to it.

    The menu is a script, not JSON, because a page that is read from a disk may load a script, but
    not JSON.
    """
    menu, own = folder / "versions.js", folder / name
    known = json.loads(menu.read_text()[len(_HEAD) : -2]) if menu.exists() else []
    kept = [one for one in known if one["name"] != name and (folder / one["name"]).is_dir()]
    pages = sorted(path.relative_to(own).as_posix() for path in own.rglob("*.html"))
    kept.append({"name": name, "pages": pages})
    kept.sort(key=lambda one: [int(n) for n in re.findall(r"\d+", one["name"])], reverse=True)
    menu.write_text(f"{_HEAD}{json.dumps(kept)};\n")
    (folder / "index.html").write_text(_FRONT.format(kept[0]["name"]))
