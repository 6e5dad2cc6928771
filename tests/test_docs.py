"""What the pages in docs/ show, run; what they point to, there; what is built, up to date."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MARKDOWN = [
    *(page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "api"),
    *sorted(ROOT.glob("*.md")),
    ROOT / "examples/README.md",
]


def script(path: str) -> ModuleType:
    """A script of docs/ as a module."""
    name = Path(path).name
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{path}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


run_pages = script("run_pages")
write_api = script("write_api")
API = write_api.written()  # the pages of the site that are not in the repository


# They fit monitors, or simulate thousands of runs; the tutorial is run with every change.
SLOW = {
    *("deployment", "environments", "goals", "guarantees", "guide-rl", "live-protocol", "service"),
    *("skirmish", "why", "your-own-logs"),
}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else [])
        for path in run_pages.pages()
    ],
)
def test_the_page_shows_the_true_output(page: Path, tmp_path: Path) -> None:
    # To renew the pages: python docs/run_pages.py --update
    differences = run_pages.check(page.read_text(), tmp_path)
    assert not differences, "\n\n".join(differences)


def test_every_public_name_has_its_place_in_the_reference() -> None:
    import ontarget

    text = "".join(API.values())
    for name in ontarget.__all__:
        assert name.startswith("__") or f"\n## {name}\n" in text, f"{name} is described nowhere"


def test_a_quoted_section_of_the_method_becomes_a_link_with_words() -> None:
    anchor = "m8-alarms-with-a-promised-rate-beyond-the-paper"
    linked = f"the rate ([method: Alarms with a promised rate](../methods.md#{anchor}))."
    for quoted in ("(M8)", "(method M8)", "(method M8 in docs/methods.md)"):
        assert write_api.markdown(f"the rate {quoted}.") == linked
    alone = write_api.markdown("See method M8 in docs/methods.md.")
    assert alone == f"See [method: Alarms with a promised rate](../methods.md#{anchor})."
    assert write_api.markdown("(methods M8 and M9 in docs/methods.md)").count("](") == 2
    assert write_api.markdown("no such section (M99)") == "no such section (M99)"


def test_what_a_public_class_defines_is_described_there_alone() -> None:
    pages = API
    assert pages["errors.md"].count("### OntargetError.told") == 1
    assert pages["errors.md"].count(".told\n") == 1
    assert "### Below.trigger" in pages["live.md"]  # its own
    assert "### Below.clearing" not in pages["live.md"]
    below = pages["live.md"].split("\n## Below\n")[1].split("\n## ")[0]
    assert "[`AlarmRule`](live.md#alarmrule): `alarming`, `clearing`." in below
    # A private base has no entry, so what it defines stays with the class.
    assert "### GoalMonitor.watch" in pages["monitor.md"]


def test_what_a_monitor_hands_out_is_described() -> None:
    page = API["monitor.md"]
    for name in write_api.HANDED_OUT.values():
        assert f"\n## {name}\n" in page


@pytest.mark.parametrize("accuracy", [0.05, 0.03, 0.02, 0.01])
def test_the_table_of_episodes_agrees_with_the_plan(accuracy: float) -> None:
    from ontarget.conformal.levels import plan_sizes

    page = (DOCS / "how-many-episodes.md").read_text()
    row = re.search(rf"^\| ± {accuracy} \|(.*)\|$", page, flags=re.M)
    assert row is not None
    shown = [int(cell.replace(",", "")) for cell in row[1].split("|")]
    plan = plan_sizes(accuracy, 0.95)
    by_level = (plan.coverage[0.9], plan.coverage[0.95])
    assert shown == [plan.at_one_threshold, plan.at_all_thresholds, *by_level]


def test_the_picture_of_the_layers_is_up_to_date() -> None:
    drawn = script("draw_layers")
    assert drawn.PICTURE.read_text() == drawn.picture()
    for layer in drawn.LAYERS:
        for part in layer.name.split(" · "):
            source = ROOT / "src" / "ontarget" / part
            assert source.exists() or source.with_suffix(".py").exists(), f"no layer {part}"


def anchors(page: str) -> set[str]:
    """The names by which a page's headings are pointed to."""
    headings = re.findall(r"^#+ (.+)$", page, flags=re.M)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)
    return set(plain)


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("http"):
            continue
        file, _, anchor = link.partition("#")
        aim = path.parent / file if file else path
        text = API.get(aim.name) if aim.parent.name == "api" else None
        assert text is not None or aim.exists(), f"{path.name} links to {link}"
        if anchor:
            assert anchor in anchors(text or aim.read_text()), f"{path.name} links to {link}"


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_line_is_dropped_from_the_site_as_a_comment(path: Path) -> None:
    # MyST takes a line that begins with "%" for a comment, and "+ " would begin a list.
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.S)
    dropped = re.findall(r"^[ \t]*(?:%|\+ ).*$", text, flags=re.M)
    assert not dropped, f"{path.name} has lines that the site drops or turns into a list"


def test_every_page_has_its_place_in_the_order_of_the_site() -> None:
    # docs/README.md is the one list: a page that it does not name would be missing from the site.
    order = script("site/order")
    sections = order.sections(ROOT / order.ORDER)
    listed = [page for _, pages in sections for page in pages]
    assert len(listed) == len(set(listed))
    pages = {DOCS / "api/README.md", DOCS / "paper/README.md", *DOCS.glob("*.md")}
    assert pages - {DOCS / "README.md"} <= set(listed)
    wanted = ["What it is", "Ten minutes", "Guides", "How-tos", "Reference", "Method"]
    assert [name for name, _ in sections] == [*wanted, "Guarantees", "Studies", "Changes"]


@pytest.mark.slow
def test_the_site_is_built_without_a_broken_link_and_asks_no_other_host(tmp_path: Path) -> None:
    def build() -> None:
        words = [sys.executable, DOCS / "site/build.py", "--into", tmp_path]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    older = tmp_path / "0.0.1"
    older.mkdir()
    (older / "index.html").write_text("<p>an older version</p>")
    script("site/versions").enter(tmp_path, "0.0.1")
    build()
    menu = (tmp_path / "versions.js").read_text()
    newer = next(path for path in tmp_path.iterdir() if path.is_dir() and path != older)
    assert menu.index(f'"{newer.name}"') < menu.index('"0.0.1"')  # newest first
    assert f"{newer.name}/index.html" in (tmp_path / "index.html").read_text()
    assert (newer / "docs/paper/index.html").exists()
    assert "GoalMonitor" in (newer / "searchindex.js").read_text()


@pytest.mark.parametrize(
    "loads",
    [
        '<script src="https://a.org/x.js"></script>',
        '<link rel="stylesheet" href="//a.org/x.css">',
        '<img alt="" src="http://a.org/x.png">',
    ],
)
def test_what_a_page_would_load_from_another_host_is_found(loads: str, tmp_path: Path) -> None:
    foreign = script("site/versions").foreign
    (tmp_path / "one.html").write_text('<a href="https://a.org">a link may lead anywhere</a>')
    assert foreign(tmp_path) == []
    (tmp_path / "two.html").write_text(loads)
    assert len(foreign(tmp_path)) == 1


PAGE = """# Title

```console
$ echo one; echo two >&2
one
two
$ false
[exit code 1]
```

```python
x = 2
print(f"{x + 1} in 3.1 s")
```

```text
3 in 3.1 s
```

```python
# file kept.txt
kept
```

```console
$ cat kept.txt
kept
```

```python
from ontarget import Target

Target(5, 3)
```

```text
TargetError: target needs lower <= upper, got [5, 3]
```

<!-- run
print("| a |")
-->
| a |

The end.
"""


def test_a_true_page_has_no_differences_and_is_left_as_it_is(tmp_path: Path) -> None:
    assert run_pages.check(PAGE, tmp_path) == []
    assert run_pages.updated(PAGE, tmp_path) == PAGE


@pytest.mark.parametrize("word", ["two", "3 in", "kept\n```\n\n```python\nfrom", "[5, 3]", "| a |"])
def test_a_false_output_is_found_and_corrected(word: str, tmp_path: Path) -> None:
    at = PAGE.rindex(word)
    false = PAGE[:at] + "X" + PAGE[at:]
    assert len(run_pages.check(false, tmp_path)) == 1
    assert run_pages.updated(false, tmp_path) == PAGE


def test_only_durations_may_differ(tmp_path: Path) -> None:
    assert run_pages.check(PAGE.replace("3 in 3.1 s\n", "3 in 0.25 s\n"), tmp_path) == []


def test_a_block_that_is_said_not_to_be_run_is_not(tmp_path: Path) -> None:
    page = "<!-- not run: no such thing -->\n```python\nnothing\n```\n"
    assert run_pages.shown_in(page) == []
    assert len(run_pages.shown_in(page.replace("not run:", "now run:"))) == 1


def test_an_output_that_no_block_shows_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no text block"):
        run_pages.updated("```python\nprint(1)\n```\n", tmp_path)
