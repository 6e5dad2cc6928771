"""`Evaluation`: how good a monitor is on episodes it has never seen, with figures and a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from ontarget._progress import Reached
from ontarget._whole_file import write_whole
from ontarget.episodes import Episodes
from ontarget.evaluation import Resampling
from ontarget.fitted.target_calibration import TargetCalibration
from ontarget.live.assured import Contracts
from ontarget.live.batch import answer_episodes
from ontarget.live.rules import AlarmRule, Promised, RuleOptions, rule_of
from ontarget.report._figures import draw
from ontarget.report._page import report_page
from ontarget.report.measured import Measured
from ontarget.target import Target

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Evaluation", "evaluate"]


class Evaluation(Measured):
    """A monitor's answers on new episodes, and how they ended; see `GoalMonitor.evaluate`.

    Panels are (steps, episodes), NaN where an episode is over or a step is UNKNOWN. ``raw`` is the
    model's own probability, before calibration.
    """

    def figure(self, name: str, *, dark: bool = False) -> Figure:
        """One figure by its name: reliability, ece, episodes, fan, alarms or pit."""
        return draw(self, name, dark=dark)

    def report(
        self, path: str | Path, alarm: AlarmRule | None = None, **options: Unpack[RuleOptions]
    ) -> None:
        """Write all of it as one HTML page that needs nothing else: verdict, figures, guarantees.

        The page judges an alarm rule: by default one that promises 5 % false alarms. It is a value,
        or comes by the shorthands of `GoalMonitor.watch`. The same evaluation gives the same bytes;
        the file appears whole or not at all.
        """
        asked = alarm is not None or options
        rule = rule_of(alarm, **options) if asked else Promised(0.05)
        write_whole(Path(path), [report_page(self, rule).encode()])


def evaluate(
    contracts: Contracts,
    episodes: Episodes,
    target: Target,
    *,
    resampling: Resampling,
    calibration: TargetCalibration | None = None,
    reached: Reached | None = None,
) -> Evaluation:
    """The monitor's answers on these episodes at every step."""
    episodes = contracts.fitted.alike(episodes)
    answers = answer_episodes(
        contracts.fitted, episodes, target, calibration=calibration, reached=reached
    )
    return Evaluation(contracts, episodes, target, answers, resampling, calibration)
