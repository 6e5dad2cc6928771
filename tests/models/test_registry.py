"""The open list of models: ours, those of a user, and those of other packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.outside import nearest_outcomes
from tests.outside.nearest_outcomes import NearestOutcomes

from ontarget.errors import InputError, ModelFileError
from ontarget.models import Marginal, QuantileForest, register, registry
from ontarget.models.registry import kind_of, kinds, model_of_kind, unfitted_model
from refusals import refuses


@pytest.fixture(autouse=True)
def _leave_the_registry_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


def test_a_model_from_outside_the_package_comes_back_from_its_arrays() -> None:
    X, y = np.arange(20.0)[:, None], np.arange(20.0) % 7
    model = NearestOutcomes(k=4)
    model.fit(X, y)
    again = model_of_kind(kind_of(model)).from_arrays(model.to_arrays())
    assert np.array_equal(again.cdf_limits(X, 3.0), model.cdf_limits(X, 3.0))


def test_an_unknown_kind_is_refused_with_what_is_known_and_what_to_do() -> None:
    with refuses(ModelFileError, None, "'oracle'") as caught:
        model_of_kind("oracle")
    message = str(caught.value)
    assert all(kind in message for kind in ("stacked_forest", "marginal", "nearest_outcomes"))
    assert "ontarget.models.register('oracle', …)" in message
    assert "entry point of the group 'ontarget.models'" in message


def test_a_kind_belongs_to_one_class() -> None:
    register("nearest_outcomes", NearestOutcomes)
    register("marginal", Marginal)

    class Other(NearestOutcomes):
        pass

    class Rival(Marginal):
        pass

    with refuses(InputError, None, "'nearest_outcomes'", "tests.outside.nearest_outcomes:Nearest"):
        register("nearest_outcomes", Other)
    with refuses(InputError, None, "'marginal'", "ontarget.models.marginal:Marginal"):
        register("marginal", Rival)
    assert model_of_kind("nearest_outcomes") is NearestOutcomes
    assert model_of_kind("marginal") is Marginal


def test_a_class_that_is_defined_anew_takes_its_own_place() -> None:
    def cell() -> type:
        @register("from_a_notebook")
        class Mine(NearestOutcomes):
            kind = "from_a_notebook"

        return Mine

    first, second = cell(), cell()
    assert first is not second
    assert model_of_kind("from_a_notebook") is second


@pytest.mark.parametrize(
    ("kind", "model_class", "argument", "shown"),
    [
        ("two words", NearestOutcomes, "kind", "'two words'"),
        ("mine", NearestOutcomes(), "model_class", "object at"),
        ("mine", NearestOutcomes, None, "NearestOutcomes.kind"),
        ("mine", type("Half", (), {"fit": print}), "model_class", "cdf_limits, quantile"),
    ],
)
def test_what_a_file_could_not_hold_is_not_registered(
    kind: str, model_class: object, argument: str | None, shown: str
) -> None:
    with refuses(InputError, argument, shown):
        register(kind, model_class)  # type: ignore[call-overload]


def test_a_model_that_a_file_would_bring_back_as_another_has_no_kind() -> None:
    class Changed(QuantileForest):
        pass

    with refuses(ModelFileError, None, "'quantile_forest'"):
        kind_of(Changed())
    with refuses(ModelFileError, None, "kind", None):
        kind_of(object())
    assert kind_of(QuantileForest()) == "quantile_forest"


def install(folder: Path, name: str, entry: str) -> None:
    """A package as pip leaves it: its description, and what it offers."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[ontarget.models]\n{entry}\n")


@pytest.mark.slow
def test_an_installed_package_offers_its_models_and_is_imported_only_when_asked(
    tmp_path: Path,
) -> None:
    source = Path(nearest_outcomes.__file__).read_text()
    registered = '@register("nearest_outcomes")\n'
    assert registered in source  # an entry point needs no call
    (tmp_path / "offered.py").write_text(source.replace(registered, ""))
    install(tmp_path, "offered", "nearest_outcomes = offered:NearestOutcomes")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from ontarget.models.registry import kinds, model_of_kind\n"
        "assert 'nearest_outcomes' in kinds() and 'offered' not in sys.modules\n"
        "model_of_kind('marginal'); assert 'offered' not in sys.modules\n"
        "print(model_of_kind('nearest_outcomes').__module__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "offered"


def test_a_package_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "broken", "broken_model = nowhere_to_be_found:Model")
    assert "broken_model" in kinds()
    with refuses(
        ModelFileError, None, "'broken_model'", "nowhere_to_be_found:Model", "ModuleNotFound"
    ):
        model_of_kind("broken_model")
    install(tmp_path, "misnamed", f"misnamed_model = {nearest_outcomes.__name__}:NearestOutcomes")
    with refuses(ModelFileError, None, "'misnamed_model'", "NearestOutcomes.kind"):
        model_of_kind("misnamed_model")
    install(tmp_path, "rival", "broken_model = elsewhere:Model")
    with refuses(ModelFileError, None, "'broken_model'", "elsewhere:Model"):
        model_of_kind("broken_model")


@pytest.mark.parametrize(
    ("gone", "name"),
    [
        ("boosted_quantiles", "BoostedQuantiles"),
        ("guided_forest", "GuidedForest"),
        ("linear", "LinearQuantiles"),
    ],
)
def test_a_kind_of_an_earlier_version_is_refused_by_name(gone: str, name: str) -> None:
    with refuses(ModelFileError, None, repr(gone), name):
        model_of_kind(gone)
    assert gone not in kinds()

    class Mine(NearestOutcomes):
        kind = gone

    with refuses(InputError, None, repr(gone)):
        register(gone, Mine)


def test_parameters_of_an_earlier_version_are_left_out_unless_they_asked_for_something() -> None:
    found = unfitted_model("quantile_forest", {"n_trees": 7, "successors": False})
    assert found.get_params() == QuantileForest(7).get_params()
    with refuses(ModelFileError, None, "successors=True"):
        unfitted_model("quantile_forest", {"successors": True})
