"""`Evaluation`: how good a monitor is on episodes it has never seen, with figures and a report."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from ontarget._progress import Reached
from ontarget._typing import ArrayLike
from ontarget._whole_file import write_whole
from ontarget.drift.comparing import Order
from ontarget.episodes import Episodes
from ontarget.errors import FewEpisodesError, InputError
from ontarget.evaluation import Resampling
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.target_map import TargetMap
from ontarget.goal import Goal
from ontarget.live.answering import answer_episodes
from ontarget.live.answers import Answers
from ontarget.live.contracts import Contracts
from ontarget.live.own_targets import OwnTargets, answer_own
from ontarget.live.rules import AlarmRule, Promised, RuleOptions, Trigger, rule_of
from ontarget.report._figures import draw
from ontarget.report.check import Check
from ontarget.report.checks import checks_of
from ontarget.report.facts import facts_of
from ontarget.report.measured import Measured
from ontarget.report.page import report_page
from ontarget.report.parts import Part, answers_of, parts_by
from ontarget.report.verdict import Verdict, text_of, verdict_of
from ontarget.target import Target

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure


class Evaluation(Measured):
    """A monitor's answers about new episodes, and how these ended; see `GoalMonitor.evaluate`.

    Arrays are (steps, episodes), NaN where an episode is over or the monitor cannot answer
    (UNKNOWN). ``raw`` is the probability that the model states before calibration.
    """

    def figure(self, name: str, *, dark: bool = False) -> Figure:
        """A figure by its name: reliability, ece, episodes, fan, path, alarms or pit."""
        return draw(self, name, dark=dark)

    def summary(self, alarm: AlarmRule | None = None, **options: Unpack[RuleOptions]) -> str:
        """A few lines of text: how good p is, what the alarm did, and the verdict.

        The alarm rule is an object such as ``Below(0.9)``, or given by the short options of
        `GoalMonitor.watch`. By default it promises 5 % false alarms.
        """
        facts = facts_of(self, _rule(alarm, options))
        return f"{text_of(facts)}\nverdict    {verdict_of(facts)}"

    def checks(self, alarm: AlarmRule | None = None, **options: Unpack[RuleOptions]) -> list[Check]:
        """What was checked, with figures and intervals, and what to do about each."""
        return checks_of(facts_of(self, _rule(alarm, options)))

    def verdict(self, alarm: AlarmRule | None = None, **options: Unpack[RuleOptions]) -> Verdict:
        """Whether p came true and the promises were kept: held, not held, or too few runs to say.

        The verdict covers p, the promised rate of an alarm rule (as for `summary`), and what was
        ruled out or assured. A difference that chance alone can explain does not count against the
        monitor.
        """
        return verdict_of(facts_of(self, _rule(alarm, options)))

    def by(self, values: ArrayLike) -> tuple[Part, ...]:
        """How good p is for each value of a column, to see where it is better or worse.

        Parameters
        ----------
        values
            One value per episode, such as a season, or one per step and episode, (steps, episodes).
            If there are more than twelve different numbers, they are grouped into four ranges.
        """
        return parts_by(self, np.asarray(values))

    def to_frame(self, alarm: AlarmRule | None = None) -> pl.DataFrame:
        """The episodes and the monitor's answers as a polars frame: one row per episode and step.

        The columns are those of `Episodes.to_frame`, then p, spread_low and spread_high (how far p
        may be off by chance), low and high (the paper's bounds on p), status, and met (whether the
        episode met the target). The status is ALARM where the alarm rule ``alarm`` raised one;
        without a rule, no row has this status. Unknown values are null.
        """
        return answers_of(self, alarm)

    def report(
        self,
        path: str | Path,
        alarm: AlarmRule | None = None,
        *,
        by: Mapping[str, ArrayLike] | None = None,
        name: str = "",
        **options: Unpack[RuleOptions],
    ) -> None:
        """Write a report of this evaluation: one HTML page with verdict, figures and guarantees.

        The page needs no other file. It judges an alarm rule, given as for `summary`. It also shows
        how far p is off for each value of a column: of the columns that `GoalMonitor.evaluate` was
        given, and of those in ``by`` (values as for the method `by`). The same evaluation gives the
        same bytes; the file appears whole or not at all. ``name`` is the model's name in the first
        line, such as its file's; without it, the line names the policy.
        """
        columns = {**(self.columns or {}), **(by or {})}
        text = report_page(self, _rule(alarm, options), columns, name)
        write_whole(Path(path), [text.encode()])

    @cached_property
    def parts(self) -> Mapping[str, Evaluation]:
        """For a goal over several behaviors: an evaluation of each behavior by itself, by name."""
        # The evaluation says how good p is for its part of the goal. A plain target has no parts,
        # nor has a goal that is a function, because it asks nothing of a single behavior. p is the
        # probability of meeting the target.
        goal = self.target
        if not isinstance(goal, Goal) or goal.is_function:
            return {}
        return {
            name: evaluate(
                self.contracts.parts[name],
                self.episodes.only(name),
                goal.projection(name),
                resampling=self.resampling,
                order=self.order,
                by=self.columns,
            )
            for name in goal.names
        }


class OwnEvaluation(Measured):
    """A monitor's answers about episodes that each have their own target.

    See `GoalMonitor.evaluate_own`. It has the measures of an `Evaluation`, but writes no report.
    """

    def __repr__(self) -> str:
        return (
            f"<OwnEvaluation: {np.count_nonzero(self.met):,} of {self.met.size:,} episodes met "
            f"their own targets, {len(self.p):,} steps>"
        )

    @property
    def _one_sided(self) -> tuple[str, ...]:
        wanted = dict.fromkeys(filter(None, self.episodes.targets or ()))
        told = [self.contracts.one_sided(one) for one in wanted]
        if not all(all(one) for one in told):  # for some targets p has something to learn from
            return ("",)
        return tuple(dict.fromkeys(note for one in told for note in one))

    def _triggers(self, rule: AlarmRule) -> tuple[Trigger, ...]:
        return OwnTargets(self.fitted, rule).triggers


def evaluate_own(
    contracts: Contracts, episodes: Episodes, *, resampling: Resampling
) -> OwnEvaluation:
    """An evaluation of the monitor's answers about these episodes, each with its own target."""
    episodes = contracts.fitted.alike(episodes)
    if episodes.targets is None or not any(episodes.targets):
        raise InputError(
            "targets that differ from run to run need episodes with a target each; pass "
            "episodes.aimed(targets), or read the log with target=COLUMN"
        )
    answers, aimed = answer_own(contracts.fitted, episodes)
    own = np.flatnonzero(aimed)
    found, known = answers.take(own), episodes.take(own)
    _refuse_unknown(found, contracts.fitted)
    return OwnEvaluation(contracts, known, Target(), found, resampling)


def evaluate(
    contracts: Contracts,
    episodes: Episodes,
    target: Target | Goal,
    *,
    resampling: Resampling,
    own_map: TargetMap | None = None,
    reached: Reached | None = None,
    order: Order | None = None,
    by: Mapping[str, ArrayLike] | None = None,
) -> Evaluation:
    """An evaluation of the monitor's answers at every step of these episodes, about a target."""
    asked = contracts.asked(target, own_map)
    alike = asked.alike(episodes)
    answers = answer_episodes(asked, alike, reached=reached)
    _refuse_unknown(answers, contracts.fitted)
    runs = episodes if asked.is_joint else alike[0]
    found = Evaluation(contracts, runs, target, answers, resampling, own_map, order, by)
    if order is not None or by:
        _ = found.drifted  # refuses columns that do not fit the episodes, before anything is shown
    return found


def _refuse_unknown(answers: Answers, fitted: Fitted) -> None:
    if np.isnan(answers.p).all():
        raise FewEpisodesError(
            f"p is unknown at every step of these {answers.met.size:,} episodes: either fewer than "
            f"{fitted.min_calibration} recorded episodes calibrate each step (fit on more), or "
            "every reading is bad (look at the feature columns)"
        )


def _rule(alarm: AlarmRule | None, options: RuleOptions) -> AlarmRule:
    """The alarm rule that was asked for; by default one that promises 5 % false alarms."""
    return rule_of(alarm, **options) if alarm is not None or options else Promised(0.05)
