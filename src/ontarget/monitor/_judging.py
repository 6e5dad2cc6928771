"""Compares a fitted monitor with new episodes: drift, p too high, and how good its answers are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ontarget._arguments import whole_number
from ontarget._progress import progress_bar
from ontarget._typing import AnyArray, ArrayLike
from ontarget.conformal.levels import Level
from ontarget.drift.change import Drift
from ontarget.drift.comparing import Order, drift_of
from ontarget.drift.guard import DriftGuard, guard_of, harm_guard_of
from ontarget.episodes import Episodes
from ontarget.errors import InputError
from ontarget.evaluation import Resampling
from ontarget.goal import Goal
from ontarget.monitor._held import Calibration
from ontarget.monitor._watching import Watching
from ontarget.report.evaluation import Evaluation, OwnEvaluation, evaluate, evaluate_own
from ontarget.target import Target

_EVALUATED_STEPS = 1_000_000  # of prepared episodes; their answers take some 80 bytes each


class Judging(Watching):
    """The methods of a fitted `GoalMonitor` that compare it with new episodes."""

    def drift_guard(
        self,
        *,
        t: int = 0,
        level: Level = 0.99,
        group: Any = None,
        resume: str | Path | None = None,
    ) -> DriftGuard:
        """A guard: a test that detects from finished episodes that the process has changed.

        The guard compares new episodes with the assure episodes (held out for promises) at step t.
        With probability ``level`` it never raises a false alarm, however long it watches. Pass each
        run to the guard once, with a unique id, in the order in which the runs started. Leave out
        runs in which somebody acted on an alarm. ``resume`` is a file that `DriftGuard.save` wrote;
        the guard continues from there. See method M10 in docs/methods.md.
        """
        found = self.fitted.group_of(group)
        return guard_of(self.fitted, t=t, level=level, group=found, resume=resume)

    def harm_guard(
        self,
        target: Target | Goal | None = None,
        *,
        t: int = 0,
        level: Level = 0.99,
        group: Any = None,
        calibration: Calibration = "target",
        resume: str | Path | None = None,
    ) -> DriftGuard:
        """A guard: a test that detects that p of a target has become too high.

        It learns from finished episodes. `drift_guard` raises an alarm on any change, even if runs
        have become better. A harm guard raises one only if p at step t has become too high,
        compared with the assure episodes (held out for promises). A bias that was there from the
        beginning does not count. All else is as for `drift_guard`. See method M26 in
        docs/methods.md.
        """
        alone, wanted, name = self._narrowed(target)
        if name:
            raise InputError(
                f"the goal {target} is about one behavior, so use the monitor of that behavior: "
                f"call monitor.only({name!r}).harm_guard"
            )
        number = self._shared.group_of(group)
        asked = alone._asked(wanted, calibration)
        return harm_guard_of(asked, t=t, level=level, group=number, resume=resume)

    def drift(
        self,
        new_episodes: Episodes,
        target: Target | Goal | None = None,
        *,
        order: Order | None = None,
        by: Mapping[str, ArrayLike] | None = None,
        t: int = 0,
        level: Level = 0.99,
        calibration: Calibration = "target",
    ) -> Drift:
        """Whether new episodes show drift: has anything changed, and has p become too high.

        Finished episodes are compared with the assure episodes (held out for promises) at step t.
        Print the result to read it.

        Parameters
        ----------
        new_episodes
            Episodes that the monitor has not seen, in which nobody acted on an alarm.
        target
            The target for which p may have become too high; for several behaviors, a goal. By
            default the target named at `fit`.
        order
            When each episode started: one value per episode, such as a time, to sort them by. A
            mapping from a name to these values also names the column. The test then also looks for
            a change that began midway, and the result says when. Without ``order``, the order of
            the episodes plays no part.
        by
            Columns by name, with one value per episode. The result says how far p is off for each
            value of each column.
        level
            If nothing has changed, no change is reported with at least this probability, whichever
            test is used (methods M10 and M36 in docs/methods.md).
        t, calibration
            As for `harm_guard`.

        Examples
        --------
        >>> import numpy as np
        >>> from ontarget import Episodes, GoalMonitor, Target
        >>> rng = np.random.default_rng(0)
        >>> walks = Episodes.from_arrays(rng.normal(size=(500, 3, 1)), rng.normal(size=(500, 3)))
        >>> monitor = GoalMonitor().fit(walks, progress=False)
        >>> rewards = rng.normal(-0.8, size=(200, 3))
        >>> lower = Episodes.from_arrays(rng.normal(size=(200, 3, 1)), rewards)
        >>> found = monitor.drift(lower, Target.at_least(0.0), order=np.arange(200))
        >>> str(found.judgement), found.bias.too_high > 0.2
        ('changed for the worse', True)
        """
        t = whole_number("t", t, least=0)
        alone, wanted, name = self._narrowed(target)
        runs = new_episodes.only(name) if name else new_episodes
        asked = alone._asked(wanted, calibration)
        return drift_of(asked, runs, order=order, by=by, t=t, level=level)

    def evaluate(
        self,
        episodes: Episodes,
        target: Target | Goal | None = None,
        *,
        calibration: Calibration = "target",
        order: Order | None = None,
        by: Mapping[str, ArrayLike] | None = None,
        resamples: int = 200,
        seed: int = 0,
        progress: bool = False,
    ) -> Evaluation:
        """How good the monitor is on episodes that it has never seen.

        ``print(found.summary())`` shows the main numbers, and ``found.report(path)`` writes a page
        with figures. ``resamples`` is how many times whole episodes are resampled to compute
        confidence intervals. ``calibration`` is as for `watch`. If you use the result to choose a
        seed, a preset or a target, evaluate once more before you report: on episodes that played no
        part in the choice. For a goal, ``found.parts`` measures each behavior by itself.

        The summary and the page contain the verdict of `drift`. ``order`` and ``by`` are as for
        `drift`: they let the verdict say since when the process has changed, and for which values
        of a column p is off.

        If the episodes are prepared ones (`PreparedEpisodes`), only a sample of about a million
        steps is measured, chosen by a hash of the episodes' ids.
        """
        alone, wanted, name = self._narrowed(target)
        if episodes.is_prepared:
            most, every = _EVALUATED_STEPS / float(episodes.lengths.mean()), episodes.ids
            episodes = episodes.sample(max(1, int(most)), seed=seed).compact()
            order, by = _of_the_sample(every, episodes.ids, order, by)
        bar = progress_bar("evaluating", self.horizon, unit="steps", shown=progress)
        resampling = Resampling(resamples, seed=seed)
        with bar as reached:
            return evaluate(
                alone.contracts,
                episodes.only(name) if name else episodes,
                wanted,
                resampling=resampling,
                own_map=alone._map(wanted, calibration),
                reached=reached,
                order=order,
                by=by,
            )

    def evaluate_own(
        self, episodes: Episodes, *, resamples: int = 200, seed: int = 0
    ) -> OwnEvaluation:
        """How good the monitor is on new episodes, each judged by its own target.

        The episodes need targets, as for `watch_own`; an episode without a target is left out. The
        result has ``ece``, ``brier``, ``alarms`` and the other measures of `evaluate`. A promised
        false-alarm rate holds on average over pairs of a run and its target.
        """
        return evaluate_own(self._kept, episodes, resampling=Resampling(resamples, seed=seed))


def _of_the_sample(
    every: AnyArray, chosen: AnyArray, order: Order | None, by: Mapping[str, ArrayLike] | None
) -> tuple[Order | None, dict[str, ArrayLike]]:
    """``order`` and ``by`` of all prepared episodes, reduced to the episodes in the sample.

    ``every`` has the ids of all episodes, ``chosen`` those of the sample.
    """
    place = {name: i for i, name in enumerate(every.tolist())}
    own = [place[name] for name in chosen.tolist()]

    def cut(columns: Mapping[str, ArrayLike]) -> dict[str, ArrayLike]:
        whole = {name: np.asarray(values) for name, values in columns.items()}
        fits = {name: values.shape == every.shape for name, values in whole.items()}
        return {name: values[own] if fits[name] else values for name, values in whole.items()}

    if order is not None and not isinstance(order, Mapping):
        return cut({"": order})[""], cut(by or {})
    return None if order is None else cut(order), cut(by or {})
