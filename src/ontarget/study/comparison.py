"""`study`: a monitor and classifiers learn from the same episodes and forecast new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ontarget._arguments import whole_number
from ontarget._numerals import percent
from ontarget._progress import progress_bar
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.episodes import Episodes
from ontarget.episodes.splits import ByGroup
from ontarget.errors import Argument, EpisodesError, FewEpisodesError, Placeholder
from ontarget.evaluation import Difference, brier, corrected_difference, log_loss
from ontarget.goal import Goal
from ontarget.monitor.monitor import GoalMonitor
from ontarget.study._classifiers import RIVALS
from ontarget.study._rows import Rows, met_by, rows_of
from ontarget.target import Target

OURS: Final = "ontarget"
BASELINE: Final = "the past's rate"
_PAST: Final = 2 / 3  # of the episodes are learned from in each split
_FEWEST, _FEWEST_OF_A_KIND = 60, 10
_MEASURES: Final = {"brier": "Brier", "log_loss": "log loss"}  # proper: nobody gains by hedging


@dataclass(frozen=True)
class Study:
    """A monitor beside classifiers on the same new episodes; prints as a table and a verdict.

    Attributes
    ----------
    target
        The target that was forecast.
    n_past, n_new
        How many episodes each split learns from, and how many it forecasts.
    scores
        By method, then by measure (``brier``, ``log_loss``, and ``unanswered``, the share of steps
        without an answer): one number per split.
    why
        Why the monitor gave no answer at some steps; empty if it always gave one.
    """

    target: Target | Goal
    n_past: int
    n_new: int
    scores: Mapping[str, Mapping[str, Sequence[float]]]
    why: str = ""

    def difference(self, rival: str, measure: str = "brier") -> Difference:
        """The monitor's measure minus the rival's, with a 95 % interval: below 0 it is better.

        The interval is that of `corrected_difference`.
        """
        drawn = np.subtract(self.scores[OURS][measure], self.scores[rival][measure])
        return corrected_difference(drawn, n_past=self.n_past, n_new=self.n_new)

    def standing(self, rival: str) -> str:
        """Whether the monitor is better or worse than a rival, mixed, or no difference is shown."""
        return standing_of([self.difference(rival, measure) for measure in _MEASURES])

    @property
    def verdict(self) -> str:
        """One sentence: how the monitor compares with each classifier, and what to do."""
        stood: dict[str, list[str]] = {}
        for rival in self.scores.keys() - {OURS, BASELINE}:
            stood.setdefault(self.standing(rival), []).append(rival)
        said = {
            "better": "ontarget is better than the {}",
            "worse": "ontarget is worse than the {}",
            "mixed": "ontarget is neither better nor worse than the {}",
            "no difference shown": "no difference from the {} is shown",
        }
        told = [
            words.format(" and the ".join(sorted(stood[standing])))
            for standing, words in said.items()
            if standing in stood
        ]
        if "worse" in stood:
            told.append(
                "features that sum up earlier steps, or more runs, may close the gap; if this one "
                "target is all you ask about and you need no promises, use the classifier"
            )
        elif self.difference(BASELINE).value >= 0.0:
            told.append("the past's rate is as good, so these features do not help yet")
        return "; ".join(told)

    def __str__(self) -> str:
        """The table of scores, and the verdict."""
        table = [["", *(text for name in _MEASURES.values() for text in (name, "ours − its"))]]
        for method, scores in self.scores.items():
            row = [method]
            for measure in _MEASURES:
                beside = "" if method == OURS else _written(self.difference(method, measure))
                row += [f"{np.mean(scores[measure]):.4f}", beside]
            table.append(row)
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in table
        ]
        lines += [
            "",
            "ours − its: below 0, ontarget is better; ± is the reach of the 95 % interval",
        ]
        share = float(np.mean(self.scores[OURS]["unanswered"]))
        if share:
            lines.append(
                f"no answer  at {percent(share, fixed=True)} of the steps, scored with the past's "
                f"rate: {self.why}"
            )
        return "\n".join([*lines, f"verdict    {self.verdict}"])

    def to_json(self) -> dict[str, Any]:
        """The study as plain JSON values."""
        rivals = [name for name in self.scores if name != OURS]
        return {
            "target": str(self.target),
            "splits": len(self.scores[OURS]["brier"]),
            "past": self.n_past,
            "new": self.n_new,
            "level": 0.95,
            "scores": {
                method: {measure: float(np.mean(each)) for measure, each in scores.items()}
                for method, scores in self.scores.items()
            },
            "differences": {
                rival: {name: self.difference(rival, name)._asdict() for name in _MEASURES}
                for rival in rivals
            },
            "standing": {rival: self.standing(rival) for rival in rivals},
            "verdict": self.verdict,
        }


def study(
    episodes: Episodes,
    target: Target | Goal,
    *,
    monitor: GoalMonitor | None = None,
    splits: int = 5,
    seed: int = 0,
    progress: bool = True,
) -> Study:
    """Compare a monitor with two classifiers, on random splits of your own episodes.

    In every split all methods learn from the same two thirds of the episodes and forecast the other
    third at every step. The monitor keeps a part of its episodes for its promises; the classifiers
    learn from all of them. Where the monitor does not answer, the past rate of success is used.

    Parameters
    ----------
    episodes
        Recorded episodes.
    target
        The outcomes that count as success; for episodes with several behaviors, a goal.
    monitor
        An unfitted monitor, `GoalMonitor()` by default; each split fits a copy of it.
    splits
        How many random splits of the episodes to make.
    seed
        The same episodes and seed give the same study.
    progress
        Whether to show a progress bar.

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget import Episodes, Target
    >>> from ontarget.study import study
    >>> rng = np.random.default_rng(0)
    >>> walks = Episodes.from_arrays(rng.normal(size=(120, 3, 1)), rng.normal(size=(120, 3)))
    >>> found = study(walks, Target.at_least(0.0), splits=2, progress=False)
    >>> found.standing("boosted classifier")
    'no difference shown'
    """
    whole_number("splits", splits, least=2)
    _check(episodes, target)
    if isinstance(target, Goal) and target.only is not None:
        name, target = target.only
        episodes = episodes.only(name)
    asked = GoalMonitor() if monitor is None else monitor
    names = [OURS, *RIVALS, BASELINE]
    scores: dict[str, dict[str, list[float]]] = {
        name: {"brier": [], "log_loss": [], "unanswered": []} for name in names
    }
    n_past = n_new = 0
    why = ""
    fits = len(names) - 1
    with progress_bar("fitting", splits * fits, unit="fits", shown=progress) as reached:
        for k in range(splits):
            by_group: ByGroup | None = None if asked.group is None else "stratify"
            parts = episodes.split(_PAST, 1.0 - _PAST, seed=seed + k, by_group=by_group)
            past, new = parts.learn, parts.assure
            assert new is not None  # an empty part would have been refused
            learn, ahead = (rows_of(part, target, _groups(episodes, asked)) for part in (past, new))
            reached(k * fits, f"split {k + 1}, {OURS}")
            own = type(asked)(**asked.get_params(deep=False))
            found = own.fit(past, seed=seed + k, progress=False).evaluate(new, target, resamples=2)
            ours, known = np.full(len(ahead), np.nan), ahead.t < len(found.p)
            ours[known] = found.p[ahead.t[known], ahead.episode[known]]
            answers = {OURS: ours, BASELINE: past_rate(learn, ahead.t)}
            for place, (rival, classify) in enumerate(RIVALS.items(), start=1):
                reached(k * fits + place, f"split {k + 1}, {rival}")
                answers[rival] = classify(learn, ahead, seed + k)
            for method, p in answers.items():
                told, each = filled(p, learn, ahead), scores[method]
                each["brier"].append(brier(told, ahead.met))
                each["log_loss"].append(log_loss(told, ahead.met, n_calibration=len(past)))
                each["unanswered"].append(float(np.isnan(p).mean()))
            n_past, n_new, why = len(past), len(new), why or found.unanswered.why
    return Study(target, n_past, n_new, scores, why)


def _groups(episodes: Episodes, monitor: GoalMonitor) -> AnyArray | None:
    """The names of the groups, if the monitor treats several of them by themselves."""
    if monitor.group is None or episodes.groups is None:
        return None
    names: AnyArray = np.unique(episodes.groups)
    return names if names.size > 1 else None


def _check(episodes: Episodes, target: Target | Goal) -> None:
    """Raise an error for episodes that could not show a difference between methods."""
    if not len(episodes.schema):
        raise EpisodesError(
            "the episodes have no feature, so no method can know more than the step and the "
            "behavior so far; name columns that are known before acting with ",
            Argument("features", Placeholder("NAMES")),
        )
    n = len(episodes)
    if n < _FEWEST:
        raise FewEpisodesError(
            f"a comparison needs at least {_FEWEST} episodes, got {n:,}; record more"
        )
    met = int(np.count_nonzero(met_by(episodes, target)))
    if min(met, n - met) < _FEWEST_OF_A_KIND:
        raise FewEpisodesError(
            f"a comparison needs at least {_FEWEST_OF_A_KIND} episodes that met the target and as "
            f"many that missed it; {met:,} of {n:,} met {target}. Choose another ",
            Argument("target"),
        )


def past_rate(learn: Rows, t: IndexArray) -> FloatArray:
    """For each step t: of the past episodes that reach this step, the share that met the target.

    One more episode is counted, which met the target as often as all do, so that the rate of the
    few episodes at a late step is never 0 or 1.
    """
    size = int(max(t.max(), learn.t.max())) + 1
    alive = np.bincount(learn.t, minlength=size)
    hits = np.bincount(learn.t, weights=learn.met, minlength=size)
    of_all = (np.count_nonzero(learn.met) + 0.5) / (len(learn) + 1)
    rate: FloatArray = (hits + of_all) / (alive + 1)
    return rate[t]


def filled(p: FloatArray, learn: Rows, asked: Rows) -> FloatArray:
    """The probabilities, with each NaN replaced by the past success rate at that row's step."""
    return np.clip(np.where(np.isfinite(p), p, past_rate(learn, asked.t)), 0.0, 1.0)


def standing_of(differences: Sequence[Difference]) -> str:
    """Whether a method is better, worse, mixed, or not clearly different, by all its differences.

    Examples
    --------
    >>> lower, unclear = Difference(-0.02, 0.005, -0.03, -0.01), Difference(0.01, 0.02, -0.03, 0.05)
    >>> standing_of([lower, unclear])
    'better'
    """
    ways = {one.value > 0.0 for one in differences if one.shows}
    if len(ways) == 1:
        return "worse" if ways.pop() else "better"
    return "mixed" if ways else "no difference shown"


def _written(one: Difference) -> str:
    return f"{one.value:+.4f} ± {one.reach:.4f}".replace("-", "−")
