"""What a fit chose by its learning episodes alone, and why: kept to be told (M16)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from ontarget.errors import ModelFileError

__all__ = ["Choices", "ModelTrial", "Trial"]

_MOST = 64  # entries that a file may hold


class Trial(NamedTuple):
    """Blocks of steps centred so far apart, tried on learning episodes that they have not seen.

    ``gain`` is how much lower their CRPS is than that of the trial before, in units of the
    outcomes' own spread, and ``error`` its standard error; NaN for the first.
    """

    spacing: int
    gain: float = math.nan
    error: float = math.nan


class ModelTrial(NamedTuple):
    """A model tried on learning episodes that it has not seen.

    ``crps`` is in units of the outcomes' own spread, and ``error`` the standard error of its
    distance from the best model's.
    """

    name: str
    crps: float
    error: float


@dataclass(frozen=True)
class Choices:
    """What a fit chose: the spacing of blocks, the model, and how much each expert counts.

    Without trials the spacing was given, or too few episodes could tell. ``experts`` are means over
    the blocks, by name; a model of one kind has none. ``models`` were tried where the fit chose
    one, the best first.
    """

    spacing: int | None = None
    trials: tuple[Trial, ...] = ()
    experts: Mapping[str, float] = field(default_factory=dict)
    models: tuple[ModelTrial, ...] = ()

    @classmethod
    def of(
        cls,
        spacing: int | None,
        trials: Iterable[Trial],
        models: Iterable[Any],
        tried: Iterable[ModelTrial] = (),
    ) -> Self:
        """The choices of a fit with these fitted models."""
        weights = [model.weights_ for model in models if hasattr(model, "weights_")]
        names = weights[0] if weights else ()
        means = {name: sum(one[name] for one in weights) / len(weights) for name in names}
        return cls(spacing, tuple(trials), means, tuple(tried))

    @property
    def blocks_in_words(self) -> str:
        """How far apart blocks are centred, and what decided it."""
        if self.spacing is None:
            return "as given"
        said = f"centred up to {self.spacing} steps apart"
        tried = [trial for trial in self.trials if not math.isnan(trial.gain)]
        if not self.trials:
            return said
        if not tried:
            return f"{said}, the least"
        last = tried[-1]
        told = f"{100 * last.gain:+.2f} ± {100 * last.error:.2f} % of the spread"
        if last.spacing == self.spacing:
            return f"{said}: shorter ones told held-out outcomes better (CRPS {told})"
        return f"{said}: {last.spacing} would not surely tell held-out outcomes better ({told})"

    @property
    def models_in_words(self) -> str:
        """The model that was chosen, and how much worse each of the others was."""
        if not self.models:
            return ""
        best, *others = self.models
        worse = [
            f"{one.name} {100 * (one.crps - best.crps):+.2f} ± {100 * one.error:.2f}"
            for one in others
        ]
        compared = f"; in % of the spread, others: {', '.join(worse)}" if worse else ""
        return f"{best.name} told held-out outcomes best (CRPS {best.crps:.4f}){compared}"

    @property
    def experts_in_words(self) -> str:
        """How much each expert counts on average over the blocks."""
        shares = [
            f"{name.replace('_', ' ')} {100 * share:.0f} %" for name, share in self.experts.items()
        ]
        return ", ".join(shares)

    def to_json(self) -> dict[str, Any]:
        """The choices as plain values, for a file's header."""
        trials = [[t.spacing, *(None if math.isnan(x) else x for x in t[1:])] for t in self.trials]
        found = {"spacing": self.spacing, "trials": trials, "experts": dict(self.experts)}
        return {**found, "models": [list(one) for one in self.models]}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """The choices that `to_json` wrote; a `ModelFileError` if they are damaged."""
        try:
            spacing, trials, experts = found["spacing"], found["trials"], found["experts"]
            right = max(len(trials), len(experts), len(found["models"])) <= _MOST
            right = right and (spacing is None or _is_step(spacing))
            tried = tuple(
                Trial(t, *(math.nan if x is None else float(x) for x in (gain, error)))
                for t, gain, error in trials
            )
            right = right and all(_is_step(trial.spacing) for trial in tried)
            shares = {str(name)[:_MOST]: float(share) for name, share in experts.items()}
            right = right and all(0.0 <= share <= 1.0 for share in shares.values())
            models = tuple(
                ModelTrial(str(name)[:_MOST], float(crps), float(error))
                for name, crps, error in found["models"]
            )
            right = right and all(0.0 <= x < math.inf for one in models for x in one[1:])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"chosen in the header is damaged: {error!r:.80}") from error
        if not right:
            raise ModelFileError("chosen in the header needs steps, gains and shares from 0 to 1")
        return cls(spacing, tried, shares, models)


def _is_step(value: Any) -> bool:
    return type(value) is int and 1 <= value < 2**31
