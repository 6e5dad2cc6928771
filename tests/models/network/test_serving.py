"""Networks are served as plain NumPy would, from checked arrays, and without PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.attacks.monitors import drawn_weights

from ontarget import Episodes, GoalMonitor, Target
from ontarget.errors import MissingExtraError, ModelFileError
from ontarget.models import Marginal, QuantileNetwork
from ontarget.models.network import _fitting
from ontarget.models.network._kernel import knots_of_rows
from refusals import refuses

RNG = np.random.default_rng(0)
STEPS = np.tile(np.arange(5), 40)
X = np.column_stack([RNG.normal(3.0, 2.0, size=200), RNG.integers(0, 3, size=200), STEPS])
X[RNG.random(200) < 0.2, 0] = np.nan
Y = np.nan_to_num(X[:, 0]) + RNG.normal(size=200)
IDS = np.arange(200) // 5


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> QuantileNetwork:
    """A network of drawn weights, which is all that serving needs."""
    monkeypatch.setattr(_fitting, "train", drawn_weights)
    return QuantileNetwork(6, n_folds=3).fit(X, Y, ids=IDS, steps=STEPS, categorical=[1])


def plain_knots(model: QuantileNetwork, networks: range) -> np.ndarray:
    """The forward pass as one would write it, in double precision."""
    known = X[~np.isnan(X[:, 0]), 0]
    number = np.clip((X[:, 0] - known.mean()) / known.std(), -6.0, 6.0)
    t = X[:, 2] / 4.0
    logs = [2.0 * np.log1p(4.0 * one) / np.log(5.0) - 1.0 for one in (t, 1.0 - t)]
    inputs = [np.nan_to_num(number), np.isnan(number), *(X[:, 1] == k for k in range(3))]
    inputs = np.column_stack([*inputs, np.zeros(200), 2.0 * t - 1.0, *logs])
    arrays = model.to_arrays()
    n, h, d, q = 3, 6, inputs.shape[1], 64
    first, second = arrays["network_first"].reshape(n, d, h), arrays["network_second"]
    head = arrays["network_head"].reshape(n, h + d + 1, q)
    total = 0.0
    for m in networks:
        one = inputs @ first[m] + arrays["network_first_bias"].reshape(n, h)[m]
        two = np.maximum(one, 0.0) @ second.reshape(n, h, h)[m]
        two = np.maximum(two + arrays["network_second_bias"].reshape(n, h)[m], 0.0)
        total = total + np.column_stack([two, inputs, np.ones(200)]) @ head[m]
    return np.sort(arrays["rank_odds"] + total / len(networks), axis=1)


@pytest.mark.parametrize("networks", [range(3), range(1, 2)])
def test_the_forward_pass_is_that_of_plain_numpy(model: QuantileNetwork, networks: range) -> None:
    found = np.empty((200, 64))
    used = networks.start, networks.stop
    knots_of_rows(model.networks_, model.ranks_.odds, used, X, found)
    assert found == pytest.approx(plain_knots(model, networks), rel=1e-5, abs=1e-5)


def test_a_missing_value_that_training_never_missed_counts_for_nothing(
    model: QuantileNetwork,
) -> None:
    unseen = [[3.0, 9.0, 2.0], [3.0, np.nan, 2.0]]  # a category of no row, and none at all
    first, second = model.quantile(unseen, [0.2, 0.8])
    assert np.array_equal(first, second)


def test_training_episodes_are_answered_by_the_network_that_never_saw_them(
    model: QuantileNetwork,
) -> None:
    left, right = model.out_of_bag_limits(X, Y, IDS)
    assert np.all((left >= 0.0) & (left <= right) & (right <= 1.0))
    assert not np.allclose(right, model.cdf(X, Y), atol=0.01)
    without, fold = model._learned_.without, model._learned_.fold
    row = int(np.argmax(fold[IDS] == 1))
    knots = plain_knots(model, range(1, 2))[row]
    odds = without[1].levels.reshape(5, -1)[STEPS[row]]
    cut = np.searchsorted(model.ranks_.support[0], Y[row])
    wanted = np.interp(odds[cut], knots, model.ranks_.odds) if cut < odds.size else np.inf
    assert right[row] == pytest.approx(1.0 / (1.0 + np.exp(-wanted)), abs=1e-3)


def test_one_episode_alone_has_the_outcomes_and_no_honest_answer() -> None:
    alone = QuantileNetwork().fit(X[:, :2], Y, ids=np.zeros(200))  # needs no PyTorch
    wanted = Marginal().fit(X, Y).cdf(X, Y)
    assert alone.cdf(X[:, :2], Y) == pytest.approx(wanted, abs=0.01)
    assert np.isnan(alone.out_of_bag_limits(X[:3, :2], Y[:3], np.zeros(3))).all()


@pytest.mark.parametrize(
    ("name", "change", "shown"),
    [
        ("network_first", lambda a: a[:-1], "network_first"),
        ("network_second", lambda a: a[:-6], "network_second"),
        ("network_head", lambda a: np.append(a, a[:1]), "network_head"),
        ("network_second_bias", lambda a: a * np.float32(np.nan), "10000"),
        ("network_first", lambda a: a + np.float32(1e5), "10000"),
        ("network_first_bias", lambda a: a[:0], "square matrices"),
        ("network_head", lambda a: a.astype(np.float64), "float32"),
        ("rank_odds", lambda a: a[::-1].copy(), "rank_odds"),
        ("rank_levels", lambda a: a[::-1].copy(), "rank_levels"),
        ("rank_mass", lambda a: a[1:], "rank_mass"),
        ("rank_time", lambda a: a + 1, "rank_time"),
        ("rank_clock", lambda a: a[::-1].copy(), "rank_clock"),
    ],
)
def test_damaged_arrays_are_refused(
    model: QuantileNetwork, name: str, change: object, shown: str
) -> None:
    arrays = model.to_arrays()
    arrays[name] = change(arrays[name])  # type: ignore[operator]
    with refuses(ModelFileError, None, shown):
        QuantileNetwork.from_arrays(arrays)


def test_a_fit_without_pytorch_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with refuses(MissingExtraError, None, "'ontarget[network]'"):
        QuantileNetwork().fit(X, Y)


_WITHOUT_PYTORCH = """
import json, sys
from importlib.machinery import PathFinder

class WithoutPyTorch(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] == "torch" else super().find_spec(name, path, target)

sys.meta_path = [WithoutPyTorch if one is PathFinder else one for one in sys.meta_path]
from ontarget import GoalMonitor, Target
from ontarget.errors import MissingExtraError
monitor = GoalMonitor.load(sys.argv[1])
watch = monitor.watch(Target.at_least(0.0))
p = [watch.step([0.3 * t, -0.1], *([0.5] if t else [])).p for t in range(4)]
try:
    monitor.fitted.models[0].fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
except MissingExtraError as error:
    said = str(error)
print(json.dumps([p, said]))
"""


def test_a_model_file_is_loaded_and_served_without_pytorch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_fitting, "train", drawn_weights)
    runs = Episodes.from_arrays(RNG.normal(size=(60, 4, 2)), RNG.normal(size=(60, 4)))
    monitor = GoalMonitor(QuantileNetwork(6, n_folds=2), min_calibration=5)
    monitor.fit(runs, progress=False).save(tmp_path / "one.ontarget")
    watch = monitor.watch(Target.at_least(0.0))
    wanted = [watch.step([0.3 * t, -0.1], *([0.5] if t else [])).p for t in range(4)]
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_PYTORCH, str(tmp_path / "one.ontarget")],
        capture_output=True,
        text=True,
        check=True,
    )
    p, said = json.loads(done.stdout)
    assert p == wanted
    assert "pip install 'ontarget[network]'" in said
