"""Compares a monitor with the classifier that you could write instead, on your own log.

Both learn from the same past episodes and forecast new ones at every step. The classifier predicts
"ends inside this target" directly: from the features, the step and the behavior so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from threadpoolctl import threadpool_limits

from ontarget._arguments import whole_number
from ontarget._progress import progress_bar
from ontarget._text import percent
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.episodes import Episodes
from ontarget.episodes.splits import ByGroup
from ontarget.errors import Argument, EpisodesError, FewEpisodesError, Placeholder
from ontarget.evaluation import Difference, brier, corrected_difference, log_loss
from ontarget.goal import Goal
from ontarget.monitor.monitor import GoalMonitor
from ontarget.target import Target

__all__ = ["Study", "study"]  # the rest is for the benchmarks

OURS: Final = "ontarget"
RIVAL: Final = "boosted classifier"
BASELINE: Final = "the past's rate"
_PAST: Final = 2 / 3  # of the episodes are learned from in each split
_FEWEST, _FEWEST_OF_A_KIND = 60, 10
_MOST_TREES, _MOST_BINNED = 400, 254  # scikit-learn has 255 bins, one of them for missing values
_MEASURES: Final = {"brier": "Brier", "log_loss": "log loss"}  # proper: nobody gains by hedging


@dataclass(frozen=True)
class Study:
    """A monitor beside a classifier on the same new episodes; prints as a table and a verdict.

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

    def difference(self, rival: str = RIVAL, measure: str = "brier") -> Difference:
        """The monitor's measure minus the rival's, with a 95 % interval: below 0 it is better."""
        drawn = np.subtract(self.scores[OURS][measure], self.scores[rival][measure])
        return corrected_difference(drawn, n_past=self.n_past, n_new=self.n_new)

    def standing(self, rival: str = RIVAL) -> str:
        """Whether the monitor is better or worse than a rival, mixed, or no difference is shown."""
        return standing_of([self.difference(rival, measure) for measure in _MEASURES])

    @property
    def verdict(self) -> str:
        """How the monitor compares with the classifier, and what to do."""
        found = self.standing()
        said = {
            "better": f"ontarget is better than the {RIVAL}",
            "worse": f"ontarget is worse than the {RIVAL}: features that sum up earlier steps, or "
            "more runs, may close the gap; if this one target is all you ask about and you need no "
            "promises, use the classifier",
            "mixed": f"ontarget is neither better nor worse than the {RIVAL}",
            "no difference shown": f"no difference from the {RIVAL} is shown",
        }[found]
        as_good = found != "worse" and self.difference(BASELINE).value >= 0.0
        rate = "; the past's rate is as good, so these features do not help yet"
        return said + rate * as_good

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
    """Compare a monitor with a boosted classifier, on random splits of your own episodes.

    In every split all methods learn from the same two thirds of the episodes and forecast the other
    third at every step. The monitor keeps a part of its episodes for its promises; the classifier
    learns from all of them. Where the monitor does not answer, the past rate of success is used.

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
    >>> found.standing()
    'no difference shown'
    """
    whole_number("splits", splits, least=2)
    _check(episodes, target)
    if isinstance(target, Goal) and target.only is not None:
        name, target = target.only
        episodes = episodes.only(name)
    asked = GoalMonitor() if monitor is None else monitor
    names = [OURS, RIVAL, BASELINE]
    scores: dict[str, dict[str, list[float]]] = {
        name: {"brier": [], "log_loss": [], "unanswered": []} for name in names
    }
    n_past = n_new = 0
    why = ""
    with progress_bar("fitting", 2 * splits, unit="fits", shown=progress) as reached:
        for k in range(splits):
            by_group: ByGroup | None = None if asked.group is None else "stratify"
            parts = episodes.split(_PAST, 1.0 - _PAST, seed=seed + k, by_group=by_group)
            past, new = parts.learn, parts.assure
            assert new is not None  # an empty part would have been refused
            learn, ahead = (rows_of(part, target, _groups(episodes, asked)) for part in (past, new))
            reached(2 * k, f"split {k + 1}, {OURS}")
            own = type(asked)(**asked.get_params(deep=False))
            found = own.fit(past, seed=seed + k, progress=False).evaluate(new, target, resamples=2)
            ours, known = np.full(len(ahead), np.nan), ahead.t < len(found.p)
            ours[known] = found.p[ahead.t[known], ahead.episode[known]]
            reached(2 * k + 1, f"split {k + 1}, {RIVAL}")
            answers = {
                OURS: ours,
                RIVAL: boosted(learn, ahead, seed + k),
                BASELINE: past_rate(learn, ahead.t),
            }
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
    """For each step t: of the past episodes that reach this step, the share that met the target."""
    # One more episode is counted, which met the target as often as all do, so that the rate of the
    # few episodes at a late step is never 0 or 1.
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


@dataclass(frozen=True, eq=False)
class Rows:
    """One row per episode and step: what is known at that step, and how the episode ended."""

    X: FloatArray
    categorical: BoolArray
    t: IndexArray
    b: FloatArray
    met: BoolArray
    episode: IndexArray

    def __len__(self) -> int:
        return int(self.t.size)

    @property
    def n_episodes(self) -> int:
        """How many episodes the rows belong to."""
        return int(self.episode.max()) + 1

    def take(self, chosen: BoolArray | IndexArray | slice) -> Rows:
        """Those of the rows that ``chosen`` selects: a mask, positions or a slice."""
        return replace(
            self,
            X=self.X[chosen],
            t=self.t[chosen],
            b=self.b[chosen],
            met=self.met[chosen],
            episode=self.episode[chosen],
        )


def rows_of(episodes: Episodes, target: Target | Goal, groups: AnyArray | None = None) -> Rows:
    """All steps of the episodes as rows: first the rows of step 0, then of step 1, and so on."""
    first, *others = _judged(episodes, target)
    steps = [first.at(t) for t in range(int(first.lengths.max()))]
    index = np.concatenate([step.index for step in steps])
    columns = [np.concatenate([step.states for step in steps])]
    categorical = np.isin(np.arange(columns[0].shape[1]), first.state_schema.categorical)
    if groups is not None and episodes.groups is not None:
        columns.append(np.searchsorted(groups, episodes.groups)[index])
        categorical = np.append(categorical, True)
    b = np.concatenate([step.behavior for step in steps])
    if others:
        b = np.nan_to_num(b)  # a least or greatest value has none before the first step
    for other in others:
        columns.append(np.concatenate([other.at(step.t).behavior for step in steps]))
        categorical = np.append(categorical, False)
    return Rows(
        X=np.column_stack(columns),
        categorical=categorical,
        t=np.repeat([step.t for step in steps], [len(step) for step in steps]),
        b=b,
        met=met_by(episodes, target)[index],
        episode=index,
    )


def met_by(episodes: Episodes, target: Target | Goal) -> BoolArray:
    """(episodes,): whether each episode met the target or goal."""
    judged = _judged(episodes, target)
    if not isinstance(target, Goal):
        return target.contains(judged[0].outcomes, judged[0].grid)
    each = dict(zip(target.names, judged, strict=True))
    return target.contains(
        {name: one.outcomes for name, one in each.items()},
        {name: one.grid for name, one in each.items()},
    )


def _judged(episodes: Episodes, target: Target | Goal) -> list[Episodes]:
    """The episodes, judged by each behavior that the target or goal is about."""
    return (
        [episodes.only(name) for name in target.names] if isinstance(target, Goal) else [episodes]
    )


# Learns from rows, and gives a probability for each of other rows, with a seed.
Classify: TypeAlias = Callable[[Rows, Rows, int], FloatArray]
# Threads that wait for each other on a busy machine are ten times slower than one.
_on_one_thread: Callable[[Classify], Classify] = threadpool_limits.wrap(limits=1)


@_on_one_thread
def boosted(learn: Rows, asked: Rows, seed: int = 0) -> FloatArray:
    """For each row of ``asked``, the probability of success by gradient-boosted trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    held = held_out(learn, seed)
    if not both_kinds(learn.met[~held]):
        return np.full(len(asked), past_share(learn))
    X, X_asked = (np.column_stack([one, r.t, r.b]) for one, r in _coded(learn, asked))
    seen = ~np.isnan(X[~held]).all(axis=0)  # scikit-learn fails on a column without a value
    X, X_asked = X[:, seen], X_asked[:, seen]
    categorical = np.append(learn.categorical, [False, False])[seen]

    def fit(rows: BoolArray, trees: int) -> Any:
        model = HistGradientBoostingClassifier(
            learning_rate=0.05,
            max_iter=trees,
            max_leaf_nodes=15,
            min_samples_leaf=50,
            early_stopping=False,
            categorical_features=categorical,
            random_state=0,
        )
        return model.fit(X[rows], learn.met[rows])

    staged = fit(~held, _MOST_TREES).staged_predict_proba(X[held])
    losses = [clipped_loss(p[:, 1], learn.met[held]) for p in staged]
    chosen = fit(np.ones_like(held), int(np.argmin(losses)) + 1)
    p: FloatArray = chosen.predict_proba(X_asked)[:, 1]
    return p


def _coded(learn: Rows, *others: Rows) -> Iterator[tuple[FloatArray, Rows]]:
    """The features of each table, with a category as its place among the most frequent ones."""
    frequent: dict[int, FloatArray] = {}
    for k in np.flatnonzero(learn.categorical).tolist():
        names, counts = np.unique(learn.X[~np.isnan(learn.X[:, k]), k], return_counts=True)
        frequent[k] = np.sort(names[np.argsort(-counts, kind="stable")[:_MOST_BINNED]])
    for one in (learn, *others):
        X = np.array(one.X, dtype=np.float64)
        for k, names in frequent.items():
            place = np.searchsorted(names, X[:, k])
            X[:, k] = np.where(np.append(names, np.nan)[place] == X[:, k], place, np.nan)
        yield X, one


def both_kinds(met: BoolArray) -> bool:
    """Whether some rows met the target and some missed it; otherwise there is nothing to learn."""
    return bool(met.any() and not met.all())


def past_share(rows: Rows) -> float:
    """The share of episodes in these rows that met the target, kept away from 0 and 1."""
    hits = np.bincount(rows.episode, rows.met) > 0
    return float((hits.sum() + 1.0) / (hits.size + 2.0))


def held_out(rows: Rows, seed: int) -> BoolArray:
    """(rows,): whether the row belongs to the fifth of the episodes that is held out."""
    n = rows.n_episodes
    chosen = np.random.default_rng(seed).permutation(n)[: max(n // 5, 1)]
    return np.isin(rows.episode, chosen)


def clipped_loss(p: FloatArray, met: BoolArray) -> float:
    """The mean log loss, with p kept 0.0001 away from 0 and 1."""
    clipped = np.clip(p, 1e-4, 1.0 - 1e-4)
    return float(-np.log(np.where(met, clipped, 1.0 - clipped)).mean())
