"""Training finds laws, the same one for the same seed, and says what is wrong with its input."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ontarget import Episodes, GoalMonitor, Target
from ontarget.errors import InputError
from ontarget.models import Marginal, QuantileNetwork
from ontarget.models.network import _training
from ontarget.models.network._kernel import inputs_of_rows, knots_of_rows
from refusals import refuses

torch = pytest.importorskip("torch", reason="networks are trained with PyTorch: ontarget[network]")

SKIPPED = {"check_array_api_input": "needs SCIPY_ARRAY_API"}
FEW = {"width": 16, "max_epochs": 12}


def law(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose outcome has a mean and a spread that bend with the features."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 3))
    return rows, rows[:, 0] ** 2 + np.exp(0.5 * rows[:, 1]) * rng.normal(size=n)


def truth(rows: np.ndarray, y: np.ndarray) -> np.ndarray:
    scaled = (y - rows[:, [0]] ** 2) / np.exp(0.5 * rows[:, [1]])
    return np.vectorize(lambda value: 0.5 * math.erfc(-value / math.sqrt(2.0)))(scaled)


@pytest.fixture(scope="module")
def model() -> QuantileNetwork:
    return QuantileNetwork(**FEW).fit(*law(4_000))


def expected_failures(estimator: object) -> dict[str, str]:
    why = "a heavy row is one example, not several"
    return {"check_sample_weight_equivalence_on_dense_data": why}


@pytest.mark.slow
@parametrize_with_checks([QuantileNetwork(16, n_folds=2)], expected_failed_checks=expected_failures)
def test_scikit_learn_accepts_the_estimator(estimator: object, check: object) -> None:
    if check.func.__name__ in SKIPPED:  # type: ignore[attr-defined]
        pytest.skip(SKIPPED[check.func.__name__])  # type: ignore[attr-defined]
    check(estimator)  # type: ignore[operator]


def test_a_law_that_bends_in_mean_and_spread_is_found(model: QuantileNetwork) -> None:
    rows, _ = law(200, seed=1)
    grid = np.tile(np.linspace(-3.0, 5.0, 17), (200, 1))
    error = np.abs(model.cdf(rows, grid) - truth(rows, grid)).mean()
    assert error < 0.03
    unaware = Marginal().fit(*law(4_000)).cdf(rows, grid)
    assert np.abs(unaware - truth(rows, grid)).mean() > 5.0 * error


def test_pytorchs_own_forward_pass_agrees_on_10_000_rows(model: QuantileNetwork) -> None:
    rows = law(10_000, seed=2)[0]
    networks, odds = model.networks_, model.ranks_.odds
    n, h = 5, FEW["width"]
    found, inputs = np.empty((10_000, 64)), np.empty((10_000, 9), dtype=np.float32)
    knots_of_rows(networks, odds, (0, n), rows, found)
    inputs_of_rows(networks.columns, rows, inputs)
    x = torch.from_numpy(inputs)
    first, bias, second, second_bias, head = (torch.tensor(one) for one in networks[1:])
    total = torch.zeros(10_000, 64)
    for m in range(n):
        hidden = torch.relu(x @ first.view(n, 9, h)[m] + bias.view(n, h)[m])
        hidden = torch.relu(hidden @ second.view(n, h, h)[m] + second_bias.view(n, h)[m])
        own = head.view(n, h + 10, 64)[m]
        total += torch.cat([hidden, x], dim=1) @ own[:-1] + own[-1]
    wanted = np.sort(total.numpy().astype(np.float64) / n + odds, axis=1)
    assert np.max(np.abs(found - wanted) / np.maximum(np.abs(wanted), 1.0)) < 1e-5


def test_the_same_seed_gives_the_same_bits_whatever_the_order_of_rows_and_the_threads(
    model: QuantileNetwork,
) -> None:
    rows, y = law(4_000)
    order, threads = np.random.default_rng(3).permutation(4_000), torch.get_num_threads()
    try:
        torch.set_num_threads(2 if threads == 1 else 1)
        again = QuantileNetwork(**FEW).fit(rows[order], y[order])
    finally:
        torch.set_num_threads(threads)
    mine, theirs = model.to_arrays(), again.to_arrays()
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
    other = QuantileNetwork(**FEW, seed=1).fit(rows, y).to_arrays()
    assert not np.array_equal(mine["network_first"], other["network_first"])


def test_categories_and_missing_values_tell_what_they_tell() -> None:
    rng = np.random.default_rng(4)
    kind, number = rng.integers(0, 3, size=2_000), rng.normal(size=2_000)
    number[rng.random(2_000) < 0.3] = np.nan
    y = np.where(np.isnan(number), 5.0, number) + 4.0 * (kind == 1) + rng.normal(size=2_000)
    rows = np.column_stack([kind, number])
    found = QuantileNetwork(**FEW).fit(rows, y, categorical=[0])
    asked = [[0.0, 0.0], [1.0, 0.0], [0.0, np.nan]]
    assert found.quantile(asked, 0.5) == pytest.approx([0.0, 4.0, 5.0], abs=0.5)


def test_one_network_follows_effects_that_turn_round_as_the_steps_go_by() -> None:
    rng = np.random.default_rng(5)
    steps = np.tile(np.arange(11), 400)
    x = rng.normal(size=steps.size)
    y = (steps - 5.0) / 5.0 * 2.0 * x + rng.normal(size=steps.size)
    found = QuantileNetwork(**FEW).fit(
        np.column_stack([x, steps]), y, ids=np.repeat(np.arange(400), 11), steps=steps
    )
    assert found.ranks_.time[0] == 1
    asked = [[1.0, 0.0], [1.0, 5.0], [1.0, 10.0]]
    assert found.quantile(asked, 0.5) == pytest.approx([-2.0, 0.0, 2.0], abs=0.4)


def test_noise_teaches_nothing() -> None:
    rng = np.random.default_rng(6)
    rows, y = rng.normal(size=(600, 5)), rng.normal(size=600)
    found = QuantileNetwork(**FEW).fit(rows, y)
    grid = np.tile(np.linspace(-2.0, 2.0, 9), (100, 1))
    wanted = Marginal().fit(rows, y).cdf(rows[:100], grid)
    assert np.abs(found.cdf(rows[:100], grid) - wanted).mean() < 0.04


def test_a_loss_that_is_no_number_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    good = _training._Training._held_out_loss
    calls = []

    def lost(training: _training._Training) -> object:
        calls.append(1)
        return good(training) * (math.nan if len(calls) == 3 else 1.0)

    monkeypatch.setattr(_training._Training, "_held_out_loss", lost)
    with refuses(InputError, None, "epoch 2", "learning_rate=0.004"):
        QuantileNetwork(**FEW).fit(*law(200))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "`width` needs a whole number from 1 to 1024, got 0"),
        ({"n_folds": 1}, "`n_folds` needs a whole number from 2 up, got 1"),
        ({"max_epochs": 1.5}, "`max_epochs` needs a whole number from 1 up, got 1.5"),
        ({"patience": 0}, "`patience` needs a whole number from 1 up, got 0"),
        ({"learning_rate": 0.0}, "`learning_rate` needs a share above 0, at most 1, got 0.0"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        QuantileNetwork(**options).fit(*law(20))  # type: ignore[arg-type]


def test_one_feature_and_constant_outcomes_and_500_features_are_fine() -> None:
    rows, y = law(600)
    few = {"width": 8, "max_epochs": 3}
    assert QuantileNetwork(**few).fit(rows[:, :1], y).quantile([[0.0]], 0.5).shape == (1,)
    constant = QuantileNetwork(**few).fit(rows, np.full(600, 3.0))
    assert constant.quantile(rows[:5], [0.1, 0.9]).tolist() == [[3.0, 3.0]] * 5
    wide = np.random.default_rng(7).normal(size=(600, 500))
    found = QuantileNetwork(**few).fit(wide, wide[:, 0])
    assert np.isfinite(found.predict(wide[:5])).all()


@pytest.mark.parametrize("odd", [1e300, 1e-320, 0.0, np.nan])
def test_features_that_are_huge_tiny_constant_or_always_missing_are_fine(odd: float) -> None:
    rows, y = law(60)
    rows[:, 1] *= odd
    found = QuantileNetwork(width=4, n_folds=2, max_epochs=2).fit(rows, y)
    assert np.isfinite(found.quantile(rows, [0.1, 0.5, 0.9])).all()


@pytest.mark.slow
def test_100_000_rows_are_fine() -> None:
    rows, y = law(100_000)
    found = QuantileNetwork(max_epochs=4).fit(rows, y)
    grid = np.tile(np.linspace(-3.0, 5.0, 17), (1_000, 1))
    assert np.abs(found.cdf(rows[:1_000], grid) - truth(rows[:1_000], grid)).mean() < 0.015


def test_a_monitor_of_one_network_watches_as_it_evaluates_and_survives_its_file(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(8)
    states = rng.normal(size=(300, 6, 2))
    walks = Episodes.from_arrays(states, states[:, :, 0] + rng.normal(size=(300, 6)))
    monitor = GoalMonitor(QuantileNetwork(**FEW)).fit(walks, progress=False)
    assert len(monitor.fitted.blocks) == 1
    monitor.save(tmp_path / "one.ontarget")
    again = GoalMonitor.load(tmp_path / "one.ontarget")
    target = Target.at_least(0.0)
    one, other = monitor.watch(target, alarm_below=0.2), again.watch(target, alarm_below=0.2)
    for t in range(6):
        rewards = [0.5] if t else []
        assert one.step(states[0, t], *rewards) == other.step(states[0, t], *rewards)
