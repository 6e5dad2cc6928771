"""``ontarget demo``: a river, its monitor, and a run that fails with its alarm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from ontarget import Episodes, GoalMonitor, Target
    from ontarget.monitor import Outlook

__all__ = ["demo"]


def demo(
    seed: Annotated[int, typer.Option(help="Another seed, another river.")] = 0,
) -> None:
    """Simulate a river, learn to tell how it will end, and watch a run that goes wrong."""
    from time import perf_counter

    from rich.console import Console

    from ontarget import GoalMonitor, Target
    from ontarget.cli.study import reliability_table
    from ontarget.domains import Tamarisk, simulate

    console = Console(highlight=False, soft_wrap=True)
    start = perf_counter()
    console.print("[bold]1. Record.[/] Tamarisk invades a river; a crew fights it for 50 steps.")
    episodes = simulate(Tamarisk("paper"), 6_000, seed)
    console.print(episodes.describe(), style="dim")
    target = Target.at_least(-60.0)

    console.print(f"\n[bold]2. Fit.[/] The target: end with a total reward in {target}.")
    parts = episodes.split(train=2_000, calibrate=2_000, assure=1_000, seed=seed)
    monitor = GoalMonitor(policy="tamarisk, fixed policy").fit(split=parts, seed=seed)
    assert parts.rest is not None

    console.print("\n[bold]3. Check[/] on 1,000 runs that it has never seen.")
    found = monitor.evaluate(parts.rest, target)
    console.print(found.summary(), style="dim")
    console.print(reliability_table(found), style="dim")

    console.print(
        "\n[bold]4. Watch[/] a run that misses the target; at most 5 % of good runs raise an alarm."
    )
    _replay(console, monitor, parts.rest, target)
    console.print(
        f"\nDone in {perf_counter() - start:.0f} s. Next, with episodes of your own or these:\n"
        "   ontarget simulate tamarisk -o runs.parquet\n"
        "   ontarget fit runs.parquet -o river.ontarget\n"
        "   ontarget inspect river.ontarget"
    )


def _replay(console: Console, monitor: GoalMonitor, runs: Episodes, target: Target) -> None:
    watch = monitor.watch(target, false_alarm_rate=0.05)
    missed = (~target.contains(runs.outcomes, monitor.fitted.grid)).nonzero()[0]
    run = runs.take([missed[0]])
    console.print(
        f"   alarm below p = {watch.rule.threshold:.3f}; this run will end at "
        f"{run.outcomes[0]:.2f}",
        style="dim",
    )
    earned, shown = 0.0, 0
    for t in range(run.horizon):
        reward = float(run.rewards_at(t - 1)[0]) if t else 0.0
        earned += reward
        outlook = watch.step(run.at(t).states[0], reward)
        # The first steps, and later only those at which something happened.
        if t < 6 or (reward and shown < 12):
            console.print(_line(outlook, earned))
            shown += 1
    console.print(_line(watch.end(float(run.rewards_at(run.horizon - 1)[0])), earned))


def _line(outlook: Outlook, earned: float) -> str:
    width = 30
    filled = round(width * outlook.p)
    colour = {"ALARM": "red", "OK": "green", "DONE": "bold"}.get(outlook.state.name, "yellow")
    bar = "█" * filled + "·" * (width - filled)
    return (
        f"   t = {outlook.t:2d}  earned {earned:7.2f}  [{colour}]{bar} {outlook.p:6.1%}  "
        f"{outlook.state.name}[/]"
    )
