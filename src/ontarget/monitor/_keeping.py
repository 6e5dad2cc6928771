"""Converts a monitor's settings to plain values for a model file, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ontarget.errors import InputError, ModelFileError
from ontarget.models.registry import unfitted_model


class LostModel:
    """Stands for a loaded monitor's unfitted model, if the model file could not store it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def fit(self, *args: Any, **kwargs: Any) -> Any:
        """Raise an `InputError`, because the model to fit is not known."""
        raise InputError(
            f"the model file does not contain the parameters of {self.name}, so this monitor "
            f"cannot be fitted again; pass the model: GoalMonitor(model=…)"
        )

    cdf_limits = quantile = fit


def kept_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the monitor's constructor as plain values for JSON.

    The model is given by its kind and its own parameters.
    """
    kept = {name: value for name, value in parameters.items() if name != "model"}
    model = parameters["model"]
    if kept["reward_bounds"] is not None:
        kept["reward_bounds"] = list(kept["reward_bounds"])
    kept["model"] = model if isinstance(model, str) else None
    if not (model is None or isinstance(model, str)):
        own = model.get_params(deep=False) if hasattr(model, "get_params") else None
        kept["model"] = {
            "name": type(model).__name__,
            "kind": getattr(model, "kind", None),
            "parameters": own if _is_plain(own) else None,
        }
    return kept


def restored_parameters(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the monitor's constructor, from what `kept_parameters` returned."""
    found = dict(kept)
    if found["reward_bounds"] is not None:
        found["reward_bounds"] = tuple(found["reward_bounds"])
    model = found["model"]
    if not (model is None or isinstance(model, str)):
        if model["kind"] is None or model["parameters"] is None:
            found["model"] = LostModel(str(model["name"]))
            return found
        try:
            found["model"] = unfitted_model(model["kind"], model["parameters"])
        except TypeError as error:
            raise ModelFileError(
                f"the model does not accept its stored parameters: {error}"
            ) from error
    return found


def _is_plain(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) is not None)
    except (TypeError, ValueError):
        return False
