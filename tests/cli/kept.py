"""What each command prints on one small log, kept whole in the folder ``kept``.

    python -m tests.cli.kept    # keep what the commands print now

The model is the marginal one, whose answers do not depend on the versions of other libraries.
"""

from __future__ import annotations

import re
import tempfile
from html import unescape
from pathlib import Path

from .river import QUICK, told

FOLDER = Path(__file__).parent / "kept"
GOAL = ("--target", "-60:")

# In this order, since each may use the files that those before it wrote.
COMMANDS: dict[str, tuple[str, ...]] = {
    "simulate": ("simulate", "tamarisk", "-n", "300", "-o", "{place}/runs.parquet"),
    "look": ("look", "{place}/runs.parquet", *GOAL),
    "split": ("split", "{place}/runs.parquet", "-o", "{place}/old.parquet", "{place}/new.parquet"),
    "prepare": ("prepare", "{place}/runs.parquet", "-o", "{place}/prepared"),
    "plan": ("plan",),
    "fit": ("fit", "{place}/old.parquet", "-o", "{place}/river.ontarget", *QUICK),
    "inspect": ("inspect", "{place}/river.ontarget"),
    "evaluate": ("evaluate", "{place}/river.ontarget", "{place}/new.parquet", *GOAL,
                 "--report", "{place}/report.html"),
    "drift": ("drift", "{place}/river.ontarget", "{place}/new.parquet", *GOAL),
    "explain": ("explain", "{place}/river.ontarget", "{place}/new.parquet", "--run", "4", *GOAL),
    "watch": ("watch", "{place}/river.ontarget", "--replay", "{place}/new.parquet", "--run", "4",
              *GOAL),
    "compare": ("compare", "{place}/river.ontarget", "{place}/river.ontarget",
                "{place}/new.parquet", *GOAL),
    "recalibrate": ("recalibrate", "{place}/river.ontarget", "{place}/new.parquet",
                    "-o", "{place}/renewed.ontarget"),
}  # fmt: skip


def printed() -> dict[str, str]:
    """What every command prints now, without what depends on the machine and the release."""
    with tempfile.TemporaryDirectory() as place:
        found = {}
        for name, command in COMMANDS.items():
            text = told([part.format(place=place) for part in command], env={"COLUMNS": "80"})
            found[name] = _settled(text.replace(place, "PLACE"))
        found["report"] = _settled(words_of((Path(place) / "report.html").read_text("utf-8")))
        return found


def words_of(page: str) -> str:
    """What a reader reads on a page: its text in lines, without tags, styles and figures."""
    bare = re.sub(r"<(style|svg)\b.*?</\1>", "", page, flags=re.DOTALL)
    lines = (re.sub(r"<[^>]+>", " ", line) for line in bare.splitlines())
    told = (" ".join(unescape(line).split()) for line in lines)
    return "\n".join(filter(None, told))


def kept(name: str) -> str:
    """What a command printed when it was kept."""
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def _settled(text: str) -> str:
    text = re.sub(r"\b\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?", "DATE", text)
    text = re.sub(r"\bontarget \d+\.\d+\.\d+\S*", "ontarget VERSION", text)
    text = re.sub(r"[\d,.]+ (s|seconds|ms|µs|kB|MB|KiB|MiB|bytes)\b", r"N \1", text)
    text = re.sub(r"\d\.\d{7,}", lambda found: f"{float(found[0]):.6f}", text)  # of a stream
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in printed().items():
        (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")
