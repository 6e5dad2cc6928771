"""Tamarisk against the planning community's own version of it, where the two mean the same.

`rddlrepository` holds Tamarisk in RDDL and `pyRDDLGym` runs it. Its plants spread by noisy-or and
two species may share a slot, so only the limiting case without spread is comparable: treatment,
death and costs. There, eradicating and restoring one reach at once is not eradicate-and-restore
(it restores empty slots only), so that action is left out too.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ontarget.domains import Tamarisk, TamariskParameters
from ontarget.domains._tamarisk_kernels import (
    EMPTY,
    ERADICATE,
    NATIVE,
    NOTHING,
    RESTORE,
    TAMARISK,
)
from ontarget.domains.draws import episode_keys
from ontarget.domains.tamarisk import Rivers
from tests.domains.bounds import agrees

pytestmark = pytest.mark.slow

START = [TAMARISK, TAMARISK, NATIVE, EMPTY, TAMARISK, TAMARISK, NATIVE]
NO_SPREAD = TamariskParameters(native_seeds=0, tamarisk_seeds=0)
EPISODES, STEPS = 300, 6

INSTANCE = """
non-fluents nf_no_spread {{
    domain = tamarisk_mdp;
    objects {{ slot : {{{slots}}}; reach : {{{reaches}}}; }};
    non-fluents {{
        ERADICATION-RATE = {p.eradication}; RESTORATION-RATE = {p.restoration};
        DEATH-RATE-TAMARISK = {p.tamarisk_death}; DEATH-RATE-NATIVE = {p.native_death};
        DOWNSTREAM-SPREAD-RATE = 0.0; UPSTREAM-SPREAD-RATE = 0.0;
        EXOGENOUS-PROD-RATE-NATIVE = 0.0; EXOGENOUS-PROD-RATE-TAMARISK = 0.0;
        COST-PER-INVADED-REACH = {p.invaded_cost}; COST-PER-TREE = {p.tree_cost};
        COST-PER-EMPTY-SLOT = {p.empty_cost}; ERADICATION-COST = {eradication_cost};
        RESTORATION-COST = {p.restore_cost};
        RESTORATION-COST-FOR-EMPTY-SLOT = {p.restore_slot_cost};
        {topology}
    }};
}}
instance no_spread {{
    domain = tamarisk_mdp;
    non-fluents = nf_no_spread;
    init-state {{ {start} }};
    max-nondef-actions = pos-inf;
    horizon = {steps};
    discount = 1.0;
}}
"""


def instance(p: TamariskParameters) -> str:
    numbers = range(1, p.edges + 1)
    names = {TAMARISK: "tamarisk-at", NATIVE: "native-at"}
    return INSTANCE.format(
        p=p,
        slots=", ".join(f"s{i}" for i in numbers),
        reaches=", ".join(f"r{i}" for i in numbers),
        # With one slot per reach the per-tree part of the cost is one more fixed part.
        eradication_cost=p.eradicate_cost + p.eradicate_tree_cost,
        topology=" ".join(
            f"SLOT-AT-REACH(s{e + 1}, r{e + 1});"
            + (f" DOWNSTREAM-REACH(r{(e - 1) // 2 + 1}, r{e + 1});" if e else "")
            for e in range(p.edges)
        ),
        start=" ".join(
            f"{names[code]}(s{e + 1});" for e, code in enumerate(START) if code != EMPTY
        ),
        steps=STEPS,
    )


Step = tuple[NDArray[np.int8], NDArray[np.int8], float, NDArray[np.int8]]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> list[Step]:
    """Steps of the RDDL simulator under random legal actions: edges, actions, reward, edges."""
    reason = "pyRDDLGym and rddlrepository are in the extra 'slow'"
    pyrddlgym = pytest.importorskip("pyRDDLGym", reason=reason)
    manager = pytest.importorskip("rddlrepository.core.manager", reason=reason)
    path = tmp_path_factory.mktemp("rddl") / "instance.rddl"
    path.write_text(instance(NO_SPREAD))
    problem = manager.RDDLRepoManager().get_problem("Tamarisk_MDP_ippc2014")
    domain = Path(problem.get_domain())
    with warnings.catch_warnings():
        # On its first run on a machine its parser leaves parser.out open: let it be closed here.
        warnings.simplefilter("ignore", ResourceWarning)
        env = pyrddlgym.make(domain=str(domain), instance=str(path), vectorized=False)
        gc.collect()
    try:
        return list(_steps(env))
    finally:
        env.close()


def _steps(env: object) -> Iterator[Step]:
    rng = np.random.default_rng(0)
    for episode in range(EPISODES):
        state, _ = env.reset(seed=episode)  # type: ignore[attr-defined]
        edges = _codes(state)
        assert edges.tolist() == START
        for _ in range(STEPS):
            treated = rng.random(7) < 0.5
            usual = np.where(edges == TAMARISK, ERADICATE, np.where(edges == EMPTY, RESTORE, 0))
            actions = np.where(treated, usual, NOTHING).astype(np.int8)
            names = {ERADICATE: "eradicate", RESTORE: "restore"}
            asked = {f"{names[a]}___r{e + 1}": True for e, a in enumerate(actions) if a}
            state, reward, *_ = env.step(asked)  # type: ignore[attr-defined]
            after = _codes(state)
            yield edges, actions, float(reward), after
            edges = after


def _codes(state: dict[str, bool]) -> NDArray[np.int8]:
    tamarisk = [state[f"tamarisk-at___s{e}"] for e in range(1, 8)]
    native = [state[f"native-at___s{e}"] for e in range(1, 8)]
    assert not np.logical_and(tamarisk, native).any()
    return np.where(tamarisk, TAMARISK, np.where(native, NATIVE, EMPTY)).astype(np.int8)


def test_costs_agree_with_rddl_step_by_step(theirs: list[Step]) -> None:
    domain = Tamarisk(NO_SPREAD)
    rivers = Rivers(np.stack([edges for edges, *_ in theirs]))
    actions = np.stack([actions for _, actions, *_ in theirs])
    ours = domain.apply(rivers, actions, 0, episode_keys(0, 0, len(theirs)))
    assert np.allclose(ours, [reward for *_, reward, _ in theirs], rtol=0, atol=1e-9)
    assert len(set(ours.tolist())) > 50


@pytest.mark.parametrize(
    ("code", "action", "chances"),
    [
        (TAMARISK, NOTHING, (0.0, 0.2, 0.8)),
        (TAMARISK, ERADICATE, (0.0, 0.85, 0.15)),
        (EMPTY, NOTHING, (0.0, 1.0, 0.0)),
        (EMPTY, RESTORE, (0.65, 0.35, 0.0)),
        (NATIVE, NOTHING, (0.8, 0.2, 0.0)),
    ],
)
def test_treatment_and_death_agree_with_rddl(
    theirs: list[Step], code: int, action: int, chances: tuple[float, float, float]
) -> None:
    before = np.stack([edges for edges, *_ in theirs])
    actions = np.stack([actions for _, actions, *_ in theirs])
    after = np.stack([edges for *_, edges in theirs])
    rivers = Rivers(before.copy())
    Tamarisk(NO_SPREAD).apply(rivers, actions, 0, episode_keys(0, 0, len(theirs)))
    here = (before == code) & (actions == action)
    n = int(here.sum())
    assert n > 500
    for to, chance in zip((NATIVE, EMPTY, TAMARISK), chances, strict=True):
        assert agrees(int((after[here] == to).sum()), n, chance)
        assert agrees(int((rivers.edges[here] == to).sum()), n, chance)
