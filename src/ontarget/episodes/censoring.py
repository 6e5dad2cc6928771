"""What happens to runs that were stopped before their end: the choices of the option ``censored``.

The reasons are in method M24 in docs/methods.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from ontarget._arguments import whole_number
from ontarget._keyed import keyed_uniform
from ontarget._typing import AnyArray, FloatArray, IndexArray, KeyArray
from ontarget.episodes.recording import RawEpisodes
from ontarget.episodes.store import Store
from ontarget.errors import Argument, CensoredError, EpisodesError, InputError, Placeholder

Censored: TypeAlias = Literal["refuse", "drop", "worst-case", "weights", "horizon"]
CENSORED: Final = get_args(Censored)


def all_taken_over(n: int, column: str = "") -> str:
    """The error message if somebody took over all runs from the policy."""
    where = f" (column {column!r})" if column else ""
    return (
        f"somebody took over all {n:,} runs{where}, so none is left; record runs that are left "
        "alone"
    )


def some_left_out(n: int, whole: int) -> str:
    """The remark that n runs are left out, because somebody took them over from the policy."""
    return (
        f"somebody took over {n:,} of {whole:,} runs, which are left out, so the others are a "
        f"selection; the option `censored` can correct for that"
    )


def needs(censored: Censored, given: bool, *arguments: Argument) -> None:
    """Refuse a choice of ``censored`` if an argument that it needs was not given."""
    if not given:
        listed: list[str | Argument] = []
        for one in arguments:
            listed += [", " * bool(listed), one]
        raise CensoredError(Argument("censored", censored), " needs ", *listed, " too")


def _as_horizon(store: Store) -> tuple[str | Argument, ...]:
    """More advice for an error message if all cut-off episodes have the same length."""
    longest = int(store.lengths.max())
    if np.any(store.lengths[store.censored] < longest):
        return ()
    return ("pass ", Argument("horizon", longest), " if that is a complete run, ")


def settle_censored(
    store: Store,
    censored: Censored,
    *,
    going_on: tuple[FloatArray, FloatArray] | None = None,
    bound: float | None = None,
) -> tuple[Store, IndexArray | None]:
    """The recorded episodes and the positions of those to keep, as the option ``censored`` says."""
    # The option says what to do with episodes that were cut off before their end. The positions are
    # None if all episodes are kept. ``going_on`` has, for each episode, 1 divided by the
    # probability that nobody stopped it, and how far rounding may move this number
    # (`chosen_by_lot`). ``bound`` is an upper bound on these numbers. Only ``censored="weights"``
    # needs them.
    cut = int(np.count_nonzero(store.censored))
    if censored == "weights":
        return _drawn(store, going_on, bound)
    if not cut:
        return store, None
    n, first = store.lengths.size, int(np.argmax(store.censored))
    if censored == "refuse":
        raise CensoredError(
            f"{cut:,} of {n:,} episodes were cut off before their end and before the horizon "
            f"{store.horizon} (first: episode {store.ids[first]!s} after {store.lengths[first]} "
            "steps), so their outcome is unknown; record them to the end, ",
            *_as_horizon(store),
            "pass ",
            Argument("censored", "worst-case"),
            " for promises that hold however they would have ended, or ",
            Argument("censored", "drop"),
            " to leave them out (promises then hold only for runs that are not cut off)",
        )
    kept = np.flatnonzero(~store.censored)
    if not kept.size:
        raise CensoredError(
            f"all {n:,} episodes were cut off before the horizon {store.horizon}, so none is left "
            "after ",
            Argument("censored", censored),
            "; record episodes to their end, or pass a horizon that they reach",
        )
    if censored == "worst-case":
        return replace(store, censoring=censored), None
    return replace(store, dropped=cut, censoring=censored), kept


def _drawn(
    store: Store, going_on: tuple[FloatArray, FloatArray] | None, bound: float | None
) -> tuple[Store, IndexArray]:
    """The recorded episodes, and the positions of some that nobody stopped, drawn at random."""
    # Episodes that nobody stopped are a selection of all runs. The draw corrects for this: the
    # drawn episodes are distributed like runs that nobody ever stops. The arguments are those of
    # `settle_censored`.
    needs(
        "weights",
        going_on is not None and bound is not None,
        Argument("stop_probability", Placeholder("NAME")),
        Argument("stop_bound", Placeholder("B")),
    )
    assert going_on is not None
    assert bound is not None
    ended = np.flatnonzero(~store.censored)
    lots = chosen_by_lot(
        going_on[0][ended],
        bound,
        units=going_on[1][ended],
        keys=store.keys[ended],
        ids=store.ids[ended],
        name="stop_bound",
    )
    kept = ended[lots]
    if not kept.size:
        raise CensoredError(
            f"of {store.lengths.size:,} episodes, {ended.size:,} were not stopped, and none of "
            "these was drawn; record more, or pass a lower ",
            Argument("stop_bound"),
        )
    return replace(store, dropped=store.lengths.size - kept.size, censoring="weights"), kept


def chosen_by_lot(
    weights: FloatArray,
    bound: float,
    *,
    units: FloatArray | IndexArray,
    keys: KeyArray,
    ids: AnyArray,
    name: str,
    seed: int = 0,
) -> IndexArray:
    """Positions of episodes drawn at random, each with the probability weight / ``bound``.

    ``units`` says by about how many units in the last place rounding may move each weight. The draw
    depends only on the seed and the episodes' ids. ``name`` is what messages call the bound. A
    weight above the bound by more than rounding is refused, because a probability cannot be above
    1. Fix the bound before you look at the runs.
    """
    if not (np.isfinite(bound) and bound > 0.0):
        raise EpisodesError(Argument(name), f" needs a finite number above 0, got {bound!r}")
    above = weights > bound * (1.0 + 4.0 * np.finfo(np.float64).eps * (1.0 + units))
    if above.any():
        i = int(np.argmax(np.where(above, weights, -np.inf)))
        raise EpisodesError(
            Argument(name),
            f" must not be below the weight of any run, got {bound:.12g} and a weight of "
            f"{weights[i]:.12g} for episode {ids[i]!s}; choose a bound that holds for every "
            "possible run, before you look at them",
        )
    return np.flatnonzero(keyed_uniform(keys, seed, "by lot", name) < weights / bound)


def run_products(rows: FloatArray, lengths: IndexArray, offsets: IndexArray) -> FloatArray:
    """For each episode, the product of the numbers in its rows."""
    products = np.ones(lengths.size)
    for t in range(offsets.size - 1):
        products[lengths > t] *= rows[offsets[t] : offsets[t + 1]]
    return products


def products_of(ratios: Any, lengths: IndexArray, ids: AnyArray) -> FloatArray:
    """For each episode, the product of its ratios: one per step, or already one product."""
    n = lengths.size
    if isinstance(ratios, np.ndarray) and ratios.shape == (n,) and ratios.dtype != np.object_:
        return ratios.astype(np.float64)
    rows = [np.asarray(one, dtype=np.float64) for one in ratios]
    if len(rows) != n:
        needed = f" need one entry for each of {n} episodes, got {len(rows)}"
        raise InputError(Argument("ratios"), needed)
    for episode, own, length in zip(ids, rows, lengths.tolist(), strict=True):
        if own.shape not in ((), (length,)):
            raise InputError(
                Argument("ratios"),
                f" of episode {episode!s} need one for each of its {length} steps, "
                f"got shape {own.shape}",
            )
        if np.any(own < 0.0):
            raise InputError(
                Argument("ratios"),
                f" need numbers from 0 up, got {own.min()} for episode {episode!s}",
            )
    return np.array([own.prod() for own in rows])


def refuse_unused(recording: RawEpisodes, censored: Censored) -> None:
    """Refuse ``stop_probability`` or ``cutoff`` if this choice of ``censored`` ignores it."""
    for name, column, way in (
        ("stop_probability", recording.stop_probability, "weights"),
        ("cutoff", recording.cutoff, "horizon"),
    ):
        if column is not None and censored != way:
            raise CensoredError(
                Argument(name), " is used only with ", Argument("censored", way), "; pass both"
            )


def going_on_of(recording: RawEpisodes) -> tuple[FloatArray, FloatArray] | None:
    """For each episode, 1 divided by the probability that nobody stopped it, and its rounding."""
    q = recording.stop_probability
    if q is None:
        return None
    bad = ~((q >= 0.0) & (q < 1.0))
    if bad.any():
        row = int(np.argmax(bad))
        raise EpisodesError(
            Argument("stop_probability"),
            f" needs numbers from 0 to below 1, got {q[row]:g} at {recording.where(row)}; a run "
            "that is stopped for certain says nothing about runs that are left alone",
        )
    arrangement = recording.arrangement
    factors = 1.0 / (1.0 - q)
    # In floats 1/(1 − 0.8) is 5.000000000000001: the error of q is as many times larger in 1 − q.
    units = arrangement.lengths * factors.max(initial=1.0)
    return run_products(factors, arrangement.lengths, arrangement.offsets), units


def within_horizon(recording: RawEpisodes, horizon: int | None) -> tuple[RawEpisodes, IndexArray]:
    """The recorded episodes, and the positions of those whose cut-off is not before the horizon."""
    # Steps after the horizon are removed. Whether an episode is kept depends only on its cut-off,
    # never on how the run went.
    cutoff = recording.cutoff
    needs(
        "horizon",
        cutoff is not None and horizon is not None,
        Argument("cutoff", Placeholder("NAME")),
        Argument("horizon", Placeholder("N")),
    )
    assert cutoff is not None
    most = whole_number("horizon", horizon, least=1, error=EpisodesError)
    _check_cutoffs(recording, cutoff)
    kept = np.flatnonzero(cutoff >= most)
    if not kept.size:
        raise CensoredError(
            f"no episode has a cut-off of {most} steps or more, the latest is {cutoff.max():g}; "
            "pass a shorter ",
            Argument("horizon"),
        )
    steps = min(most, recording.arrangement.offsets.size - 1)
    rows = int(recording.arrangement.offsets[steps])

    def own(values: FloatArray | None) -> FloatArray | None:
        return None if values is None else values[:rows]

    short = replace(
        recording,
        arrangement=replace(
            recording.arrangement,
            lengths=np.minimum(recording.arrangement.lengths, most),
            offsets=recording.arrangement.offsets[: steps + 1],
        ),
        states=recording.states[:, :rows],
        rewards=own(recording.rewards),
        behavior_values=own(recording.behavior_values),
        several=tuple(one._replace(values=one.values[:rows]) for one in recording.several),
    )
    return short, kept


def _check_cutoffs(recording: RawEpisodes, cutoff: FloatArray) -> None:
    """Refuse cut-offs that are not numbers of steps, or that contradict how long a run is."""
    lengths, name = recording.arrangement.lengths, Argument("cutoff")
    bad = ~(cutoff >= lengths)  # true for NaN
    if bad.any():
        i = int(np.argmax(bad))
        raise EpisodesError(
            name,
            f" needs the number of steps after which a run is cut off, got {cutoff[i]:g} for "
            f"episode {recording.ids[i]!s}, which has {lengths[i]} steps",
        )
    ended, cut = recording.terminated, recording.truncated
    flagged = cut if ended is None else ~ended
    if flagged is None:
        return
    early = np.flatnonzero(flagged & (cutoff > lengths))
    if early.size:
        i = int(early[0])
        raise CensoredError(
            f"episode {recording.ids[i]!s} was cut off after {lengths[i]} steps, before its ",
            name,
            f" of {cutoff[i]:g}; a cut-off must not depend on how a run goes, so record the "
            "run to its end, or to its cut-off",
        )
