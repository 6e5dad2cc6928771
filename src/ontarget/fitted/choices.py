"""A record of what a fit chose by trials on learning episodes; `ontarget inspect` shows it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self, TypeAlias, get_args

from ontarget.errors import ModelFileError

Extra: TypeAlias = Literal["history", "guide"]
EXTRAS: tuple[Extra, ...] = get_args(Extra)

_MOST = 64  # entries that a file may hold
_SURELY = 2.0  # standard errors; a smaller gain may be chance
# In standard errors. The history of an event log rarely harms. Small forests gain from a guide by
# chance too: it must do better.
_CLEARLY: Mapping[Extra, float] = {"history": 1.0, "guide": 4.0}
_IN_WORDS: Mapping[Extra, str] = {"history": "the run so far", "guide": "one model of whole runs"}
_USUAL = 0.2  # of the episodes are held out


class Trial(NamedTuple):
    """One trial of how far apart blocks (ranges of steps that share a model) are centred.

    It was made on learning episodes that the tried models had not seen. ``gain`` is how much lower
    (better) the CRPS, a score of predicted distributions, is than in the trial before. ``error`` is
    the standard error of the gain. ``gain`` and ``error`` are in units of the spread of all
    outcomes, and are NaN for the first trial.
    """

    spacing: int
    gain: float = math.nan
    error: float = math.nan

    @property
    def sure(self) -> bool:
        """Whether the predictions became better than in the trial before by more than chance."""
        # The improvement must be more than two standard errors.
        return self.gain > _SURELY * self.error

    @property
    def in_words(self) -> str:
        """How much better predictions became than in the trial before, with the standard error."""
        gain, error = 100 * self.gain, 100 * self.error
        return f"CRPS lower by {gain:.2f} ± {error:.2f} % of the outcomes' spread"


class HeldOut(NamedTuple):
    """Which share of the episodes a fit held out for promises, and what it was chosen by (M34).

    Of ``seen`` episodes that were to be learned from in any case, ``met`` met the target that was
    named at the fit. ``enough`` says whether 5 % false alarms can probably be promised.
    """

    share: float
    met: int
    seen: int
    enough: bool

    @property
    def in_words(self) -> str:
        """What was chosen, and why, as text."""
        usual = ", the usual share" * (self.share == _USUAL)
        share = f"{100 * self.share:.0f} %{usual}" if self.share else "nothing"
        said = f"{share}: {self.met:,} of {self.seen:,} learn episodes met the target, so"
        if self.enough:
            return f"{said} this is enough for a promise of 5 % false alarms (9 times in 10)"
        return (
            f"{said} even half of all episodes would hardly be enough to promise 5 % false alarms"
        )


@dataclass(frozen=True)
class Choices:
    """What a fit chose: the spacing of blocks, and how much each expert counts.

    ``spacing`` is the largest distance between the centres of two blocks, in steps; None if blocks
    were given as ``steps_per_model``. ``trials`` are the spacings that were tried; it is empty if
    the spacing was given or there were too few episodes to choose it. ``opening`` is how much the
    first step's own model counts in the prediction at that step, from 0 to 1. ``experts`` has the
    mean weight of each expert over all blocks, by name; it is empty for a model without experts.
    ``extras`` has the trial of each extra that models may read, if it was tried: a ``"history"`` is
    about the run so far, a ``"guide"`` predicts the mean. ``held_out`` is the share of episodes
    that was held out, if the fit chose it.
    """

    spacing: int | None = None
    trials: tuple[Trial, ...] = ()
    opening: float = 0.0
    experts: Mapping[str, float] = field(default_factory=dict)
    extras: Mapping[Extra, Trial] = field(default_factory=dict)
    held_out: HeldOut | None = None

    def takes(self, extra: Extra) -> bool:
        """Whether the models read this extra: its trial was a clear gain."""
        trial = self.extras.get(extra)
        return trial is not None and trial.gain > _CLEARLY[extra] * trial.error

    def with_experts(self, models: Iterable[Any]) -> Self:
        """The same choices, with the mean weight of each expert taken from these fitted models."""
        weights = [model.weights_ for model in models if hasattr(model, "weights_")]
        names = weights[0] if weights else ()
        means = {name: sum(one[name] for one in weights) / len(weights) for name in names}
        return replace(self, experts=means)

    @property
    def blocks_in_words(self) -> str:
        """How far apart the blocks (ranges of steps that share a model) are, and why, as text."""
        if self.spacing is None:
            return "as given"
        said = f"centred up to {self.spacing} steps apart"
        if not self.trials:
            said = f"{said}: too few learning episodes to try shorter ones, or none held out"
        elif math.isnan((last := self.trials[-1]).gain):
            said = f"{said}, the smallest allowed"
        elif last.spacing == self.spacing:
            said = f"{said}: shorter ones predicted held-out outcomes better ({last.in_words})"
        else:
            said = (
                f"{said}: {last.spacing} would not clearly predict held-out outcomes better "
                f"({last.in_words})"
            )
        if self.opening:
            share = f"{100 * self.opening:.0f} %"
            said = f"{said}; the first step's own model counts {share} there"
        taken = [
            f"; all read {_IN_WORDS[extra]} ({trial.in_words})"
            for extra, trial in self.extras.items()
            if self.takes(extra)
        ]
        return said + "".join(taken)

    @property
    def experts_in_words(self) -> str:
        """How much each expert (one model of the mixture) counts on average, as text."""
        if not self.experts:
            return ""
        shares = [
            f"{name.replace('_', ' ')} {100 * share:.0f} %" for name, share in self.experts.items()
        ]
        return f"{', '.join(shares)}, weighted by how well each predicts unseen outcomes"

    def to_json(self) -> dict[str, Any]:
        """The choices that the fit made, as plain values for the header of a model file."""
        return {
            "spacing": self.spacing,
            "trials": [_plain(trial) for trial in self.trials],
            "opening": self.opening,
            "experts": dict(self.experts),
            "extras": {extra: _plain(trial) for extra, trial in self.extras.items()},
            **({} if self.held_out is None else {"held_out": list(self.held_out)}),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """What a fit chose, from the values that `to_json` returned."""
        try:
            spacing, experts, opening = found["spacing"], found["experts"], float(found["opening"])
            right = max(len(found["trials"]), len(experts)) <= _MOST
            right = right and (spacing is None or _is_step(spacing))
            trials = tuple(map(_trial, found["trials"]))
            kept = found.get("extras", {})  # absent in 0.2
            extras: dict[Extra, Trial] = {
                name: _trial(kept[name]) for name in EXTRAS if name in kept
            }
            right = right and all(_is_step(trial.spacing) for trial in trials)
            shares = {str(name)[:_MOST]: float(share) for name, share in experts.items()}
            held_out = _held_out(*found["held_out"]) if "held_out" in found else None
            told = (opening, *shares.values(), 0.0 if held_out is None else held_out.share)
            right = right and all(0.0 <= share <= 1.0 for share in told)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"'chosen' in the header is damaged: {error!r:.80}") from error
        if not right:
            raise ModelFileError(
                "'chosen' in the header needs spacings of at least 1 step, and shares from 0 to 1"
            )
        return cls(spacing, trials, opening, shares, extras, held_out)


def _plain(trial: Trial) -> list[float | None]:
    return [trial.spacing, *(None if math.isnan(x) else x for x in trial[1:])]


def _trial(found: Sequence[Any]) -> Trial:
    spacing, gain, error = found
    return Trial(spacing, *(math.nan if x is None else float(x) for x in (gain, error)))


def _held_out(share: Any, met: Any, seen: Any, enough: Any) -> HeldOut:
    return HeldOut(float(share), int(met), int(seen), bool(enough))


def _is_step(value: Any) -> bool:
    return type(value) is int and 1 <= value < 2**31
