"""``ontarget inspect``, ``drift`` and ``recalibrate``: what a model holds, and how it ages."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ontarget._progress import working
from ontarget._text import plain
from ontarget.cli.evaluate import log_of, starts_of
from ontarget.cli.mistakes import Exit
from ontarget.cli.options import (
    AsJson,
    CalibrationOption,
    Model,
    ModelOutput,
    ModelTargetOption,
    OrderOption,
    ReadsRuns,
    Runs,
    option,
    remark_lines,
    target_for,
)
from ontarget.cli.output import check_output, print_facts

if TYPE_CHECKING:
    from ontarget.episodes.history import History

# How episodes that were cut off were treated (method M24 in docs/methods.md).
_CENSORED = {
    "drop": "such episodes were left out, so those that remain may be a biased selection",
    "worst-case": "promises hold however such episodes would have ended",
    "weights": "such episodes were left out, and others at random to make up for it",
    "horizon": "only episodes that could run up to the horizon were used, each up to the horizon",
}


def inspect(model: Model, as_json: AsJson = False) -> None:
    """Show what a model file contains, after checking every byte of it."""
    from ontarget.episodes import Schema
    from ontarget.episodes.history import history_from
    from ontarget.fitted.choices import Choices
    from ontarget.modelfile.several import inspect_any
    from ontarget.reading.look import listed

    with working(f"checking {model.name}"):
        found = inspect_any(model)
    if as_json:
        typer.echo(json.dumps(found, sort_keys=True))
        return
    sizes = sorted(found["sizes"].items(), reverse=True)  # learn, or train, first; assure last
    features = Schema.from_json(found["features"])
    blocks, chosen = len(found["blocks"]), Choices.from_json(found["chosen"])
    lines = {
        "file": f"{plain(model)}, {found['bytes'] / 1e6:.1f} MB, every byte checked",
        "policy": plain(found["parameters"]["policy"] or "not named"),
        "horizon": f"{found['horizon']} steps, {blocks} model{'s' * (blocks != 1)} of kind "
        f"{', '.join(sorted({kind for kind in found['kinds'] if kind}))}",
        **({"blocks": chosen.blocks_in_words} if found["horizon"] > 1 else {}),
        **({"experts": chosen.experts_in_words} if chosen.experts else {}),
        "features": listed(features) + _recalled(history_from(found["history"], features)),
        **_behaviors(found),
        "episodes": ", ".join(f"{size:,} {part}" for part, size in sizes),
        **_outcomes(found),
        **({"target": plain(found["target"])} if "target" in found else {}),
        "cut off": _CENSORED.get(found["censoring"], "no episode is marked as cut off"),
        "groups": ", ".join(map(plain, found["groups"])) if found["groups"] else "none",
        "p": _p(found["mapped_from"]),
        **({} if chosen.held_out is None else {"held out": chosen.held_out.in_words}),
        "alarms": _alarms(dict(sizes)),
        **({"never": _never(found["impossible"])} if found["impossible"] else {}),
        "grid": f"outcomes are rounded to the nearest multiple of {found['grid']:g}",
    }
    print_facts("\n".join(f"{name:<10} {text}" for name, text in lines.items()))


def _behaviors(found: dict[str, Any]) -> dict[str, str]:
    """A line for ``inspect``, as a label and a text: the behaviors that runs are judged by."""
    several = found.get("behaviors")
    if several is None:
        return {"behavior": plain(found["behavior"])}
    return {"behaviors": plain(", ".join(f"{name} ({spec})" for name, spec in several.items()))}


def _outcomes(found: dict[str, Any]) -> dict[str, str]:
    """A line for ``inspect``: how the learning runs ended, and of which targets p knows nothing."""
    several = found["outcomes"] if "behaviors" in found else {"": found["outcomes"]}
    said = [
        f"{f'{plain(name)} ' * bool(name)}{one['least']:.6g} to {one['most']:.6g}"
        for name, one in several.items()
        if one
    ]
    if not said:
        return {}
    text = f"{', '.join(said)} in the learning runs; p has nothing to learn from for a target that "
    return {"outcomes": f"{text}all of these met, or none"}


def _recalled(history: History) -> str:
    """Text: what the models read of a run besides its present state; empty if nothing."""
    if history.steps:
        steps = "the step" if history.steps == 1 else f"the {history.steps} steps"
        also = f"those of {steps} before, the rewards there"
        return f"; also {also}, and the means over all steps so far"
    said = []
    if history.counts:
        said.append(f"how often {len(history.counts)} categories occurred so far")
    if history.changes:
        said.append(f"changes and means so far of {len(history.changes)} features")
    return f"; also {' and '.join(said)}" if said else ""


def _never(outcomes: list[float]) -> str:
    """A sentence that lists the outcomes to which the model gives probability 0."""
    return f"no recorded run ended in {', '.join(f'{one:g}' for one in outcomes)}: probability 0"


def _p(episodes: int) -> str:
    """Text: how p is calibrated, given how many learning episodes are kept for that."""
    if not episodes:
        return "calibrated with the ranks of the calibration episodes, as in the paper"
    return f"each target has its own calibration curve, learned from {episodes:,} learning episodes"


def _alarms(sizes: dict[str, int]) -> str:
    """Text: whether the false-alarm rates of this model are promised or only measured."""
    if sizes["assure"]:
        return "their rates are promised by the assure episodes"
    if "learn" in sizes:
        return "without assure episodes their rates are measured, not promised"
    return "without assure episodes they have no rates"


@dataclass(frozen=True, kw_only=True)
class DriftCommand(ReadsRuns):
    """Check on new episodes whether the process has changed, since when, and whether for the worse.

    The new episodes are compared with the model's assure episodes, which the fit held out. Pass
    only runs in which nobody acted on an alarm.
    """

    model: Model
    runs: Runs
    target: ModelTargetOption = None
    order: OrderOption = None
    by: Annotated[
        list[str] | None,
        option(
            "Say how far p is off for each value of this column, such as a season or a "
            "machine; can be repeated.",
            "NAME",
        ),
    ] = None
    at: Annotated[int, option("The step at which runs are compared.", "STEP", min=0)] = 0
    level: Annotated[
        str, option("The least probability that no change is reported if there is none.", "LEVEL")
    ] = "0.99"
    calibration: CalibrationOption = "target"
    fail_on_change: Annotated[
        bool,
        option(
            f"Exit with {int(Exit.CHECK)} if something has changed, for scheduled checks.",
            "",
            "--fail-on-change",
        ),
    ] = False
    as_json: AsJson = False

    def run(self) -> None:
        """Compare the new episodes with the assure episodes, and print what has changed."""
        from ontarget import GoalMonitor

        monitor = GoalMonitor.load(self.model)
        wanted = target_for(monitor, self.target)
        recorded, log = self.read(self.runs, monitor), None
        if self.order is not None or self.by:
            log = log_of(self.runs, recorded, {**self.columns, "like": monitor})
        times, parts = starts_of(log, len(recorded), self.order, self.by or ())
        with working("comparing"):
            found = monitor.drift(
                recorded,
                wanted,
                order=times,
                by=parts,
                t=self.at,
                level=self.level,
                calibration=self.calibration,
            )
        if self.as_json:
            typer.echo(json.dumps(found.to_json() | {"remarks": recorded.remarks}, sort_keys=True))
        else:
            print_facts("\n".join(filter(None, [remark_lines(recorded), str(found)])))
        if self.fail_on_change and found.changed:
            raise typer.Exit(Exit.CHECK)


@dataclass(frozen=True, kw_only=True)
class RecalibrateCommand(ReadsRuns):
    """Base a model's promises on new episodes, without fitting the model again.

    Use it for a process that has changed a little: an updated policy, another season. The model and
    p stay as they are. Bounds, alarms and the drift guard are computed from the new episodes alone,
    and the output says what this number of episodes can promise.
    """

    model: Model
    runs: Runs
    output: ModelOutput
    renew_p: Annotated[
        bool,
        option(
            "Use half of the new episodes to correct p; the other half supports the promises.",
            "",
            "--renew-p",
        ),
    ] = False
    seed: Annotated[
        int, option("The seed for choosing that half and for random draws.", "N", min=0)
    ] = 0
    as_json: AsJson = False

    def run(self) -> None:
        """Recalibrate, write the new model, and say what it can promise."""
        check_output(self.output)
        from ontarget import GoalMonitor

        monitor = GoalMonitor.load(self.model)
        recorded = self.read(self.runs, monitor)
        with working("recalibrating"):
            renewed = monitor.recalibrate(recorded, renew_p=self.renew_p, seed=self.seed)
        renewed.save(self.output)
        size, trained = self.output.stat().st_size, renewed.contracts.fitted.trained
        if self.as_json:
            found = {"file": str(self.output), "bytes": size, "remarks": recorded.remarks}
            typer.echo(json.dumps({**found, **renewed.sizes}))
            return
        told = [
            recorded.describe(),
            renewed.summary(),
            f"model      {plain(self.output)}, {size / 1e6:.1f} MB: {trained.in_words}",
        ]
        print_facts("\n".join(filter(None, told)))
