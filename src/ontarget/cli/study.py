"""``ontarget inspect`` and ``ontarget evaluate``: what a model file holds, and how good it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ontarget.monitor.evaluation import Evaluation

__all__ = ["evaluate", "inspect"]


def inspect(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Say what a model file holds, after checking every byte of it."""
    from ontarget.monitor.file import inspect_file

    found = inspect_file(model)
    if as_json:
        typer.echo(json.dumps(found, sort_keys=True))
        return
    sizes = found["sizes"]
    names = [feature["name"] for feature in found["features"]]
    blocks = len(found["blocks"])
    lines = {
        "file": f"{model}, {found['bytes'] / 1e6:.1f} MB, checked",
        "policy": found["policy"] or "not named",
        "horizon": f"{found['horizon']} steps, {blocks} models of kind {found['kind']}",
        "features": ", ".join(names) or "none",
        "behavior": found["behavior"],
        "episodes": f"{sizes['train']:,} train, {sizes['calibrate']:,} calibrate, "
        f"{sizes['assure']:,} assure",
        "groups": ", ".join(map(str, found["groups"])) if found["groups"] else "none",
        "grid": f"outcomes are compared to the nearest {found['grid']:g}",
    }
    for name, text in lines.items():
        typer.echo(f"{name:<10} {text}")


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    runs: Annotated[Path, typer.Argument(help="Episodes it has never seen: .parquet or .csv.")],
    target: Annotated[str, typer.Option(help="LO:HI, LO: or :HI; several joined by commas.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Measure on new episodes whether what is given 80 % comes true 80 times in 100."""
    from ontarget import Episodes, GoalMonitor, Target

    monitor = GoalMonitor.load(model)
    wanted = Target.parse(target)
    found = monitor.evaluate(Episodes.read(runs), wanted)
    if as_json:
        typer.echo(json.dumps(_measures(found), sort_keys=True))
    else:
        typer.echo(found.summary())
        typer.echo(reliability_table(found))


def _measures(found: Evaluation) -> dict[str, Any]:
    return {
        "target": str(found.target),
        "episodes": int(found.met.size),
        "met": float(found.met.mean()),
        "ece": found.ece()._asdict(),
        "brier": found.brier()._asdict(),
        "log_loss": found.log_loss()._asdict(),
        "raw": {
            "ece": found.ece("raw")._asdict(),
            "brier": found.brier("raw")._asdict(),
            "log_loss": found.log_loss("raw")._asdict(),
        },
    }


def reliability_table(found: Evaluation, bins: int = 5) -> str:
    """What was said, and what came of it, in a few lines."""
    from ontarget.evaluation import pool, reliability

    pooled = pool(found.p, found.met)
    table = reliability(pooled.p, pooled.met, bins=bins, episode=pooled.episode)
    lines = ["           said      came true"]
    lines += [
        f"           {table.mean_p[k]:6.1%}    {table.rate_met[k]:6.1%}   "
        f"({table.count[k]:,} forecasts)"
        for k in range(bins)
        if table.count[k]
    ]
    return "\n".join(lines)
