"""How good the probabilities are, beside what a competent user would write instead.

Real episodes: `GoalMonitor()` beside a boosted classifier and a logistic regression that learn
from every past episode, on splits by whole episode. Simulated ones: the distance to the truth.

    python bench/quality.py --data FOLDER --cache DIR --json found.json
    python bench/quality.py --data FOLDER --cache DIR --beside OLDER_CHECKOUT --sets nfl chess

FOLDER holds boston.parquet, nfl_pbp.parquet, helpdesk.parquet and chess.parquet, one row per
(episode, step); without it that part is skipped. The cache keeps every answer by question and by
code, so a rerun computes only what changed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from yardstick import tables
from yardstick.answers import Method, kept, methods
from yardstick.measures import Scores, score
from yardstick.questions import REAL, real_questions


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, help="folder of the real sets; without it they are skipped")
    add("--sets", nargs="+", choices=[*REAL], default=[*REAL], help="real sets; all by default")
    add("--splits", type=int, default=10, help="splits by whole episode (10)")
    add("--beside", type=Path, help="an older checkout, measured as 'before'")
    add("--methods", nargs="+", help="some of ours, before, boosted, logistic; all by default")
    add("--cache", type=Path, help="folder that keeps every answer")
    add("--json", type=Path, help="file for all numbers")
    add("--quick", action="store_true", help="2 splits of a quarter of the episodes")
    return parser.parse_args()


def measure_set(name: str, asked: argparse.Namespace, chosen: dict[str, Method]) -> dict:
    """Every method on every split of one real set; prints its tables."""
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
        f"   {n_past:,} past and {n_new:,} new episodes, {splits} splits\n"
    )
    print(tables.score_table(found))
    print(
        "\nDifferences · 10⁴ with corrected standard errors; below 0 is better, * beyond 2 of them"
    )
    print(tables.difference_table(found, n_new, n_past))
    print()
    print(tables.jump_table(found), flush=True)
    scores = {method: [one.plain() for one in each] for method, each in found.items()}
    return {"n_past": n_past, "n_new": n_new, "scores": scores}


def main() -> None:
    asked = options()
    available = methods(asked.beside)
    chosen = {name: available[name] for name in asked.methods or available}
    results: dict = {"real": {}}
    if asked.data is None or not asked.data.is_dir():
        where = "no --data" if asked.data is None else f"no folder {asked.data}"
        print(f"{where}: the real sets are skipped")
    else:
        for name in asked.sets:
            results["real"][name] = measure_set(name, asked, chosen)
    if asked.json is not None:
        asked.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
