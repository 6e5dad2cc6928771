"""Bands for the path to come: the laws of gains, how deep a path lies in them, and the band."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor
from ontarget._grid import scale_of
from ontarget.episodes import Split, Translation
from ontarget.errors import FewEpisodesError, InputError, ModelFileError
from ontarget.fitted.guarantee import band_depth
from ontarget.fitted.joint.joint import Joint
from ontarget.fitted.paths._gains_kernel import even_samples
from ontarget.fitted.paths.bands import PathBands
from ontarget.fitted.paths.gains import LEVELS, Cells, Gains, PathMaps, Tail
from ontarget.fitted.recorded import RecordedRuns
from ontarget.modelfile.file import fitted_bytes, fitted_from_bytes
from ontarget.models import Marginal, QuantileForest, StackedForest
from ontarget.models.forest.base import Members
from refusals import refuses
from tests.walks import walks

FOREST = QuantileForest(n_trees=10, min_leaf=4)
rng = np.random.default_rng(0)


def fitted(model: Any = FOREST, episodes: Episodes | None = None, **options: Any) -> GoalMonitor:
    episodes = walks(200) if episodes is None else episodes
    return GoalMonitor(model, steps_per_model=3, min_calibration=5).fit(
        episodes, progress=False, **options
    )


@pytest.fixture(scope="module")
def monitor() -> GoalMonitor:
    return fitted()


def paths_of(episodes: Episodes, horizon: int) -> Any:
    found = RecordedRuns.of(episodes, precedents=False, paths=True).paths
    return found[:, np.minimum(np.arange(horizon + 1), found.shape[1] - 1)]


@pytest.mark.parametrize("n", [1, 7, 50, 51, 120, 1000])
def test_cells_cover_every_later_step_once(n: int) -> None:
    cells = Cells.of(n)
    assert cells.leads.size == min(n, 50)
    assert cells.of_lead.size == n
    for lead, start, stop in zip(cells.leads, cells.starts[:-1], cells.starts[1:], strict=True):
        assert start < lead <= stop
    if n <= 50:
        assert cells.leads.tolist() == list(range(1, n + 1))


def test_samples_stand_for_equal_shares_of_the_mass() -> None:
    counts = np.array([3, 0, 2])
    rows = np.array([[5, 1, 5], [0, 0, 0], [2, 9, 0]], dtype=np.uint32)
    mass = np.array([[0.2, 0.2, 0.1], [0.0, 0.0, 0.0], [0.15, 0.05, 0.0]])
    found = np.zeros((3, 20), dtype=np.int64)
    even_samples((counts, rows, mass), 10, found)
    assert np.bincount(found[0], minlength=11).tolist() == [0, 8, 0, 0, 0, 12, 0, 0, 0, 0, 0]
    assert (found[1] == 10).all()
    assert np.bincount(found[2])[[2, 9]].tolist() == [15, 5]


class Rows:
    """Training rows without a model."""

    training_episodes_ = np.array([0, 1, 2, 2])
    training_steps_ = np.array([0, 2, 1, 3])


@pytest.mark.parametrize("adds_up", [True, False])
def test_gains_and_their_limits_are_counted_from_the_paths(adds_up: bool) -> None:
    paths = np.round(rng.normal(size=(3, 6)), 1)
    scales = 0.9 ** -np.arange(5.0) if adds_up else np.ones(5)
    translation = Translation.SHIFT if adds_up else Translation.KEEP
    gains = Gains(paths, scales, translation, np.array([0.1, scale_of(0.1)]))
    samples, cells = (
        np.array([[0, 1, 2, 3, 3], [1, 1, 1, 2, 0]]),
        Cells(np.array([1, 3]), np.array([0, 2, 3])),
    )
    t, model = 2, Rows()

    def gain(row: int, lead: int) -> float:
        e, s = model.training_episodes_[row], model.training_steps_[row]
        later = paths[e, min(s + lead, 5)]
        if not adds_up:
            return float(later)
        return float(np.round((later - paths[e, s]) * scales[s] / scales[t], 1))

    expected = np.array([[[gain(r, k) for r in own] for k in (1, 3)] for own in samples])
    assert np.allclose(gains.gains(model, samples, t, cells.leads), expected)
    values = np.array([[expected[0, 0, 0], 0.35, expected[0, 1, 2]], [0.0, -0.3, 0.2]])
    left, right = gains.limits(model, samples, t, cells, values)
    for i in range(2):
        for h, cell in enumerate([0, 0, 1]):
            own = np.round(expected[i, cell], 9)
            assert left[i, h] == np.mean(own < np.round(values[i, h], 9))
            assert right[i, h] == np.mean(own <= np.round(values[i, h], 9))


def test_a_tail_reaches_a_level_where_it_should() -> None:
    tail = Tail(np.array(2.0), np.array(0.5))
    for before in (0.0, 0.4):
        level = (1 - 1e-6) * before + 1e-6 * 0.3
        value = tail.reaching(level, np.array([before]))[0]
        assert tail.mixed_in(np.array([before]), np.array([value]))[0] == pytest.approx(level)


def test_maps_are_the_learned_ranks_at_their_levels() -> None:
    ranks = np.sort(rng.random(200) ** 2)
    maps = PathMaps.of({3: [ranks, ranks], 7: [ranks]})
    own = maps.at(3, 8)
    assert own.shape == (5, LEVELS.size)
    for share in (0.1, 0.5, 0.9):
        at = np.interp(share, LEVELS, own[0])
        assert np.mean(ranks <= at) == pytest.approx(share, abs=0.02)
    back = PathMaps.from_arrays(maps.to_arrays(), 8)
    assert np.array_equal(back.at(3, 8), own)


def test_a_path_far_out_in_a_tail_stays_there_when_its_map_is_stored() -> None:
    own = np.array([3e-9, 1e-7, 0.25, 1.0 - 1e-7, 1.0 - 3e-9])
    found = PathMaps.of({0: [own]}).at(0, 1)[0]
    kept = np.interp(np.arange(1, 6) / 6, LEVELS, found)
    assert (found[1:-1] > 0.0).all()
    assert (found[1:-1] < 1.0).all()
    assert found[1] < 3e-9 < found[20]
    assert kept[2] == pytest.approx(0.25, abs=0.01)


def test_a_step_between_two_takes_the_map_of_the_nearest_lead_at_the_nearer_one() -> None:
    ranks = [np.sort(rng.random(50) ** power) for power in (1, 2, 3, 4, 5)]
    maps = PathMaps.of({3: ranks, 7: ranks[:1]})
    assert np.array_equal(maps.at(6, 8), maps.at(7, 8)[[0, 0]])
    assert np.array_equal(maps.at(4, 8), maps.at(3, 8)[:4])
    assert np.array_equal(maps.at(2, 8), maps.at(3, 8)[[0, 1, 2, 3, 4, 4]])


@pytest.mark.parametrize(
    "damage",
    [
        lambda a: a["steps"].__setitem__(0, 9),
        lambda a: a["steps"].__setitem__(0, 7),
        lambda a: a["ranks"].__setitem__((0, 0, 3), 65_535),
        lambda a: a["ranks"].__setitem__((0, 0, 0), 1),
        lambda a: a.update(ranks=a["ranks"].astype(np.float32)),
        lambda a: a.update(ranks=a["ranks"][1:]),
    ],
)
def test_damaged_maps_are_refused(damage: Any) -> None:
    arrays = PathMaps.of({3: [rng.random(9)], 7: [rng.random(9)]}).to_arrays()
    arrays = {name: array.copy() for name, array in arrays.items()}
    damage(arrays)
    with pytest.raises(ModelFileError):
        PathMaps.from_arrays(arrays, 8)


@pytest.mark.parametrize("behavior", ["sum", "discounted:0.9", "max", "min", "last", "mean"])
@pytest.mark.parametrize("ragged", [False, True])
def test_a_path_is_inside_the_band_exactly_if_it_lies_no_deeper(
    behavior: str, ragged: bool
) -> None:
    monitor = fitted(FOREST, walks(160, behavior=behavior, ragged=ragged))
    bands = monitor.contracts.paths
    new = walks(60, seed=4, behavior=behavior, ragged=ragged)
    own = paths_of(new, 6)
    for t in (0, 2, 4):
        rows = new.at(t, grid=monitor.grid)
        band = monitor.path_band(t, rows.states, rows.behavior, 0.7)
        X = monitor.fitted.at(t).inputs(rows.states, rows.behavior)
        depth = bands.law(t).depths(X, own[rows.index])
        reach = band_depth(bands.depths(t)[~np.isnan(bands.depths(t))], 0.7)
        path = own[rows.index][:, t + 1 :]
        inside = ((path >= band.lower - 1e-9) & (path <= band.upper + 1e-9)).all(axis=1)
        assert np.array_equal(inside, depth <= reach + 1e-12)
        assert 0.3 < inside.mean() <= 1.0


def test_steps_far_ahead_share_a_law_and_every_step_is_judged() -> None:
    monitor = GoalMonitor(FOREST, steps_per_model=60).fit(walks(120, 120), progress=False)
    law = monitor.contracts.paths.law(10)
    assert law.cells.leads.size == 50
    new = walks(20, 120, seed=4)
    rows, own = new.at(10, grid=monitor.grid), paths_of(new, 120)
    X = monitor.fitted.at(10).inputs(rows.states, rows.behavior)
    depth = law.depths(X, own)
    band = monitor.path_band(10, rows.states, rows.behavior, 0.8)
    assert band.lower.shape == (20, 110)
    # A path that leaves its law between the middles of two cells lies deep all the same.
    between = next(h for h in range(11, 110) if h - 10 not in law.cells.leads)
    moved = own.copy()
    moved[:, between] += 1e6
    assert (law.depths(X, moved) > np.maximum(depth, 0.49)).all()


@pytest.mark.parametrize("behavior", ["sum", "max", "min", "last"])
@pytest.mark.parametrize("ragged", [False, True])
def test_the_ends_of_each_cell_say_how_deep_a_path_lies(behavior: str, ragged: bool) -> None:
    runs = walks(100, 130, behavior=behavior, ragged=ragged)
    monitor = GoalMonitor(FOREST, steps_per_model=65).fit(runs, progress=False)
    new = walks(20, 130, seed=4, behavior=behavior, ragged=ragged)
    own = paths_of(new, 130)
    for t in (0, 10, 60, 129):
        law, rows = monitor.contracts.paths.law(t), new.at(t, grid=monitor.grid)
        X = monitor.fitted.at(t).inputs(rows.states, rows.behavior)
        leads = np.arange(1, 130 - t + 1)
        gains = law.gains.own(own[rows.index], t, leads)
        every = law._judged(X, gains, law.cells, own[rows.index])
        assert every.shape == (len(rows), 130 - t)
        assert np.array_equal(law.depths(X, own[rows.index]), every.max(axis=1))


def test_bands_of_all_steps_are_wider_and_hold_whole_runs(monitor: GoalMonitor) -> None:
    new = walks(200, seed=8)
    own, inside = paths_of(new, 6), np.ones(200, dtype=bool)
    for t in range(6):
        rows = new.at(t)
        asked = t, rows.states, rows.behavior, 0.8
        one, every = monitor.path_band(*asked), monitor.path_band(*asked, all_steps=True)
        assert (every.upper - every.lower >= one.upper - one.lower - 1e-9).all()
        path = own[:, t + 1 :]
        inside &= ((path >= every.lower - 1e-9) & (path <= every.upper + 1e-9)).all(axis=1)
    assert inside.mean() > 0.68  # 40 assure episodes: a standard error of 6 points


def test_a_loaded_monitor_foretells_the_same(monitor: GoalMonitor) -> None:
    data = fitted_bytes(monitor.fitted)
    loaded = GoalMonitor._of(Joint.of(fitted_from_bytes(data)))
    asked = 2, [[0.1, 0.2], [1.0, -1.0]], [0.1, 0.3], 0.8
    for all_steps in (False, True):
        one, other = (each.path_band(*asked, all_steps=all_steps) for each in (monitor, loaded))
        assert np.array_equal(one.lower, other.lower)
        assert np.array_equal(one.upper, other.upper)


def test_a_fit_judges_no_assure_path_and_the_first_question_judges_each_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged: list[int] = []
    one_step = PathBands._depths_of

    def counted(bands: PathBands, t: int, some: Any) -> Any:
        judged.append(t)
        return one_step(bands, t, some)

    monkeypatch.setattr(PathBands, "_depths_of", counted)
    monitor = fitted()
    assert not judged
    bands = monitor.contracts.paths
    assert bands.run_depths() is bands.run_depths()
    assert judged == list(range(6))
    loaded = fitted_from_bytes(fitted_bytes(monitor.fitted))
    assert np.array_equal(PathBands(loaded).run_depths(), bands.run_depths())
    again = monitor.recalibrate(walks(60, seed=12))
    assert again.contracts.paths.run_depths().size == 60  # those of other assure episodes


def test_a_checkpoint_and_another_order_of_runs_give_the_same_maps(tmp_path: Any) -> None:
    first = fitted(StackedForest(n_trees=4), checkpoint=tmp_path).fitted
    again = fitted(StackedForest(n_trees=4), checkpoint=tmp_path).fitted
    assert np.array_equal(first.path_maps.ranks, again.path_maps.ranks)
    assert first.path_maps.ranks.shape == (6, 50, LEVELS.size)
    assert not np.array_equal(first.path_maps.ranks[0, 0], LEVELS)


def test_groups_have_depths_of_their_own() -> None:
    episodes = walks(200, groups=2)
    monitor = GoalMonitor(FOREST, steps_per_model=3, group="group").fit(episodes, progress=False)
    bands, depths = monitor.contracts.paths, monitor.contracts.paths.depths(1)
    for g in range(2):
        own = depths[monitor.fitted.assure_groups == g]
        lower, _ = bands.band(1, np.zeros((1, 2)), np.zeros(1), g, level=0.7)
        X = monitor.fitted.at(1, g).inputs(np.zeros((1, 2)), np.zeros(1))
        expected = bands.law(1).band(X, band_depth(own, 0.7))[0]
        assert np.allclose(lower, expected, atol=1e-6)


def test_runs_that_were_cut_off_might_have_left_any_band() -> None:
    rng = np.random.default_rng(2)
    lengths = np.where(rng.random(200) < 0.1, 2, 6)
    cut = Episodes.from_arrays(
        [rng.normal(size=(n, 2)) for n in lengths],
        [rng.normal(size=n).round(1) for n in lengths],
        truncated=lengths < 6,
        horizon=6,
        censored="worst-case",
    )
    monitor = fitted(FOREST, cut)
    stopped = np.isinf(monitor.fitted.excess)
    assert stopped.any()
    bands = monitor.contracts.paths
    for depths in (bands.depths(1), bands.depths(4), bands.run_depths()):
        assert np.isinf(depths[stopped]).all()
        assert np.isfinite(depths[~stopped]).all()


def test_very_long_runs_are_judged_by_some_assure_episodes(
    monitor: GoalMonitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = PathBands(monitor.fitted).run_depths()
    monkeypatch.setattr("ontarget.fitted.paths.bands._MOST_ROWS", 60)
    monkeypatch.setattr("ontarget.fitted.paths.bands._FEWEST", 2)
    some = PathBands(monitor.fitted).run_depths()
    known = ~np.isnan(some)
    assert known.sum() == 10
    assert np.array_equal(some[known], every[known])


def test_an_assure_run_may_be_longer_than_all_that_were_learned_from() -> None:
    own = np.random.default_rng(3)
    rewards = [own.normal(size=n).round(1) for n in [6] * 60 + [10] * 20]
    runs = Episodes.from_arrays([own.normal(size=(one.size, 1)) for one in rewards], rewards)
    parts = Split(runs.take(np.arange(60)), runs.take(np.arange(60, 80)), None)
    long = GoalMonitor(FOREST, steps_per_model=10, min_calibration=5).fit(
        split=parts, progress=False
    )
    assert np.isfinite(long.contracts.paths.run_depths()).all()


def test_a_level_that_too_few_episodes_can_promise_is_the_whole_line(monitor: GoalMonitor) -> None:
    band = monitor.path_band(2, [[0.1, 0.2]], 0.0, 0.99)
    assert np.isinf(band.lower).all()
    assert np.isinf(band.upper).all()


def test_what_cannot_be_foretold_says_why(monitor: GoalMonitor) -> None:
    asked = 2, [[0.1, 0.2]], 0.0, 0.8
    with refuses(InputError, "paths", "paths=True"):
        fitted(paths=False).path_band(*asked)
    with refuses(InputError, "model", "StackedForest", "QuantileForest"):
        fitted(Marginal()).path_band(*asked)
    with refuses(FewEpisodesError, "assure", "assure=0.2"):
        fitted(assure=0.0).path_band(*asked)
    with refuses(InputError, "t", "0 to 5", "got 6"):
        monitor.path_band(6, [[0.1, 0.2]], 0.0, 0.8)
    with refuses(InputError, None, "run 0", "'x1'"):
        monitor.path_band(2, [[0.1, np.nan]], 0.0, 0.8)


def test_members_of_a_step_are_sampled_once_for_all_leads(monitor: GoalMonitor) -> None:
    law = monitor.contracts.paths.law(2)
    X = np.array([[0.1, 0.2, 2.0]])
    model = monitor.fitted.models[0]
    members = model.members(X)
    assert isinstance(members, Members)
    samples = law.gains.samples(model, members)
    mass = np.zeros(model.training_episodes_.size)
    np.add.at(mass, members.rows[0, : members.counts[0]], members.mass[0, : members.counts[0]])
    shares = np.bincount(samples[0], minlength=mass.size) / samples.shape[1]
    assert np.abs(np.cumsum(shares) - np.cumsum(mass)).max() < 1 / samples.shape[1]


@pytest.mark.parametrize("behavior", ["sum", "discounted:0.9"])
def test_a_band_never_leaves_what_the_declared_rewards_allow(behavior: str) -> None:
    # A run loses one point a step until it ends, so whatever the forest says, its path is known to
    # stay between where it is and one point a step below.
    lengths = rng.integers(2, 12, size=200)
    runs = Episodes.from_arrays(
        [rng.normal(size=(n, 2)) for n in lengths],
        [np.full(n, -1.0) for n in lengths],
        behavior=behavior,
        horizon=12,
    )
    found = GoalMonitor(FOREST, reward_bounds=(-1, 0), min_calibration=5).fit(runs, progress=False)
    for level in (0.8, 0.999):  # the second is out of reach: without bounds, it is the whole line
        band = found.path_band(3, rng.normal(size=(4, 2)), -3.0, level)
        most = np.cumsum((0.9 if "0.9" in behavior else 1.0) ** np.arange(3, 12))
        assert (band.lower >= -3.0 - most - 1e-7).all()
        assert (band.upper <= -3.0).all()
        assert (band.lower <= band.upper).all()
