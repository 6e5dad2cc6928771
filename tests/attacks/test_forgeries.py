"""Forgeries that once crashed, hung or misled: each is refused before a kernel sees it."""

from __future__ import annotations

import copy
import mmap
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ontarget import Target
from ontarget.episodes import Feature, Schema
from ontarget.errors import ModelFileError
from ontarget.fitted.joint.asked import Asked
from ontarget.fitted.joint.joint import Joint
from ontarget.live import Below
from ontarget.live.contract import Contract
from ontarget.modelfile.container import container_bytes
from ontarget.modelfile.file import fitted_bytes, inspect_file
from ontarget.monitor.monitor import GoalMonitor
from refusals import refuses
from tests.attacks.monitors import Contents, contents_of, monitor_of

TARGET = Target(-2.0, 1.0)
FIRST, LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
# Each rises by its wrapped differences, and leads far out of bounds.
WRAPPING = [LAST, FIRST + 1]

Forge = Callable[[dict[str, Any], dict[str, dict[str, np.ndarray]]], None]


@cache
def whole_bytes(kind: str) -> bytes:
    return fitted_bytes(monitor_of(kind).fitted)


def contents(kind: str, folder: Path) -> Contents:
    path = folder / "whole.ontarget"
    path.write_bytes(whole_bytes(kind))
    return copy.deepcopy(contents_of(path))


def asked(path: Path, **options: Any) -> None:
    """Whatever reaches a kernel: the batch, and a live run."""
    monitor = GoalMonitor.load(path, **options)
    states = np.zeros((3, len(monitor.schema)))
    group = None if monitor.groups is None else monitor.groups[0]
    monitor.outlook(0, states, 0.0, TARGET, groups=group)
    monitor.watch(TARGET, alarm_below=0.5, group=group).step(states[0])


def refuse(kind: str, forge: Forge, folder: Path, match: str) -> None:
    header, sections = contents(kind, folder)
    forge(header, sections)
    path = folder / "forged.ontarget"
    path.write_bytes(container_bytes(header, sections))
    with pytest.raises(ModelFileError, match=match):
        asked(path)


def set_width(header: dict[str, Any], sections: Any, width: int) -> None:
    """Another number of features wherever the file says it, but not in the models."""
    header["features"] = [{"name": f"x{j}", "dtype": "float64"} for j in range(width)]
    header["may_miss"] = [False] * width
    rows = sections["assure"]["before"].size
    sections["assure"]["states"] = np.zeros((width, rows))


@pytest.mark.parametrize("kind", ["forest", "stacked", "marginal"])
@pytest.mark.parametrize("width", [0, 1, 3, 40])
def test_a_schema_of_another_width_than_the_models(kind: str, width: int, tmp_path: Path) -> None:
    refuse(kind, lambda h, s: set_width(h, s, width), tmp_path, "numbers per row")


def test_a_contract_refuses_models_of_another_width() -> None:
    fitted = monitor_of("forest").fitted
    wider = Schema((*fitted.schema.features, Feature("more")))
    none = {"assure": None, "excess": np.empty(0)}
    forged = replace(fitted, schema=wider, may_miss=np.zeros(3, dtype=np.bool_), **none)
    with refuses(ModelFileError, None, "QuantileForest", 3, 4):
        Contract(Asked(Joint.of(forged), TARGET), Below(0.5), [Below(0.5).trigger(None)])


@pytest.mark.parametrize("kind", ["forest-by-step", "discounted"])
def test_blocks_that_change_whether_models_read_the_step(kind: str, tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        pooled = kind != "forest-by-step"
        header["blocks"] = [[a, b, a, a + 1 if pooled else b + 1] for a, b, *_ in header["blocks"]]
        header["blocks"][-1][3] = header["horizon"]

    refuse(kind, forge, tmp_path, "numbers per row")


@pytest.mark.parametrize(
    ("kind", "behavior"), [("forest", "last"), ("stacked", "mean"), ("forest-mean", "sum")]
)
def test_a_behavior_that_changes_what_models_read(kind: str, behavior: str, tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        header["behavior"] = behavior
        for name in ("assure", "learn", "rehearsal"):
            sections[name]["before"][:] = 0.0  # a mean has none before its first step

    refuse(kind, forge, tmp_path, "numbers per row")


def test_a_rehearsal_that_sets_alarms_and_lacks_a_step(tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        arrays = sections["rehearsal"]
        last = np.count_nonzero(arrays["lengths"] == arrays["steps"].size)
        for name in ("steps", "ladder"):
            arrays[name] = arrays[name][:-1]
        rows = len(arrays["before"]) - last
        for name in ("before", "ranks", "left", "right"):
            arrays[name] = arrays[name][:rows]

    refuse("rehearsed", forge, tmp_path, "rehearsal array 'steps' needs every step")


@pytest.mark.parametrize("section", ["assure", "rehearsal"])
@pytest.mark.parametrize(
    ("kind", "value"), [("forest", np.nan), ("forest", np.inf), ("forest-mean", -np.inf)]
)
def test_a_behavior_so_far_that_no_run_has(
    kind: str, value: float, section: str, tmp_path: Path
) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        whole = sections[section]["before"].astype(np.float64)  # few bytes could not hold it
        whole[3] = value
        sections[section]["before"] = whole

    refuse(kind, forge, tmp_path, "'before' needs finite numbers")


@pytest.mark.parametrize(
    ("kind", "section", "name", "value"),
    [
        ("forest-mean", "assure", "outcomes", 1.7e308),
        ("recalling", "assure", "outcomes", 1.7e308),
        ("stacked", "assure", "outcomes", 1.7e308),
        ("paper", "assure", "outcomes", 1.7e308),
        ("paper", "assure", "outcomes", np.nan),
        ("forest-mean", "assure", "before", 1.7e308),
        ("forest-max", "assure", "ahead", -1.7e308),
        ("forest-max", "assure", "ahead", np.nan),
        ("rehearsed", "rehearsal", "outcomes", -1.7e308),
        ("rehearsed", "rehearsal", "before", 1.7e308),
        ("stacked", "learn", "outcomes", 1.7e308),
        ("forest-mean", "learn", "before", -1.7e308),
    ],
)
def test_values_whose_distance_is_no_number(
    kind: str, section: str, name: str, value: float, tmp_path: Path
) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        whole = sections[section][name].astype(np.float64)  # few bytes could not hold it
        whole[-1] = value
        sections[section][name] = whole

    refuse(kind, forge, tmp_path, f"need.*{name}|{name}.* 1e300")


def test_a_run_that_lies_far_outside_of_all_recorded_paths(tmp_path: Path) -> None:
    """Its distance is a number, but not in units of a grid of 1e-9."""
    header, sections = contents("forest-mean", tmp_path)
    sections["assure"]["outcomes"][0] = 1e300
    sections["assure"]["before"][-1] = -1e300
    for name in ("outcomes", "before"):  # so the law of paths is as narrow as can be
        sections["learn"][name][:] = 0.0
    path = tmp_path / "forged.ontarget"
    path.write_bytes(container_bytes(header, sections))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monitor = GoalMonitor.load(path)
        for t in (0, monitor.horizon - 1):
            band = monitor.path_band(t, [[0.0, 0.0]], 0.0, 0.8)
            assert (band.lower <= band.upper).all()


@pytest.mark.parametrize("kind", ["network", "forest", "paper"])
def test_assure_episodes_that_were_all_cut_off(kind: str, tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        sections["assure"]["excess"][:] = np.inf

    refuse(kind, forge, tmp_path, "at least one finite number: an episode not cut off")


@pytest.mark.parametrize(
    ("kind", "section", "name", "place"),
    [
        ("stacked", "block-00000", "guide_terms", 2),
        ("stacked", "block-00000", "guide_terms", -1),
        ("guided", "law", "guide_values", 0),
    ],
)
def test_a_guide_that_overflows(
    kind: str, section: str, name: str, place: int, tmp_path: Path
) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        sections[section][name][place] = 1.7e308

    refuse(kind, forge, tmp_path, r"up to 1e\+100")


@pytest.mark.parametrize(
    ("kind", "section", "name"),
    [
        ("forest", "block-00000", "roots"),
        ("forest", "block-00000", "edge_start"),
        ("stacked", "block-00000", "small_edge_start"),
        ("stacked", "block-00000", "guide_category_start"),
        ("guided", "law", "guide_edge_start"),
    ],
)
def test_places_whose_differences_wrap_around(
    kind: str, section: str, name: str, tmp_path: Path
) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        arrays = sections[section]
        kept = arrays[name]
        arrays[name] = np.array([0, *WRAPPING, *kept[3:]], dtype=np.int64)
        arrays[name][-1] = kept[-1]

    refuse(kind, forge, tmp_path, "need")


@pytest.mark.parametrize("n_rows", [2**32 - 1, 70_000])
def test_a_forest_of_more_rows_than_it_has_origins(n_rows: int, tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        arrays = sections["block-00000"]
        arrays["row_start"][-1] = n_rows
        arrays["entries"] = arrays["entries"].astype(np.uint32)
        arrays["entries"][-1] = n_rows - 1

    refuse("forest", forge, tmp_path, "row_episode needs one number per training row")


@pytest.mark.parametrize("name", ["row_start", "row_episode"])
def test_rows_that_wrap_around(name: str, tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        wide = sections["block-00000"][name].astype(np.uint32)
        wide[1:3] = [2**32 - 1, 2**31]
        sections["block-00000"][name] = wide

    refuse("stacked", forge, tmp_path, f"{name}`? needs")


@pytest.mark.parametrize(("name", "beyond"), [("row_episode", 80), ("row_step", 5)])
def test_rows_of_episodes_that_are_not_there(name: str, beyond: int, tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        sections["block-00000"][name][0] = beyond

    refuse("stacked", forge, tmp_path, f"`{name}` needs numbers below {beyond}")


LEARNED = {
    "id": lambda a: a.update(ids=a["ids"][1:]),
    "outcomes": lambda a: a["outcomes"].__setitem__(0, np.nan),
    "1 to 5 steps": lambda a: a["lengths"].__setitem__(0, 2**62),
    "lengths": lambda a: a.update(lengths=a["lengths"][1:]),
    "a behavior before each step": lambda a: a.update(before=a["before"][1:]),
    "finite numbers up to 1e300 for 'before'": lambda a: a["before"].__setitem__(0, np.inf),
    "an id for each": lambda a: a.update(
        ids=None, id_text=np.zeros(9, np.uint8), id_ends=np.array([9, *[0] * 79])
    ),
}


@pytest.mark.parametrize("what", LEARNED)
def test_learned_runs_that_do_not_fit_together(what: str, tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        LEARNED[what](sections["learn"])
        if sections["learn"]["ids"] is None:
            del sections["learn"]["ids"]

    refuse("forest", forge, tmp_path, f"learning episodes need .*{what}")


@pytest.mark.parametrize("section", ["law", "ranks"])
def test_ends_and_starts_that_wrap_around(section: str, tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        sections[section]["starts" if section == "law" else "ends"][1:3] = WRAPPING

    refuse("forest", forge, tmp_path, "need")


def test_a_forest_without_features(tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        set_width(header, sections, 0)
        leaf = np.array([FIRST | (1 << 32)], dtype=np.int64)
        for name in [name for name in sections if name.startswith("block")]:
            sections[name] |= {
                "nodes": leaf,
                "roots": np.zeros(1, dtype=np.int64),
                "entries": np.zeros(1, dtype=np.uint16),
                "categorical": np.zeros(0, dtype=np.bool_),
                "edges": np.zeros(0),
                "edge_start": np.zeros(1, dtype=np.int64),
                "category_order": np.zeros(0, dtype=np.uint16),
            }

    refuse("forest-by-step", forge, tmp_path, "1 to .* features, got 0")


CODES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], str]] = {
    "one too few": (lambda a: a[1:], "one code per tree and category"),
    "one too many": (lambda a: np.append(a, a[:1]), "one code per tree and category"),
    "none": (lambda a: a[:0], "one code per tree and category"),
    "a table": (lambda a: a[None], "flat array of uint16"),
    "missing": (lambda a: np.append(a[1:], a.dtype.type(65_535)), "codes that are bins"),
    "negative": (lambda a: -a.astype(np.int16), "flat array of uint16"),
    "wider": (lambda a: a.astype(np.int64) + 2**40, "flat array of uint16"),
    "not numbers": (lambda a: np.full(a.size, np.nan), "flat array of uint16"),
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("forest-by-step", "tree_codes"),
        ("stacked", "small_tree_codes"),
    ],
)
@pytest.mark.parametrize("what", CODES)
def test_codes_that_no_tree_gives_to_categories(
    kind: str, name: str, what: str, tmp_path: Path
) -> None:
    change, match = CODES[what]

    def forge(header: dict[str, Any], sections: Any) -> None:
        arrays = sections["block-00000"]
        arrays[name] = change(arrays[name])

    refuse(kind, forge, tmp_path, match)


@pytest.mark.parametrize("name", ["category_order", "categorical", "edge_start"])
def test_categories_that_do_not_fit_the_codes_of_trees(name: str, tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        arrays = sections["block-00000"]
        arrays[name] = arrays[name][::-1].copy()

    refuse("forest-by-step", forge, tmp_path, "the model's arrays are damaged")


@pytest.mark.parametrize("width", [0, -1, 2**40])
def test_a_model_of_no_or_endless_features(width: int, tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        sections["block-00000"]["n_features"] = np.array([width], dtype=np.int64)

    refuse("marginal", forge, tmp_path, "n_features|numbers per row")


def test_a_horizon_without_laws(tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        header["horizon"] = 2**31 - 1

    refuse("marginal", forge, tmp_path, "one entry per step of the horizon")


def test_lengths_that_ask_for_more_rows_than_there_are(tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        sections["assure"]["lengths"] = np.full(2_000, header["horizon"])

    refuse("marginal", forge, tmp_path, "assure")


@pytest.mark.parametrize(("place", "wrong"), [(0, 1), (3, 65_535), (-2, 0), (-1, 65_534)])
def test_maps_of_paths_that_are_none(place: int, wrong: int, tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        ranks = sections["paths"]["ranks"].copy()
        ranks[0, 0, place] = wrong
        sections["paths"]["ranks"] = ranks

    refuse("groups", forge, tmp_path, "path maps")


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.uint16, np.bool_])
def test_recorded_numbers_of_a_type_that_none_are_written_in(dtype: Any, tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        sections["assure"]["states"] = sections["assure"]["states"].astype(dtype)

    refuse("forest", forge, tmp_path, "'states' needs 64-bit floats")


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_maps_of_paths_of_another_type(dtype: Any, tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        sections["paths"]["ranks"] = sections["paths"]["ranks"].astype(dtype)

    refuse("groups", forge, tmp_path, "path maps")


@pytest.mark.parametrize("lengths", [[LAST, 1], [FIRST, 1], [0, 5], []])
def test_lengths_that_are_none(lengths: list[int], tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        sections["assure"]["lengths"] = np.array(lengths, dtype=np.int64)

    refuse("marginal", forge, tmp_path, "steps")


@pytest.mark.parametrize(
    "change",
    [
        {"excess": np.zeros(3)},
        {"excess": np.zeros((20, 1))},
        {"groups": np.full(20, 7)},
        {"groups": np.full(20, -1)},
        {"outcomes": np.full(20, np.nan)},
        {"before": np.zeros(0)},
        {"states": np.zeros((2, 3))},
    ],
)
def test_assure_arrays_of_another_shape(change: dict[str, Any], tmp_path: Path) -> None:
    refuse("groups", lambda h, s: s["assure"].update(change), tmp_path, "assure|excess|groups")


@pytest.mark.parametrize(
    "change",
    [
        {"may_miss": [False]},
        {"may_miss": [0, 1]},
        {"groups": ["0"]},
        {"groups": ["0", "0"]},
        {"groups": ["0", 1]},
        {"groups": []},
        {"groups": [["0"], ["1"]]},
        {"grid": 0},
        {"grid": -1.0},
        {"grid": "1e-9"},
        {"min_calibration": 0},
        {"reward_bounds": [1.0, -1.0]},
        {"reward_bounds": [None]},
        {"blocks": [[0, 1, 0, 2**31]]},
        {"kinds": [None]},
        {"kinds": ["pickle", "pickle", "pickle"]},
        {"sizes": {"train": 1}},
        {"columns": {"episode": 3}},
        {"columns": {"os": "system"}},
        {"parameters": {}},
        {"parameters": {"policy": "", "model": None, "reward_bounds": None, "no": 1}},
        {"seed": 0.5},
        {"features": [{"name": "x", "dtype": "float64"}] * 2},
        {"behavior": "discounted:7"},
        {"behavior": ["sum"]},
    ],
    ids=repr,
)
def test_a_header_that_describes_no_monitor(change: dict[str, Any], tmp_path: Path) -> None:
    refuse("groups", lambda header, sections: header.update(change), tmp_path, "forged.ontarget")


@pytest.mark.parametrize("field", ["horizon", "features", "parameters", "sizes", "groups"])
def test_inspecting_a_header_without_a_field(field: str, tmp_path: Path) -> None:
    header, sections = contents("marginal", tmp_path)
    del header[field]
    path = tmp_path / "forged.ontarget"
    path.write_bytes(container_bytes(header, sections))
    with refuses(ModelFileError, None, path.name, field):
        inspect_file(path)


@pytest.mark.slow
def test_a_file_copied_over_a_running_watch_does_not_reach_it(tmp_path: Path) -> None:
    path = tmp_path / "a.ontarget"
    path.write_bytes(whole_bytes("forest"))
    monitor = GoalMonitor.load(path)
    watch = monitor.watch(TARGET, alarm_below=0.1)
    before = watch.step([0.5, 0.5]).p
    path.write_bytes(b"")  # as `cp` does first; a mapped file would end the process
    watch.reset()
    assert watch.step([0.5, 0.5]).p == before
    assert monitor.outlook(0, [[0.5, 0.5]], 0.0, TARGET, calibration="target").p[0] == before


@pytest.mark.parametrize(("copy", "mapped"), [(None, False), (True, False), (False, True)])
def test_a_file_is_copied_or_mapped_as_told(
    copy: bool | None, mapped: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a.ontarget"
    path.write_bytes(whole_bytes("marginal"))
    models: Any = GoalMonitor.load(path, copy=copy).fitted.models
    assert isinstance(models._container._buffer, mmap.mmap) == mapped
