"""How good a monitor's probabilities are, compared with what a skilled user would write instead.

On real episodes, `GoalMonitor()` is compared with a boosted classifier and a logistic regression.
All learn from the same past episodes and are asked about new ones. On simulated episodes, the
distance to the true probability is measured.

    python bench/quality.py --data FOLDER --cache DIR --json found.json --markdown docs/quality.md
    python bench/quality.py --data FOLDER --cache DIR --beside OLDER_CHECKOUT --sets nfl chess

FOLDER contains boston.parquet, nfl_pbp.parquet, helpdesk.parquet and chess.parquet, one row per
(episode, step); without FOLDER, the real episodes are skipped. DIR stores every answer, with the
question and the version of the code, so that a second run computes only what has changed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from yardstick import tables
from yardstick.answers import Method, kept, methods
from yardstick.figures import keep
from yardstick.measures import Scores, score
from yardstick.page import renewed
from yardstick.pictures import draw_growth
from yardstick.questions import REAL, real_questions
from yardstick.truth import GROWING, MOST, PROCESSES, REPEATS, Distance, Process, told

# The first is compared with the others.
METHODS = ("ours", "before", "boosted", "logistic", "rival")

Grown = dict[int, dict[str, list[Distance]]]  # by number of past episodes, then method


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, help="folder of the real sets; without it they are skipped")
    every = (*REAL, *PROCESSES)
    add("--sets", nargs="+", choices=every, default=every, help="real sets and processes; all")
    add("--splits", type=int, default=10, help="splits by whole episode (10)")
    add("--beside", type=Path, help="an older checkout, measured as 'before'")
    add("--methods", nargs="+", choices=METHODS, default=METHODS, help="all by default")
    add("--cache", type=Path, help="folder that keeps every answer")
    add("--json", type=Path, help="file for all numbers")
    add("--figure", type=Path, help="PNG or SVG: distance to the truth by number of past episodes")
    add("--markdown", type=Path, help="page whose marked tables are renewed: docs/quality.md")
    add("--quick", action="store_true", help="2 splits of a quarter of the episodes, few processes")
    return parser.parse_args()


def measure_set(name: str, asked: argparse.Namespace, chosen: dict[str, Method]) -> dict:
    """Every method on every split of one log of real episodes; prints the tables."""
    part, splits = (0.25, 2) if asked.quick else (1.0, asked.splits)
    found: dict[str, list[Scores]] = {method: [] for method in chosen}
    sizes, share = (0, 0), 0.0
    for question in real_questions(name, asked.data, splits, part=part):
        sizes = tuple(int(rows.episode[-1]) + 1 for rows in (question.learn, question.asked))
        share += float(question.asked.met.mean()) / splits
        for method in chosen.values():
            answer = kept(method, question, asked.cache)
            found[method.name].append(score(question, answer.p, answer.seconds))
            print(f"{question.name}: {method.name}, {answer.seconds:.1f} s", file=sys.stderr)
    n_past, n_new = sizes
    print(
        f"\n== {name}: {REAL[name].says} (true of {100 * share:.0f} % of rows)\n"
        f"   {n_past:,} past and {n_new:,} new episodes, {splits} splits; where a method gives no "
        "answer, the past's rate at that step counts\n"
    )
    print(tables.score_table(found))
    print(
        "\nDifferences · 10⁴ with corrected standard errors; below 0 is better, * where it shows "
        "(95 %)"
    )
    print(tables.difference_table(found, n_new, n_past))
    print()
    print(tables.jump_table(found), flush=True)
    for measure in ("brier", "log_loss", "ece"):
        keep_beside(f"{measure.replace('_', ' ')}, {name}", found, measure)
    scores = {method: [one.plain() for one in each] for method, each in found.items()}
    return {"n_past": n_past, "n_new": n_new, "scores": scores}


def measure_process(name: str, asked: argparse.Namespace, chosen: dict[str, Method]) -> Grown:
    """How far every method is from the truth on one process, by number of past episodes."""
    with TemporaryDirectory() as folder:
        process = Process(name, asked.cache or Path(folder))
    sizes = [*REPEATS] if name in GROWING else [MOST]
    if asked.quick:
        sizes = sizes[:2]
    found: Grown = {}
    for size in sizes:
        own: dict[str, list[Distance]] = found.setdefault(size, {})
        for question in process.questions(size, REPEATS[size]):
            for method in chosen.values():
                answer = kept(method, question, asked.cache)
                print(f"{question.name}: {method.name}, {answer.seconds:.1f} s", file=sys.stderr)
                for told_by, p in told(method.name, answer).items():
                    own.setdefault(told_by, []).append(process.distance(question, p))
    return found


def measure_truth(asked: argparse.Namespace, chosen: dict[str, Method]) -> dict[str, Grown]:
    """How far every method is from the truth on every process; also prints and draws it."""
    names = [name for name in PROCESSES if name in asked.sets]
    if asked.quick:
        names = [name for name in names if name in GROWING[:2]]
    found = {name: measure_process(name, asked, chosen) for name in names}
    if found:
        print("\n== Distance to the truth: excess Brier score · 10⁴ / mean |p − p_true| · 10³")
    most = {name: grown[MOST] for name, grown in found.items() if MOST in grown}
    if most:
        print(f"\n{tables.distance_table(most, f'{MOST:,} past episodes')}")
    for name, own in most.items():
        keep_beside(f"excess Brier · 10⁴, {name}, {MOST:,} past episodes", own, "excess", 1e4)
    growing = {name: grown for name, grown in found.items() if len(grown) > 1}
    for name, grown in growing.items():
        by_size = {f"{size:,} past episodes": own for size, own in grown.items()}
        print(f"\n{tables.distance_table(by_size, name)}", flush=True)
    if asked.figure is not None and growing:
        draw_growth(growing, asked.figure)
    return found


def keep_beside(
    what: str,
    found: Mapping[str, Sequence[Scores | Distance]],
    measure: str,
    scale: float = 1.0,
) -> None:
    """Store the first method's mean of a measure, beside those of the other methods."""
    (_, own), *others = (
        (name, scale * sum(getattr(one, measure) for one in each) / len(each))
        for name, each in found.items()
    )
    keep(what, own, "", beside=", ".join(f"{name} {value:.3g}" for name, value in others))


def main() -> None:
    asked = options()
    available = methods(asked.beside)
    chosen = {name: available[name] for name in asked.methods if name in available}
    results: dict = {"real": {}}
    real = [name for name in REAL if name in asked.sets]
    if real and (asked.data is None or not asked.data.is_dir()):
        where = "no --data" if asked.data is None else f"no folder {asked.data}"
        print(f"{where}: {', '.join(real)} skipped")
        real = []
    for name in real:
        results["real"][name] = measure_set(name, asked, chosen)
    results["truth"] = {
        name: {
            size: {method: [one.plain() for one in each] for method, each in own.items()}
            for size, own in grown.items()
        }
        for name, grown in measure_truth(asked, chosen).items()
    }
    if asked.json is not None:
        asked.json.write_text(json.dumps(results, indent=1) + "\n")
    if asked.markdown is not None:
        asked.markdown.write_text(renewed(asked.markdown.read_text(), results))


if __name__ == "__main__":
    main()
