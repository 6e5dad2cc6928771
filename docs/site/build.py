"""Builds the documentation site for one version of the library; `make site` runs this.

    python docs/site/build.py            # into out/site/<version>/, then open out/site/index.html

To add another version, check out its tag and build it into the same folder (`--into`). The menu in
each page's sidebar then offers all versions, even in pages that were built earlier. The site
consists of plain files. It loads nothing from another host, and can be read and searched from a
disk.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from sphinx.cmd.build import main as sphinx
from versions import ROOT, enter, foreign, own_version

HERE = Path(__file__).parent


def build(folder: Path) -> None:
    """Write the pages of this version to the folder; ends the program if any link is broken."""
    site, trees = folder / own_version(), folder / ".doctrees"
    shutil.rmtree(site, ignore_errors=True)
    subprocess.run([sys.executable, ROOT / "docs" / "write_api.py"], check=True)
    words = ["-q", "-W", "--keep-going", "-E", "-b", "html", "-c", str(HERE), "-d", str(trees)]
    if sphinx([*words, str(ROOT), str(site)]):
        sys.exit("the site was not built: see the warnings above")
    shutil.rmtree(trees)
    shutil.copyfile(site / "README.html", site / "index.html")
    if loaded := foreign(site):
        sys.exit("these would be loaded from another host:\n" + "\n".join(loaded))
    enter(folder, site.name)


def main() -> None:
    """Build the site, and print where to find it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, default=ROOT / "out" / "site", help="out/site")
    folder = parser.parse_args().into
    build(folder)
    sys.stdout.write(f"open {folder / 'index.html'}\n")


if __name__ == "__main__":
    main()
