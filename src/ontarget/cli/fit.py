"""``ontarget fit``: a model from recorded episodes."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ontarget._text import plain
from ontarget.cli.mistakes import as_option
from ontarget.cli.options import (
    TARGET_HELP,
    AsJson,
    MaxLearn,
    ModelOutput,
    ReadsRuns,
    Runs,
    described,
    option,
    target_of,
    targets_read,
    unseen_line,
)
from ontarget.cli.output import check_output, print_facts
from ontarget.errors import EpisodesWarning

if TYPE_CHECKING:
    from ontarget import Episodes, GoalMonitor
    from ontarget._typing import FloatArray
    from ontarget.episodes.behavior import Bounds
    from ontarget.fitted.fitted import Fitted
    from ontarget.reading import Look


@dataclass(frozen=True, kw_only=True)
class FitCommand(ReadsRuns):
    """Learn from recorded episodes, calibrate, and write a model file.

    The file has one row per episode and step. Columns are recognised by their names, and the
    output says which column was taken for what. To choose a column yourself, use its option.
    """

    runs: Runs
    output: ModelOutput
    target: Annotated[
        str | None,
        option(
            f"{TARGET_HELP} The model file keeps it, so that later commands need none; they "
            "may still ask about another.",
            "LO:HI",
            callback=targets_read,
        ),
    ] = None
    preset: Annotated[str, option("How to fit: default, or as in the paper.", "NAME")] = "default"
    model: Annotated[str | None, option("A kind of model, such as quantile_network.", "NAME")] = (
        None
    )
    history: Annotated[
        int | None,
        option(
            "Also read this many earlier steps; by default the runs decide what is read.",
            "K",
            min=0,
        ),
    ] = None
    policy: Annotated[str, option("A label for the policy that was recorded.", "TEXT")] = ""
    seed: Annotated[int, option("The same data and seed give the same file.", "N", min=0)] = 0
    assure: Annotated[
        float | None,
        option(
            "Share of episodes that is kept for promises, not learned from. 0: learn from all "
            "and promise nothing.",
            "SHARE",
            show_default="0.2",
        ),
    ] = None
    max_learn: MaxLearn = 20_000
    reward_bounds: Annotated[
        str | None,
        option(
            "The least and most that one step can ever earn; for several behaviors "
            "NAME=LO:HI,NAME=LO:HI.",
            "LO:HI",
        ),
    ] = None
    engine: Annotated[str, option("Where to fit: local, dask or ray.", "NAME")] = "local"
    address: Annotated[
        str | None,
        option(
            "The address of the dask or ray cluster: tcp://HOST:8786 for dask, HOST:6379 or "
            "auto for ray. By default one is started on this machine.",
            "ADDRESS",
        ),
    ] = None
    checkpoint: Annotated[
        Path | None, option("A folder from which a fit that was killed can resume.", "FOLDER")
    ] = None
    precedents: Annotated[
        bool,
        option("Keep the ids of the runs learned from, so that `explain` can name precedents.", ""),
    ] = True
    paths: Annotated[
        bool | None,
        option(
            "Keep the steps of the runs learned from, to predict bands for later steps.",
            "",
            show_default="up to five million steps",
        ),
    ] = None
    as_json: AsJson = False

    def run(self) -> None:
        """Read, look, fit, write, and say what to do next."""
        check_output(self.output)
        bounds = _bounds_of(self.reward_bounds)
        recorded = self.read(self.runs)
        # Loaded only now: it takes seconds, and most mistakes are about the file.
        from ontarget import GoalMonitor
        from ontarget.fitting.engines import check_engine

        check_engine(self.engine, self.address)
        monitor = GoalMonitor(
            self.model,
            preset=self.preset,  # type: ignore[arg-type]  # it checks itself
            group=self.columns.get("group"),
            reward_bounds=bounds,
            policy=self.policy,
            history=self.history,
        )
        looked = self._looked(recorded)
        self._fitted(monitor, recorded, looked)
        monitor.save(self.output)
        if self.as_json:
            typer.echo(json.dumps(self._facts(monitor, recorded, looked)))
        else:
            print_facts(self._told(monitor, recorded))

    def _looked(self, recorded: Episodes) -> list[Look]:
        """What to clear up before the fit, for each behavior; printed unless as JSON."""
        from ontarget.reading import PreparedEpisodes

        # look() reads whole columns, so of prepared episodes it gets only the learning part.
        prepared = recorded.is_prepared
        seen = PreparedEpisodes(self.runs).part("learn").compact() if prepared else recorded
        if not self.as_json:
            print_facts(described(recorded))
        each = [seen.only(name) for name in seen.names] or [seen]
        looked = [one.look() for one in each]
        standing_out = dict.fromkeys(filter(None, (one.head(as_option) for one in looked)))
        if standing_out and not self.as_json:
            print_facts("\n".join(standing_out))
        return looked

    def _fitted(self, monitor: GoalMonitor, recorded: Episodes, looked: list[Look]) -> None:
        from ontarget.fitting.engines import connected

        with connected(self.engine, self.address) as where, warnings.catch_warnings():
            if any(caution.kind == "outliers" for one in looked for caution in one.cautions):
                warnings.simplefilter("ignore", EpisodesWarning)  # said already
            monitor.fit(
                self.runs if recorded.is_prepared else recorded,
                target=None if self.target is None else target_of(self.target),
                assure=self.assure,
                max_learn=self.max_learn,
                seed=self.seed,
                engine=where,
                checkpoint=self.checkpoint,
                progress=not self.as_json,
                precedents=self.precedents,
                paths=self.paths,
            )

    def _facts(
        self, monitor: GoalMonitor, recorded: Episodes, looked: list[Look]
    ) -> dict[str, Any]:
        """What was fitted and written, for programs."""
        roles, coded = recorded.roles, recorded.recoded(monitor.schema)
        return {
            "file": str(self.output),
            "bytes": self.output.stat().st_size,
            "columns": {"episode": roles.episode, "step": roles.step, "reward": roles.reward},
            "remarks": recorded.remarks,
            "unknown_steps": _unknown(monitor),
            "unseen": coded.unseen,
            "unknown_categories": [one.to_json() for one in coded.strangers],
            "cautions": [caution for one in looked for caution in one.to_json()["cautions"]],
            **monitor.sizes,
        }

    def _told(self, monitor: GoalMonitor, recorded: Episodes) -> str:
        """What was fitted and written, and what to do next, for people."""
        unknown, size = _unknown(monitor), self.output.stat().st_size
        told = [
            _caution(unknown, recorded, monitor) if unknown else "",
            unseen_line(recorded.recoded(monitor.schema)),
            _one_sided(recorded) if self.reward_bounds is None and not recorded.names else "",
            monitor.summary(),
            f"model      {plain(self.output)}, {size / 1e6:.1f} MB: "
            f"{_alone(monitor).trained.in_words}",
            _next_step(monitor, recorded, self.output),
        ]
        return "\n".join(filter(None, told))


def _bounds_of(text: str | None) -> Bounds | dict[str, Bounds] | None:
    """The least and the most reward per step, from LO:HI or, for several behaviors, NAME=LO:HI."""
    if text is None or "=" not in text:
        return None if text is None else _one_bound(text, text)
    named = [one.partition("=") for one in text.split(",")]
    return {name.strip(): _one_bound(bounds, text) for name, _, bounds in named}


def _one_bound(bounds: str, text: str) -> Bounds:
    try:
        low, high = (float(end) if end.strip() else None for end in bounds.split(":"))
    except ValueError as error:
        raise typer.BadParameter(
            "--reward-bounds needs LO:HI, LO: or :HI, or NAME=LO:HI,… for several behaviors, got "
            f"{text!r}"
        ) from error
    return low, high


def _one_sided(recorded: Episodes) -> str:
    """A hint, as text, to declare reward bounds if no reward was below 0, or none above 0."""
    earned = recorded.reward_range
    if earned is None or not (earned[0] >= 0.0 or earned[1] <= 0.0):
        return ""
    side, bounds = ("below", "0:") if earned[0] >= 0.0 else ("above", ":0")
    return (
        f"hint       no reward {side} 0 was seen; if there can be none, pass --reward-bounds "
        f"{bounds} (p is then exactly 0 or 1 as soon as these bounds decide a run)"
    )


def _unknown(monitor: GoalMonitor) -> list[int]:
    """The steps at which the monitor answers UNKNOWN, because too few episodes reach them."""
    fitted = _alone(monitor)
    groups = range(fitted.n_groups)
    return [t for t in range(fitted.horizon) if any(fitted.unknown(t, g) for g in groups)]


def _alone(monitor: GoalMonitor) -> Fitted:
    """The monitor's fitted models; if it has several behaviors, those of the first one.

    Use them for what is the same for all behaviors.
    """
    names = list(monitor.readings)
    return monitor.only(names[0]).fitted if names else monitor.fitted


def _caution(unknown: list[int], recorded: Episodes, monitor: GoalMonitor) -> str:
    first, least = unknown[0], monitor.min_calibration
    to_the_end = unknown == list(range(first, monitor.horizon))
    steps = f"from step {first} on" if to_the_end else f"at {len(unknown):,} steps"
    last = int((recorded.lengths > first).sum())
    bounded = any(map(math.isfinite, _alone(monitor).reward_bounds))
    unless = ", unless the target is decided by then" * bounded
    return (
        f"caution    {steps} the monitor will say UNKNOWN instead of a probability{unless}: fewer "
        f"than {least} episodes to learn from get there ({last:,} of all {len(recorded):,} "
        "episodes do)"
    )


def _next_step(monitor: GoalMonitor, recorded: Episodes, output: Path) -> str:
    """Text: what to do after a fit, with targets that most of these runs met."""
    gap, command = " " * 11, f"next       ontarget evaluate {plain(output)} NEW_RUNS"
    checks = f"{gap}checks it on runs that it has not seen"
    if monitor.target is not None:
        target = plain(str(monitor.target))
        return f"{command}\n{checks}, for the target {target}; --target asks about another"
    if recorded.names:
        met = _often_met({name: recorded.only(name).outcomes for name in recorded.names})
        command += " --target 'GOAL'"
        join = f". Join conditions by &: four in five of the\n{gap}runs above met each of these: "
        return f"{command}\n{checks}{join}{', '.join(met)}" if met else command
    met = _often_met({"": recorded.outcomes})
    each = f". Four in five of the runs above met each\n{gap}of these targets: "
    return f"{command} --target TARGET\n{checks}" + (each + ", ".join(met) if met else "")


def _often_met(outcomes: dict[str, FloatArray]) -> list[str]:
    """Targets that four in five runs met; of named behaviors, conditions of a goal."""
    import numpy as np

    found = []
    for name, ended in outcomes.items():
        low, high = np.quantile(ended, [0.2, 0.8])
        # A target that every run met would be of no use: p has nothing to learn from.
        if low > ended.min():
            found.append(f"{name}>={low:.3g}" if name else f"{low:.3g}: (at least {low:.3g})")
        if high < ended.max() and not name:
            found.append(f":{high:.3g} (at most {high:.3g})")
    return found
