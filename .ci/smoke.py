"""What an installed ontarget must do: the commands of the README, in an empty folder."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import ontarget


def said(*words: str, told: str | None = None) -> str:
    """What a command prints; ends the program when it fails."""
    done = subprocess.run(
        ["ontarget", *words], input=told, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"ontarget {' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Fit, evaluate and watch a small river."""
    started = time.monotonic()
    here = Path(ontarget.__file__)
    assert "site-packages" in here.parts, f"this is not the installed package: {here}"
    assert (here.parent / "py.typed").exists()
    assert said("--version") == f"ontarget {version('ontarget')}\n"
    said("simulate", "tamarisk", "-n", "300", "-o", "runs.parquet")
    said("simulate", "tamarisk", "-n", "100", "--seed", "1", "-o", "new.parquet")
    said("fit", "runs.parquet", "-o", "river.ontarget")
    page = ["--report", "report.html", "--json"]
    found = json.loads(said("evaluate", "river.ontarget", "new.parquet", "--target", "-60:", *page))
    assert found, "evaluate --json printed nothing"
    assert "<html" in Path("report.html").read_text()
    step = json.dumps({"agent": "crew", "state": [0, 0, 0, 0, 0, 0, 1]})
    answer = json.loads(said("watch", "river.ontarget", "--target", "-60:", told=step + "\n"))
    assert 0.0 <= answer["p"] <= 1.0
    sys.stdout.write(
        f"ontarget {version('ontarget')} works on Python {sys.version.split()[0]}: "
        f"{time.monotonic() - started:.0f} s\n"
    )


if __name__ == "__main__":
    main()
