from __future__ import annotations

import json
import sys
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest

from ontarget import Episodes
from ontarget.errors import CensoredError, EpisodesError, EpisodesFileError, MissingExtraError
from ontarget.reading.observations import layout_in_file
from refusals import refuses
from tests.reading.minari_folders import BOX, GEAR, NESTED, write_as_arrow, write_dataset


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_dataset(tmp_path / "walk")
    return tmp_path / "walk"


def edit(folder: Path) -> h5py.File:
    return h5py.File(folder / "data" / "main_data.hdf5", "a")


def states_of(episodes: Episodes, i: int) -> np.ndarray:
    one = episodes.take([i])
    return np.stack([one.at(t).states[0] for t in range(int(one.lengths[0]))])


def test_a_dataset_reads_back_as_it_was_written(tmp_path: Path) -> None:
    held = write_dataset(tmp_path / "walk")
    episodes = Episodes.read(tmp_path / "walk")
    assert episodes.lengths.tolist() == [3, 5, 2]
    assert episodes.ids.tolist() == [0, 1, 2]
    assert episodes.schema.names == ("x0", "x1")
    for i, columns in enumerate(held):
        # The last observation follows the last action, so it is no state to act in.
        assert np.array_equal(states_of(episodes, i), columns["observations"][:-1])
        assert episodes.outcomes[i] == pytest.approx(columns["rewards"].sum())


def test_nested_observations_become_named_features(tmp_path: Path) -> None:
    held = write_dataset(tmp_path / "nested", NESTED)
    episodes = Episodes.read(tmp_path / "nested")
    assert episodes.schema.names == ("gear", "pair.x0_0", "pair.x0_1", "pair.x1")
    assert [feature.categorical for feature in episodes.schema.features] == [
        True,
        False,
        False,
        True,
    ]
    seen = held[1]["observations"]
    expected = np.column_stack([seen["gear"], seen["pair"]["_index_0"], seen["pair"]["_index_1"]])
    assert np.array_equal(states_of(episodes, 1), expected[:-1])


def test_a_discrete_observation_is_a_category(tmp_path: Path) -> None:
    write_dataset(tmp_path / "gears", GEAR)
    feature = Episodes.read(tmp_path / "gears").schema.features[0]
    assert (feature.name, feature.categorical) == ("x0", True)


def test_the_environments_time_limit_is_the_horizon(folder: Path) -> None:
    episodes = Episodes.read(folder)
    assert episodes.horizon == 5
    assert episodes.horizon_declared
    assert episodes.truncated.tolist() == [False, True, False]


def test_without_a_time_limit_the_longest_episode_is(tmp_path: Path) -> None:
    write_dataset(tmp_path / "walk", env_spec=None, lengths=(3, 4, 2))
    assert Episodes.read(tmp_path / "walk").horizon == 4
    assert not Episodes.read(tmp_path / "walk").horizon_declared


@pytest.mark.parametrize("end", ["truncations", ""])
def test_an_episode_cut_off_early_is_censored(tmp_path: Path, end: str) -> None:
    write_dataset(tmp_path / "walk", ends=("terminations", "truncations", end))
    with refuses(CensoredError, "censored", "1 of 3", "episode 2"):
        Episodes.read(tmp_path / "walk")
    assert len(Episodes.read(tmp_path / "walk", censored="drop")) == 2


def test_options_choose_features_behavior_and_horizon(folder: Path) -> None:
    episodes = Episodes.read(folder, features=["x1"], behavior="max", horizon=5)
    assert episodes.schema.names == ("x1",)
    assert episodes.behavior.spec == "max"
    with refuses(EpisodesError, None, "'x7'", "x0, x1"):
        Episodes.read(folder, features=["x7"])
    with refuses(EpisodesError, None, "'step'"):
        Episodes.read(folder, step="t")


def test_a_second_dataset_can_be_read_like_the_first(folder: Path, tmp_path: Path) -> None:
    first = Episodes.read(folder, features=["x1", "x0"], behavior="max")
    write_dataset(tmp_path / "more", lengths=(2, 2, 2), ends=("terminations",) * 3)
    more = Episodes.read(tmp_path / "more", like=first)
    assert more.schema == first.schema
    assert (more.behavior, more.horizon) == (first.behavior, first.horizon)
    with h5py.File(tmp_path / "more" / "data" / "main_data.hdf5") as file:
        seen = file["episode_0/observations"][:-1]
    assert np.array_equal(states_of(more, 0), seen[:, ::-1])


def test_the_data_folder_itself_will_do(folder: Path) -> None:
    assert len(Episodes.read(folder / "data")) == 3


def test_a_dataset_that_describes_nothing_is_read_by_its_looks(tmp_path: Path) -> None:
    write_dataset(tmp_path / "bare", NESTED)
    (tmp_path / "bare" / "data" / "metadata.json").unlink()
    episodes = Episodes.read(tmp_path / "bare")
    assert episodes.schema.names == ("gear", "pair.x0_0", "pair.x0_1", "pair.x1")


def test_the_metadata_start_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The written env_spec names os:abort as its entry point, and gymnasium may not be asked.
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.setitem(sys.modules, "minari", None)
    assert len(Episodes.read(folder)) == 3


def test_without_h5py_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with refuses(MissingExtraError, None, "ontarget[minari]"):
        Episodes.read(folder)


# ------------------------------------------------------------------------------------------------
# Damage, and files that want more than to be read


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.7, 0.95])
def test_a_file_cut_short_is_an_error_that_names_it(folder: Path, share: float) -> None:
    file = folder / "data" / "main_data.hdf5"
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    with refuses(EpisodesFileError, None, "walk"):
        Episodes.read(folder)


def test_scribbled_bytes_never_raise_anything_else(folder: Path) -> None:
    file = folder / "data" / "main_data.hdf5"
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    caught = 0
    for _ in range(150):
        damaged = bytearray(whole)
        for place in rng.integers(len(whole), size=8):
            damaged[place] = int(rng.integers(256))
        file.write_bytes(damaged)
        try:
            Episodes.read(folder)
        except EpisodesError:
            caught += 1
    assert caught > 10


def change_nothing(file: h5py.File) -> None:
    """The damage is in the metadata."""


def drop_rewards(file: h5py.File) -> None:
    del file["episode_1/rewards"]


def drop_an_episode(file: h5py.File) -> None:
    del file["episode_1"]


def drop_the_last_observation(file: h5py.File) -> None:
    file["episode_1/observations"].resize((5, 2))


def widen_observations(file: h5py.File) -> None:
    del file["episode_1/observations"]
    file["episode_1/observations"] = np.zeros((6, 3))


def write_text(file: h5py.File) -> None:
    del file["episode_1/observations"]
    file["episode_1/observations"] = ["a"] * 6


def end_in_the_middle(file: h5py.File) -> None:
    file["episode_1/terminations"][1] = True


def flag_by_seven(file: h5py.File) -> None:
    del file["episode_1/terminations"]
    file["episode_1/terminations"] = np.full(5, 7)


def link_elsewhere(file: h5py.File) -> None:
    del file["episode_1/rewards"]
    file["episode_1/rewards"] = h5py.ExternalLink("/etc/passwd", "/rewards")


def link_softly(file: h5py.File) -> None:
    del file["episode_1"]
    file["episode_1"] = h5py.SoftLink("/episode_0")


def store_elsewhere(file: h5py.File) -> None:
    del file["episode_1/rewards"]
    file["episode_1"].create_dataset(
        "rewards", (5,), "f8", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)]
    )


def claim_too_much(file: h5py.File) -> None:
    del file["episode_1/rewards"]
    file["episode_1"].create_dataset("rewards", (1 << 40,), "f8", chunks=(1 << 16,))


def no_group(file: h5py.File) -> None:
    del file["episode_1"]
    file["episode_1"] = np.zeros(3)


@pytest.mark.parametrize(
    ("damage", "refusal"),
    [
        (drop_rewards, ("episode_1", "'rewards'")),
        (drop_an_episode, ("metadata.json", "3 episodes")),
        (drop_the_last_observation, ("(6, 2)", "(5, 2)")),
        (widen_observations, ("(6, 2)", "(6, 3)")),
        (write_text, ("/episode_1/observations", "object")),
        (end_in_the_middle, ("episode_1", "step 1", 4)),
        (flag_by_seven, ("episode_1/terminations", "(5,)")),
        (link_elsewhere, ("episode_1/rewards", "link")),
        (link_softly, ("episode_1/episode_1", "link")),
        (store_elsewhere, ("/episode_1/rewards", "another file")),
        (claim_too_much, ("/episode_1/rewards", "8,796,093,022,208")),
        (no_group, ("episode_1", "single column")),
    ],
)
def test_damage_is_named(folder: Path, damage, refusal: tuple) -> None:
    with edit(folder) as file:
        damage(file)
    with refuses(EpisodesFileError, None, *refusal):
        Episodes.read(folder)


@pytest.mark.parametrize(
    ("space", "refusal"),
    [
        ({"type": "Text", "max_length": 5}, ("odd", "got Text")),
        ({"type": "Dict", "subspaces": {"note": {"type": "Graph"}}}, ("odd", "Graph", "'note'")),
        ({"type": "Box", "dtype": "float32"}, ("odd", "damaged")),
        ({"type": "Box", "dtype": "object", "shape": [2]}, ("odd", "object")),
        ({**BOX, "shape": [100_000, 100_000]}, ("odd", "10,000,000,000")),
        (["Box"], ("odd", "damaged")),
        (
            reduce(lambda part, _: {"type": "Tuple", "subspaces": [part]}, range(60), BOX),
            ("odd", "50 levels"),
        ),
        ({"type": "Dict", "subspaces": {"a": BOX, "a_0": BOX | {"shape": [1]}}}, ("odd", "'a_0'")),
    ],
)
def test_an_unknown_layout_is_a_clear_error(tmp_path: Path, space, refusal: tuple) -> None:
    write_dataset(tmp_path / "odd", observation_space=json.dumps(space))
    with refuses(EpisodesFileError, None, *refusal):
        Episodes.read(tmp_path / "odd")


def test_stored_observations_that_hold_themselves_are_an_error(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "loop.hdf5", "w") as file:
        seen = file.create_group("observations")
        seen["again"] = seen
        with refuses(EpisodesFileError, None, "50 levels"):
            layout_in_file(seen, h5py)


def test_damaged_metadata_are_an_error(folder: Path) -> None:
    (folder / "data" / "metadata.json").write_text("{")
    with refuses(EpisodesFileError, None, "walk: metadata.json"):
        Episodes.read(folder)


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with refuses(EpisodesFileError, None, "data/main_data.hdf5"):
        Episodes.read(tmp_path)
    write_dataset(tmp_path / "odd", data_format="zarr")
    (tmp_path / "odd" / "data" / "main_data.hdf5").unlink()
    with refuses(EpisodesFileError, None, "'zarr'"):
        Episodes.read(tmp_path / "odd")


@pytest.mark.parametrize("space", [BOX, NESTED], ids=["box", "nested"])
@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_arrow_files_hold_the_same_episodes(tmp_path: Path, ending: str, space: Any) -> None:
    held = write_dataset(tmp_path / "walk", space)
    expected = Episodes.read(tmp_path / "walk")
    write_as_arrow(tmp_path / "walk", held, ending)
    found = Episodes.read(tmp_path / "walk")
    assert found.to_frame().equals(expected.to_frame())
    assert (found.horizon, found.schema) == (expected.horizon, expected.schema)


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_damaged_arrow_files_are_an_error_that_names_the_dataset(
    tmp_path: Path, ending: str
) -> None:
    write_as_arrow(tmp_path / "walk", write_dataset(tmp_path / "walk"), ending)
    file = tmp_path / "walk" / "data" / "1" / f"part-0.{ending}"
    whole = file.read_bytes()
    for share in (0.0, 0.3, 0.9):
        file.write_bytes(whole[: int(share * len(whole))])
        with refuses(EpisodesFileError, None, "walk"):
            Episodes.read(tmp_path / "walk")
    file.unlink()
    with refuses(EpisodesFileError, None, "episode 1", f".{ending}"):
        Episodes.read(tmp_path / "walk")


def test_a_dataset_object_is_read_from_its_folder(folder: Path) -> None:
    dataset = SimpleNamespace(
        storage=SimpleNamespace(data_path=folder / "data"), episode_indices=np.array([2, 0])
    )
    assert Episodes.read(dataset).ids.tolist() == [2, 0]
    dataset.episode_indices = np.array([0, 7])
    with refuses(EpisodesFileError, None, "episode 7"):
        Episodes.read(dataset)
    with refuses(EpisodesError, "path", "dict"):
        Episodes.read({})


# ------------------------------------------------------------------------------------------------
# Against Minari itself, where it is installed


@pytest.mark.filterwarnings("ignore:.*env.* None:UserWarning")  # it misses an environment to build
@pytest.mark.parametrize("data_format", ["hdf5", "arrow", "parquet"])
def test_a_dataset_that_minari_wrote_holds_what_minari_reads(
    data_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minari = pytest.importorskip("minari", reason="minari is not installed")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    from gymnasium.spaces import Box, Dict, Discrete, Tuple
    from minari.data_collector import EpisodeBuffer

    space = Dict(
        arm=Box(-9.0, 9.0, (2, 2), np.float32), pair=Tuple((Discrete(3), Box(-9.0, 9.0, (1,))))
    )
    space.seed(0)
    rng = np.random.default_rng(0)
    buffers = []
    for number, steps in enumerate((4, 6, 3)):
        seen = [space.sample() for _ in range(steps + 1)]
        flags = [False] * (steps - 1)
        buffers.append(
            EpisodeBuffer(
                id=number,
                observations={
                    "arm": np.stack([one["arm"] for one in seen]),
                    "pair": tuple(np.stack([one["pair"][k] for one in seen]) for k in (0, 1)),
                },
                actions=rng.integers(2, size=steps),
                rewards=rng.normal(size=steps).tolist(),
                terminations=[*flags, steps != 6],
                truncations=[*flags, steps == 6],
            )
        )
    theirs = minari.create_dataset_from_buffers(
        "walk/random-v0",
        buffer=buffers,
        observation_space=space,
        action_space=Discrete(2),
        algorithm_name="random",
        author="nobody",
        author_email="nobody@example.org",
        code_permalink="https://example.org",
        description="random walks",
        data_format=data_format,
    )
    ours = Episodes.read(tmp_path / "walk" / "random-v0")
    names = [f"arm_{i}_{j}" for i in (0, 1) for j in (0, 1)]
    assert ours.schema.names == (*names, "pair.x0", "pair.x1")
    assert ours.schema.categorical == (4,)
    assert ours.lengths.tolist() == [4, 6, 3]
    for i, episode in enumerate(theirs.iterate_episodes()):
        seen = episode.observations
        flat = [seen["arm"].reshape(-1, 4), seen["pair"][0], seen["pair"][1]]
        assert np.array_equal(states_of(ours, i), np.column_stack(flat)[:-1])
        assert ours.outcomes[i] == pytest.approx(episode.rewards.sum(), abs=1e-6)  # on a grid
        assert bool(ours.truncated[i]) == bool(episode.truncations[-1])
    assert Episodes.read(theirs).to_frame().equals(ours.to_frame())
    some = theirs.filter_episodes(lambda episode: len(episode) > 3)
    assert Episodes.read(some).ids.tolist() == [0, 1]
