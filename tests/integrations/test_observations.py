from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.vector.utils import batch_space

from ontarget.errors import EpisodesError, InputError
from ontarget.integrations.environments import layout_of
from refusals import refuses

NESTED = Dict(
    arm=Box(-1.0, 1.0, (2, 2), np.float32),
    gear=Discrete(3, start=5),
    inner=Tuple((Box(0.0, 1.0, (1,)), MultiDiscrete([2, 4]))),
    lights=MultiBinary(2),
)
NAMES = (
    *("arm_0_0", "arm_0_1", "arm_1_0", "arm_1_1", "gear"),
    *("inner.x0", "inner.x1_0", "inner.x1_1", "lights_0", "lights_1"),
)


def test_every_number_of_a_nested_observation_has_a_name() -> None:
    layout = layout_of(NESTED)
    assert layout.names == NAMES
    assert layout.categorical == ("gear", "inner.x1_0", "inner.x1_1")


@pytest.mark.parametrize(
    ("space", "names", "categorical"),
    [
        (Box(-1.0, 1.0, (3,)), ("x0", "x1", "x2"), ()),
        (Box(-1.0, 1.0, ()), ("x0",), ()),
        (Discrete(4), ("x0",), ("x0",)),
        (MultiDiscrete([3, 3]), ("x0", "x1"), ("x0", "x1")),
        (Tuple((Discrete(2), Box(0.0, 1.0, (2,)))), ("x0", "x1_0", "x1_1"), ("x0",)),
    ],
)
def test_plain_spaces_have_plain_names(space, names, categorical) -> None:
    layout = layout_of(space)
    assert (layout.names, layout.categorical) == (names, categorical)


def test_a_row_holds_the_numbers_of_the_observation_in_order() -> None:
    seen = NESTED.sample()
    row = layout_of(NESTED).row(seen)
    expected = [
        *seen["arm"].ravel(),
        seen["gear"],
        *seen["inner"][0],
        *seen["inner"][1],
        *seen["lights"],
    ]
    assert row.tolist() == pytest.approx(expected, abs=0.0)


def test_a_batch_gives_the_rows_of_its_observations() -> None:
    from gymnasium.vector.utils import concatenate, create_empty_array

    layout = layout_of(NESTED)
    NESTED.seed(3)
    seen = [NESTED.sample() for _ in range(5)]
    batch = concatenate(NESTED, seen, create_empty_array(NESTED, 5))
    assert batch in batch_space(NESTED, 5)
    assert np.array_equal(layout.rows(batch, 5), np.stack([layout.row(one) for one in seen]))


def test_a_row_is_a_copy() -> None:
    seen = np.zeros(3)
    row = layout_of(Box(-1.0, 1.0, (3,), np.float64)).row(seen)
    seen[:] = 1.0
    assert row.tolist() == [0.0, 0.0, 0.0]


def test_a_space_of_text_is_refused_by_name() -> None:
    with refuses(InputError, None, "Text", "'note'"):
        layout_of(Dict(note=Text(5), x=Discrete(2)))


def test_an_observation_of_another_shape_is_refused() -> None:
    layout = layout_of(Dict(arm=Box(-1.0, 1.0, (2,))))
    with refuses(EpisodesError, None, "arm", "(2,)", "(3,)"):
        layout.row({"arm": np.zeros(3)})
    with refuses(EpisodesError, None, "'arm'", "leg"):
        layout.row({"leg": np.zeros(2)})


def test_a_space_of_endless_depth_is_refused() -> None:
    space = Discrete(2)
    for _ in range(60):
        space = Tuple((space,))
    with refuses(EpisodesError, None, 50):
        layout_of(space)


def test_keys_that_clash_are_refused() -> None:
    with refuses(EpisodesError, None, "'a_0'"):
        layout_of(Dict({"a": Box(0.0, 1.0, (2,)), "a_0": Discrete(2)}))


@pytest.mark.parametrize(
    ("space", "shown"),
    [
        (Box(0, 255, (84, 84), np.uint8), ("(84, 84)", "7,056")),
        (Dict(eye=Box(0, 1, (20, 20, 3)), arm=Box(0, 1, (2,))), ("'eye'", "(20, 20, 3)")),
        (Box(0.0, 1.0, (4096,)), ("4,096", "encoder")),
    ],
)
def test_an_image_is_refused_with_the_way_out(space, shown: tuple[str, ...]) -> None:
    with refuses(EpisodesError, None, *shown):
        layout_of(space)


def test_many_joints_are_no_image() -> None:
    assert len(layout_of(Box(-1.0, 1.0, (376,))).names) == 376
    assert len(layout_of(Box(-1.0, 1.0, (17, 6))).names) == 102
