"""`Caution`: what would make a monitor look better than it is, in columns, order and ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ontarget import Episodes
from ontarget._text import percent, plain
from ontarget._typing import AnyArray, BoolArray, FloatArray, IndexArray
from ontarget.episodes.store import Store
from ontarget.errors import Argument, Placeholder
from ontarget.reading.layout import AN_OUTCOME, FROM_NEXT, ON_CLOCK
from ontarget.target import Target

CautionKind: TypeAlias = Literal[
    "outcome",
    "length",
    "reward",
    "total",
    "last row",
    "together",
    "wait",
    "since last",
    "order",
    "id",
    "outliers",
    "rounding",
]
_MEMBERS = 5  # a value that fewer rows share does not count as a group
_BEYOND_CHANCE = 5.0  # groups must explain this many times what groups drawn at random explain
LEAST = 30  # with fewer episodes, a match between columns is too often mere chance
_MOST = 2_000
_STEPS = 8
_NEARLY_ALL = 0.95
_ALL = 0.99
_LEFT_OVER = 0.02  # the share of a column's variance that the row's reward may leave unexplained
_FEW_VALUES = 2  # two different values always lie on one line, so they prove nothing
_FEW_RESULTS = 5  # outcomes with at most so many values, such as lost, drawn and won
_EVERYWHERE = 0.995
_PERFECT = (
    "A monitor would look nearly perfect on this log and fail on new runs, which do not know it yet"
)
_SORTED = 0.9
_NOTICEABLE = 0.1  # a share of the outcomes that the order of a file explains
_PARTS = re.compile(r"[^\W\d_]+|\d+(?:\.\d+)?")
_FEWEST = 20  # the fewest episodes to judge by
_SELDOM = 0.1
_ENOUGH = 500  # this many episodes are enough to judge by
_ROUNDED = 1.05  # how many ticks a wait may differ, as its ends may be anywhere between two ticks


@dataclass(frozen=True)
class Caution:
    """Something that you should look into before a fit.

    Attributes
    ----------
    kind
        What the columns seem to reveal too early: the ``outcome``, the ``length`` of a run, the
        ``reward`` of the same row, a ``total`` that includes that reward, the outcome in the ``last
        row`` only, the outcome by several columns ``together``, or the ``wait`` until the next row
        of the log. ``order`` and ``id`` mean that the order of the file or the ids reveal results.
        ``since last`` means that the reward seems to be what was earned since the previous row.
        ``outliers`` are outcomes that dwarf the others, and ``rounding`` means that the target
        cannot be judged because of them.
    columns
        The columns that the caution is about.
    what, why
        ``what`` says what was found and where, ``why`` says why it matters; a sentence each.
    remedy
        What to do about it, as pieces of a sentence: texts, and an `Argument` in place of the name
        of an option.
    """

    kind: CautionKind
    columns: tuple[str, ...]
    what: str
    why: str
    remedy: tuple[str | Argument, ...]

    def told(self, spell: Callable[[Argument], str] = str) -> str:
        """The caution in one line."""
        remedy = "".join(part if isinstance(part, str) else spell(part) for part in self.remedy)
        return plain(f"{self.what}. {self.why}. {remedy}")

    def __str__(self) -> str:
        return self.told()


def determined(x: FloatArray, y: FloatArray) -> float:
    """How much x says about y: the share of the variance of y's ranks that x explains."""
    response = _ranks(y)
    total = float(np.square(response - response.mean()).sum())
    codes, sizes = _coded(x)
    if total == 0.0 or sizes.size < 2:
        return 0.0
    sums = np.bincount(codes, weights=response)
    means = sums / sizes
    predicted = (sums[codes] - response) / np.maximum(sizes[codes] - 1, 1)
    alone = np.flatnonzero(sizes[codes] == 1)
    own, last = codes[alone], sizes.size - 1
    # At either end of x there is only one neighbour.
    below, above = np.where(own == 0, 1, own - 1), np.where(own == last, last - 1, own + 1)
    predicted[alone] = (means[below] + means[above]) / 2.0
    return 1.0 - float(np.square(response - predicted).sum()) / total


def separated(x: FloatArray, y: FloatArray) -> float:
    """How well x separates the outcomes y, from 0 to 1 (each value has an unbroken range)."""
    codes, sizes = _coded(x)
    large: BoolArray = (sizes >= _MEMBERS)[codes]
    if np.count_nonzero(large) < max(2 * _MEMBERS, x.size // 2):
        return 0.0
    codes, sizes = _coded(x[large])
    response = _ranks(y[large])
    response -= response.mean()
    sums = np.bincount(codes, weights=response)
    between, total = float((sums**2 / sizes).sum()), float(np.square(response).sum())
    if between <= _BEYOND_CHANCE * total * (sizes.size - 1) / (response.size - 1):
        return 0.0
    # The most that groups of these sizes could explain, if they followed each other by outcome.
    order = np.argsort(sums / sizes, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes[order])[:-1]])
    blocks = np.add.reduceat(np.sort(response), starts)
    return between / float((blocks**2 / sizes[order]).sum())


def linear_share(X: FloatArray, y: FloatArray) -> float:
    """The share of y's variance that a linear function of the columns of X explains."""
    if not X.shape[1]:
        return 0.0
    columns, deviation = _standard(X), _standard(y[:, None])[:, 0]
    if not deviation.any():
        return 0.0
    rest = deviation - columns @ np.linalg.lstsq(columns, deviation, rcond=1e-10)[0]
    return 1.0 - float(rest @ rest) / float(deviation @ deviation)


def _standard(X: FloatArray) -> FloatArray:
    """The columns of X, scaled to mean 0 and variance 1; a constant column becomes 0."""
    largest = np.abs(X).max(axis=0)
    columns = X / np.where(largest > 0.0, largest, 1.0)
    columns = columns - columns.mean(axis=0)
    spread = columns.std(axis=0)
    steady = spread <= 1e-12
    found: FloatArray = np.where(steady, 0.0, columns / np.where(steady, 1.0, spread))
    return found


def _ranks(values: FloatArray) -> FloatArray:
    """The place of each value in ascending order; equal values get the mean of their places."""
    codes, sizes = _coded(values)
    means: FloatArray = np.cumsum(sizes) - (sizes + 1) / 2.0
    return means[codes]


def _coded(x: FloatArray) -> tuple[IndexArray, IndexArray]:
    """Each value's index among the sorted distinct values, and how often each of these occurs."""
    _, codes, sizes = np.unique(x, return_inverse=True, return_counts=True)
    return codes, sizes


@dataclass(frozen=True, eq=False)
class Moment:
    """Values of sampled episodes at one step t, or, if t is −1, in the last row of each."""

    t: int
    states: FloatArray  # (features, episodes)
    before: FloatArray  # the behavior before the row's action, and after it
    after: FloatArray
    rewards: FloatArray | None
    outcomes: FloatArray
    lengths: FloatArray


@dataclass(frozen=True, eq=False)
class Sample:
    """Sampled episodes: at their first step, at a few later steps, and in their last rows."""

    moments: tuple[Moment, ...]
    last: Moment


def sampled(episodes: Episodes) -> Sample | None:
    """A sample of the episodes that depends only on their ids; None if there are too few."""
    if len(episodes) < LEAST:
        return None
    store = episodes._store
    own = episodes._positions
    chosen = np.sort(own[np.argsort(episodes.keys, kind="stable")[:_MOST]])
    reached = int(np.sort(store.lengths[chosen])[-LEAST])  # enough episodes have this many steps
    steps = np.unique(np.linspace(0, reached - 1, _STEPS).round().astype(int)).tolist()
    ends = np.empty(chosen.size, dtype=np.intp)
    for length in np.unique(store.lengths[chosen]).tolist():
        rows, alive = store.rows(length - 1, chosen)
        ending = store.lengths[chosen[alive]] == length
        ends[alive[ending]] = np.asarray(rows)[ending]
    return Sample(
        moments=tuple(_moment(store, t, chosen) for t in steps),
        last=_seen(store, -1, ends, chosen, store.outcomes[chosen]),
    )


def _moment(store: Store, t: int, chosen: IndexArray) -> Moment:
    rows, alive = store.rows(t, chosen)
    later, still = store.rows(t + 1, chosen)
    after = store.outcomes[chosen].copy()
    after[still] = store.before[later]
    return _seen(store, t, np.asarray(rows), chosen[alive], after[alive])


def _seen(store: Store, t: int, rows: IndexArray, chosen: IndexArray, after: FloatArray) -> Moment:
    return Moment(
        t=t,
        states=store.states[:, rows],
        before=store.before[rows],
        after=after,
        rewards=None if store.rewards is None else store.rewards[rows],
        outcomes=store.outcomes[chosen],
        lengths=store.lengths[chosen].astype(np.float64),
    )


def find_leaks(
    names: tuple[str, ...], sample: Sample, target: Target | None = None
) -> list[Caution]:
    """Cautions about features that seem to reveal the future; each feature is reported once."""
    start = sample.moments[0]
    with np.errstate(all="ignore"):  # numbers too large to square are taken as unrelated
        leaks = (
            _outcome_at_start(name, start.states[j], start, target)
            or _outcome_later(name, j, sample)
            or _this_row(name, j, sample)
            or _length_at_start(name, start.states[j], start)
            or _last_row(name, j, sample)
            for j, name in enumerate(names)
        )
        found = [leak for leak in leaks if leak is not None]
        return found or list(_together(names, start))


def _outcome_at_start(
    name: str, x: FloatArray, start: Moment, target: Target | None
) -> Caution | None:
    """A caution if the feature reveals the outcome at the start of a run; None otherwise."""
    y = start.outcomes
    if _constant(y):  # nothing to reveal
        return None
    linear = _usual_share(x[:, None], y)
    strength = max(determined(x, y), linear)
    if np.allclose(x, y, rtol=1e-9, atol=1e-9 * float(np.abs(y).max())):
        what = f"{name!r} equals the outcome from the first step on"
    elif linear > 1.0 - 1e-9:
        what = f"{name!r} is the outcome in another unit, from the first step on"
    elif strength >= _NEARLY_ALL:
        told = "all" if strength > 1.0 - 1e-9 else percent(strength)
        what = f"{name!r} explains {told} of the differences between outcomes at the first step"
    elif _split(x, y) >= _NEARLY_ALL:
        what = f"each value of {name!r} stands for one range of outcomes, at the first step already"
    elif target is not None and determined(x, target.contains(y).astype(float)) >= _NEARLY_ALL:
        what = f"{name!r} reveals at the first step whether a run will meet the target"
    else:
        return None
    return _given_away("outcome", name, what, ", unless it is really known when a run begins")


def _outcome_later(name: str, j: int, sample: Sample) -> Caution | None:
    """A caution if the feature equals the outcome at a step before the end; None otherwise."""
    later = sample.moments[1:]
    judged = [_equal(moment.states[j], moment.outcomes, so_far=moment.after) for moment in later]
    tested = [one for one in judged if one is not None]
    few = np.unique(sample.last.outcomes).size <= _FEW_RESULTS
    # With few possible outcomes, a feature late in a run may equal the outcome without a leak, as a
    # good forecast of won or lost does.
    if not any(tested) or (few and not (len(tested) > 1 and all(tested))):
        return None
    step = later[judged.index(True)].t
    what = f"{name!r} equals the outcome at step {step}, before the run is over"
    return _given_away("outcome", name, what)


def _this_row(name: str, j: int, sample: Sample) -> Caution | None:
    """A caution if the feature contains the reward of its own row; None otherwise."""
    judged = [
        _earned(moment.states[j], moment, moment.lengths > moment.t + 1)
        for moment in sample.moments
    ]
    tested = [one for one in judged if one is not None]
    # One step alone proves little, unless there is only one.
    if len(tested) < min(2, len(sample.moments) - 1) or not tested:
        return None
    if np.mean([bool(one) for one in tested]) < 0.75:
        return None
    kind: CautionKind = "total" if "total" in tested else "reward"
    what = (
        f"{name!r} is a running total that includes the reward of its own row"
        if kind == "total"
        else f"{name!r} reveals the reward of its own row"
    )
    why = (
        "A state contains what is known before acting, and the reward is known only afterwards. So "
        "for a run in progress, the monitor would get other values than it learned from"
    )
    remedy = (
        "If it is logged after acting, shift the column down by one row within each run, or pass ",
        Argument("drop", [name]),
    )
    return Caution(kind, (name,), what, why, remedy)


def _earned(x: FloatArray, moment: Moment, judged: BoolArray) -> CautionKind | bool | None:
    """How x reveals the rewards of these rows: as a "reward", or as a "total" that includes it."""
    known = np.isfinite(x) & judged
    if np.count_nonzero(known) < LEAST or _constant(x[known]):
        return None
    x, before, after = x[known], moment.before[known], moment.after[known]
    before = before if np.isfinite(before).all() else np.zeros_like(x)
    gains = [after - before] if moment.rewards is None else [moment.rewards[known], after - before]
    gains = [gain for gain in gains if not _constant(gain)]
    if not gains:
        return None
    for gain in gains:
        if not _follows(x, before, gain):
            continue
        return "reward" if _share(gain[:, None], x) >= 1.0 - _LEFT_OVER else "total"
    return "reward" if determined(x, gains[0]) >= _ALL else False


def _follows(x: FloatArray, before: FloatArray, gain: FloatArray) -> bool:
    """Whether x is a linear function of ``before`` and ``gain``, but not of ``before`` alone."""
    without = 1.0 - _share(before[:, None], x)
    left = 1.0 - _share(np.column_stack([before, gain]), x)
    return without > 1e-6 and left <= _LEFT_OVER * without


def _last_row(name: str, j: int, sample: Sample) -> Caution | None:
    """A caution if the feature contains the outcome in the last row of each run; else None."""
    last = sample.last
    x, y = last.states[j], last.outcomes
    exact = _equal(x, y, so_far=last.before)
    known = np.isfinite(x) & np.isfinite(last.before)
    gain = (y - last.before)[known]
    enough = gain.size >= LEAST and np.unique(gain).size > _FEW_VALUES
    if not exact and not (enough and _follows(x[known], last.before[known], gain)):
        return None
    what = f"{name!r} reveals the outcome in the last row of each run"
    return _given_away("last row", name, what, ", unless it is known before the last action")


def _length_at_start(name: str, x: FloatArray, start: Moment) -> Caution | None:
    """A caution if the feature reveals at the start how many steps a run will have; else None."""
    if determined(x, start.lengths) < _NEARLY_ALL:
        return None
    what = f"{name!r} reveals at the first step how many steps a run will have"
    return _given_away("length", name, what, ", unless the length is planned when a run begins")


def _together(names: tuple[str, ...], start: Moment) -> Iterator[Caution]:
    """A caution if several features together reveal the outcome at the start, as two scores do."""
    whole = [j for j, x in enumerate(start.states) if np.isfinite(x).all() and not _constant(x)]
    X, y = start.states[whole].T, start.outcomes
    if X.shape[0] < 10 * len(whole) or not whole or _usual_share(X, y) < _ALL:
        return
    chosen: list[int] = []
    while len(chosen) < len(whole) and linear_share(X[:, chosen], y) < _ALL:
        rest = [k for k in range(len(whole)) if k not in chosen]
        chosen.append(max(rest, key=lambda k: linear_share(X[:, [*chosen, k]], y)))
    for one in chosen[:]:  # leave out features that are not needed beside the others
        fewer = [k for k in chosen if k != one]
        if linear_share(X[:, fewer], y) >= _ALL:
            chosen = fewer
    own = tuple(names[whole[k]] for k in sorted(chosen))
    listed = " and ".join(filter(None, [", ".join(map(repr, own[:-1])), repr(own[-1])]))
    what = f"{listed} together reveal the outcome at the first step"
    unless = ", unless all of them are really known when a run begins"
    yield Caution("together", own, what, _PERFECT, ("Pass ", Argument("drop", list(own)), unless))


def _given_away(kind: CautionKind, name: str, what: str, unless: str = "") -> Caution:
    """A caution about a feature that seems to contain something that cannot be known yet."""
    return Caution(kind, (name,), what, _PERFECT, ("Pass ", Argument("drop", [name]), unless))


def _split(x: FloatArray, y: FloatArray) -> float:
    """How well x, or whether it is missing, divides the outcomes y into separate ranges, 0 to 1."""
    gaps = np.isnan(x)
    missing = separated(gaps.astype(np.float64), y) if gaps.any() else 0.0
    return max(separated(x, y), missing)


def _equal(x: FloatArray, y: FloatArray, *, so_far: FloatArray) -> bool | None:
    """Whether x equals the outcomes y, in rows where the outcome is still open."""
    spread = float(y.std())
    # If the behavior so far is the same for all runs, rows where it equals the outcome count too.
    open_yet = _constant(so_far) | ~(np.abs(y - so_far) <= 0.05 * spread)
    known: BoolArray = np.isfinite(x) & open_yet
    if np.count_nonzero(known) < LEAST or _constant(y[known]):
        return None
    needed = _NEARLY_ALL if np.unique(y).size > _FEW_RESULTS else _EVERYWHERE
    return float(np.mean(np.abs(x[known] - y[known]) <= 1e-3 * spread)) >= needed


def _usual_share(X: FloatArray, y: FloatArray) -> float:
    """The share of y's variance that a linear function of X explains, without extreme outcomes."""
    low, high = np.quantile(y, [0.01, 0.99])
    usual = (y >= low) & (y <= high)
    return _share(X[usual], y[usual])


def _share(X: FloatArray, y: FloatArray) -> float:
    return linear_share(X, y) if np.isfinite(X).all() else 0.0


def _constant(values: AnyArray) -> bool:
    return bool(np.all(values == values[0]))


@dataclass(frozen=True)
class FileOrder:
    """How the episodes are ordered in their file.

    Attributes
    ----------
    sorted_by
        The features by which the file is sorted: their first readings never fall, or never rise,
        from one episode to the next.
    share
        The share of the differences between outcomes that an episode's place in the file explains,
        from 0 to 1.
    """

    sorted_by: tuple[str, ...]
    share: float

    def __str__(self) -> str:
        by = ", ".join(map(repr, self.sorted_by[:5])) or "no feature"
        share = "nothing" if self.share < 0.01 else percent(self.share, 0)
        text = f"the file is sorted by {by}; its order explains {share} of the outcomes"
        if self.share < _NOTICEABLE:
            return text
        return (
            f"{text}, so the runs are in no random order; for a drift check, name the column that "
            "says when they started (order)"
        )


def find_order(episodes: Episodes) -> tuple[FileOrder, list[Caution]]:
    """How the file is ordered, and cautions if its order or the ids are related to the outcomes."""
    outcomes = episodes.outcomes
    if len(episodes) < LEAST:
        return FileOrder((), 0.0), []
    share = max(determined(np.arange(len(episodes), dtype=np.float64), outcomes), 0.0)
    states = episodes.at(0).states.T
    names = episodes.schema.names
    sorted_by = tuple(name for name, x in zip(names, states, strict=True) if _is_sorted(x))
    cautions = []
    if share >= _SORTED:
        what = "The file is sorted by result: an episode's place in it predicts its outcome"
        why = (
            "This does not affect the split of a fit, but everything that takes runs in order: a "
            "test on the last rows, a drift guard, a replay"
        )
        remedy = "Sort the runs by the time at which they happened"
        cautions.append(Caution("order", (), what, why, (remedy,)))
    for part in _parts_of(episodes.ids):
        if max(determined(part, outcomes), separated(part, outcomes)) >= 0.95:
            role = episodes.roles.episode
            what = f"The ids of the episodes ({role!r}) reveal their outcomes"
            why = (
                "They were given after the runs were over. An id is not a feature, so p does not "
                "read it, but sorting or sampling by id selects runs by their result"
            )
            remedy = "Name the runs before they begin, and make no feature from the id"
            cautions.append(Caution("id", (role,), what, why, (remedy,)))
            break
    return FileOrder(sorted_by, share), cautions


def _is_sorted(x: FloatArray) -> bool:
    steps = np.diff(x)
    return bool(np.any(steps != 0) and (np.all(steps >= 0) or np.all(steps <= 0)))


def _parts_of(ids: AnyArray) -> Iterator[FloatArray]:
    """The numbers and words in ids such as ``run-17``, each as a column of numbers."""
    if ids.dtype.kind in "iu":
        yield ids.astype(np.float64)
        return
    split = [_PARTS.findall(str(one)) for one in ids.tolist()]
    width = min(map(len, split))
    for place in range(width):
        words = [parts[place] for parts in split]
        try:
            yield np.array(words, dtype=np.float64)
        except ValueError:
            yield np.unique(words, return_inverse=True)[1].astype(np.float64)


def find_since_last(episodes: Episodes) -> list[Caution]:
    """A caution if each row seems to contain the reward of the row before it."""
    reward, store = episodes.roles.reward, episodes._store
    if reward is None or store.rewards is None or reward.startswith((AN_OUTCOME, FROM_NEXT)):
        return []
    own = episodes._positions
    own = own[store.lengths[own] > 1]
    if own.size < _FEWEST or np.any(store.rewards[store.rows(0, own)[0]] != 0.0):
        return []
    zeros = rows = 0
    for t in range(1, int(store.lengths[own].max())):
        later = store.rewards[store.rows(t, own)[0]]
        zeros, rows = zeros + int(np.count_nonzero(later == 0.0)), rows + later.size
    if zeros > _SELDOM * rows:
        return []
    what = (
        f"{reward!r} is 0 in the first row of all {own.size:,} episodes with several rows, and "
        "seldom 0 in other rows, as if it were what was earned since the previous row"
    )
    why = (
        "A row's reward must be what is earned after it. An evaluation cannot notice the mistake, "
        "because it reads new runs in the same way. But p of a run in progress is then wrong, and "
        "more alarms are false"
    )
    remedy = (
        "If it is so, pass ",
        Argument("reward_since_last", True),
        ": each row then gets the reward of the next row. If it is only that nothing can be earned "
        "in the first step, nothing is wrong",
    )
    return [Caution("since last", (reward,), what, why, remedy)]


def find_waits(episodes: Episodes) -> list[Caution]:
    """A caution if rewards are the times until the next row; else an empty list."""
    clock, reward = episodes.roles.step or "", episodes.roles.reward
    if ON_CLOCK not in clock or reward is None or episodes.behavior.spec != "sum":
        return []
    if not _are_waits(*_earned_and_gaps(episodes)):
        return []
    what = f"{reward!r} looks like the time until the next row of the log"
    why = (
        f"With a step every {clock.partition(ON_CLOCK)[2]}, the whole wait is earned at its first "
        "step, so p learns when the next row comes, which is not known yet"
    )
    remedy = (
        "Add a column with the time since the run began, and pass ",
        Argument("behavior", Placeholder("NAME")),
        " in place of the reward; or leave out ",
        Argument("every"),
        ", and log a row for each interval yourself",
    )
    return [Caution("wait", (reward,), what, why, remedy)]


def _earned_and_gaps(episodes: Episodes) -> tuple[FloatArray, FloatArray]:
    """What was earned at a step, and after how many steps something was earned again."""
    store = episodes._store
    own = episodes._positions
    chosen = np.sort(own[np.argsort(episodes.keys, kind="stable")[:_ENOUGH]])
    last = np.full(chosen.size, -1)
    amount = np.zeros(chosen.size)
    earned, gaps = [], []
    assert store.rewards is not None  # a sum is made of rewards
    for t in range(int(store.lengths[chosen].max())):
        rows, alive = store.rows(t, chosen)
        reward = store.rewards[rows]
        some = reward != 0.0
        again = alive[some]
        known = again[last[again] >= 0]
        earned.append(amount[known])
        gaps.append((t - last[known]).astype(np.float64))
        last[again], amount[again] = t, reward[some]
    return np.concatenate(earned), np.concatenate(gaps)


def _are_waits(earned: FloatArray, gaps: FloatArray) -> bool:
    """Whether rewards are the time to the next row, in whatever unit."""
    long = gaps > 1.0  # a wait shorter than one tick shows nothing
    if np.count_nonzero(long) < LEAST or np.ptp(gaps[long]) == 0.0 or np.ptp(earned[long]) == 0.0:
        return False
    unit = float(earned.sum() / gaps.sum())
    if unit == 0.0 or np.corrcoef(earned[long], gaps[long])[0, 1] * np.sign(unit) < _NEARLY_ALL:
        return False
    return bool(np.mean(np.abs(earned[long] / unit - gaps[long]) <= _ROUNDED) >= _NEARLY_ALL)
