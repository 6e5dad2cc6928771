"""Trains the networks with PyTorch, all of them at the same time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ontarget._package import require
from ontarget._progress import Reached
from ontarget._typing import AnyArray, FloatArray, IndexArray
from ontarget.errors import InputError

# Cosines that embed a level, and levels that a batch is asked about.
_COSINES, _LEVELS_AT_ONCE = 32, 16
# A network looks at no more of its held-out rows than this after an epoch.
_MOST_HELD_OUT = 4096
# An epoch has about so many batches, as far as their size allows.
_BATCHES, _SMALLEST_BATCH, _LARGEST_BATCH = 64, 32, 512
_DECAY = 1e-4
# The rate rises during this share of the steps, which takes at least so many of them.
_RISING, _FEWEST_STEPS = 0.1, 20


class Examples(NamedTuple):
    """The data that networks learn from: each row's inputs, and the ranks of its outcome.

    An outcome shared by several rows covers the ranks from ``low`` to ``high``. The episodes are
    divided into parts (folds), with one network for each. Every network learns from a row, except
    the network of the row's own part.
    """

    inputs: AnyArray
    low: AnyArray
    high: AnyArray
    weight: FloatArray  # the mean row weighs 1
    fold: IndexArray


class TrainingRules(NamedTuple):
    """The width of the networks, and how they are trained, as checked values."""

    width: int
    odds: FloatArray  # the levels of the knots, as log odds
    max_epochs: int
    patience: int
    rate: float
    seed: int


class Weights(NamedTuple):
    """The weights of trained networks: (networks, inputs, outputs); biases are.

    ``head`` holds the weight of each hidden unit for each quantile, then the weight of each input,
    and last a constant.
    """

    first: AnyArray
    first_bias: AnyArray
    second: AnyArray
    second_bias: AnyArray
    head: AnyArray


def train(examples: Examples, rules: TrainingRules, reached: Reached) -> Weights:
    """One trained network per fold (part of the episodes), which learns from the other folds."""
    torch = require("torch", extra="network")
    with _one_thread(torch):
        return _Training(torch, examples, rules).run(reached)


@contextmanager
def _one_thread(torch: Any) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Training:
    """Networks in training: their parameters, the data, and the generator of random numbers."""

    def __init__(self, torch: Any, examples: Examples, rules: TrainingRules) -> None:
        self._torch, self._rules = torch, rules
        self._random = torch.Generator().manual_seed(rules.seed)
        inputs, low, high, weight = (
            torch.from_numpy(np.ascontiguousarray(part, dtype=np.float32)) for part in examples[:4]
        )
        self._inputs, self._low, self._span, self._weight = inputs, low, high - low, weight
        n_networks = int(examples.fold.max()) + 1
        places = [np.flatnonzero(examples.fold != k) for k in range(n_networks)]
        self._seen = [torch.from_numpy(part) for part in places]
        self._held_out = self._padded(examples.fold, n_networks)
        self._parameters = self._untrained(n_networks, inputs.shape[1], rules.width)

    def run(self, reached: Reached) -> Weights:
        """Train until the last epoch or until no network improves; return the best weights."""
        torch, rules = self._torch, self._rules
        n_rows = min(len(part) for part in self._seen)
        batch = min(max(n_rows // _BATCHES, _SMALLEST_BATCH), _LARGEST_BATCH, n_rows)
        n_batches = n_rows // batch
        optimiser = torch.optim.AdamW(self._parameters, lr=rules.rate, weight_decay=_DECAY)
        n_steps = max(rules.max_epochs * n_batches, _FEWEST_STEPS)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, rules.rate, total_steps=n_steps, pct_start=_RISING
        )
        best, least = [one.detach().clone() for one in self._parameters], self._held_out_loss()
        since = torch.zeros(len(self._seen))
        for epoch in range(rules.max_epochs):
            orders = [part[self._permutation(len(part))] for part in self._seen]
            for k in range(n_batches):
                rows = torch.stack([order[k * batch : (k + 1) * batch] for order in orders])
                optimiser.zero_grad()
                self._loss(rows, self._drawn(rows.shape), self._drawn_levels()).sum().backward()
                optimiser.step()
                schedule.step()
            loss = self._held_out_loss()
            if not bool(torch.isfinite(loss).all()):
                raise InputError(
                    f"training a QuantileNetwork diverged: the loss became NaN or infinity in "
                    f"epoch {epoch + 1}; lower learning_rate={rules.rate:g}"
                )
            better = loss < least
            since = torch.where(better, 0.0, since + 1.0)
            least = torch.where(better, loss, least)
            for kept, one in zip(best, self._parameters, strict=True):
                kept[better] = one.detach()[better]
            reached(epoch + 1)
            if bool((since >= rules.patience).all()):
                break
        return self._weights(best)

    def _untrained(self, n: int, n_inputs: int, width: int) -> list[Any]:
        """The parameters before training."""
        torch = self._torch

        def normal(*shape: int) -> Any:
            found = torch.randn(shape, generator=self._random) * math.sqrt(2.0 / shape[-2])
            return found.requires_grad_()

        def zeros(*shape: int) -> Any:
            return torch.zeros(shape, requires_grad=True)

        return [
            normal(n, n_inputs, width),
            zeros(n, width),
            normal(n, width, width),
            zeros(n, width),
            normal(n, _COSINES, width),
            zeros(n, width),
            zeros(n, width + 2, width + n_inputs + 1),
        ]

    def _heads(self, parameters: list[Any], levels: Any) -> Any:
        """The weights of the last layer for quantiles at these levels."""
        # The shape is (networks, hidden + inputs + 1, levels).
        torch = self._torch
        waves = torch.cos(math.pi * torch.arange(_COSINES) * levels[:, None])
        embedded = torch.relu(waves @ parameters[4] + parameters[5][:, None, :])
        plain = torch.stack([torch.ones_like(levels), 0.5 * torch.logit(levels)], dim=1)
        plain = plain.expand(embedded.shape[0], -1, -1)
        return (torch.cat([embedded, plain], dim=2) @ parameters[6]).transpose(1, 2)

    def _loss(self, rows: Any, within: Any, levels: Any) -> Any:
        """The mean pinball loss of each network at these levels."""
        torch, own = self._torch, self._parameters
        inputs = self._inputs[rows]
        hidden = torch.relu(torch.baddbmm(own[1][:, None, :], inputs, own[0]))
        hidden = torch.relu(torch.baddbmm(own[3][:, None, :], hidden, own[2]))
        told = torch.cat([hidden, inputs], dim=2)
        head = self._heads(own, levels)
        found = torch.baddbmm(head[:, -1:, :] + torch.logit(levels), told, head[:, :-1, :])
        rank = self._low[rows] + within * self._span[rows]
        error = torch.logit(rank)[:, :, None] - found
        loss = (0.5 * error.abs() + (levels - 0.5) * error).mean(dim=2)
        weight = self._weight[rows] * (rows >= 0)
        return (weight * loss).sum(dim=1) / weight.sum(dim=1)

    def _held_out_loss(self) -> Any:
        with self._torch.no_grad():
            middle = self._torch.full(self._held_out.shape, 0.5)
            levels = (self._torch.arange(_LEVELS_AT_ONCE) + 0.5) / _LEVELS_AT_ONCE
            return self._loss(self._held_out, middle, levels)

    def _padded(self, fold: IndexArray, n_networks: int) -> Any:
        """(networks, rows): the rows that each network is judged by; shorter lists end with -1."""
        places = [np.flatnonzero(fold == k) for k in range(n_networks)]
        places = [part[:: -(-part.size // _MOST_HELD_OUT)] for part in places]
        table = np.full((n_networks, max(part.size for part in places)), -1)
        for row, part in zip(table, places, strict=True):
            row[: part.size] = part
        return self._torch.from_numpy(table)

    def _permutation(self, n: int) -> Any:
        return self._torch.randperm(n, generator=self._random)

    def _drawn(self, shape: Any) -> Any:
        """Random numbers from 0 to 1, drawn for each batch."""
        return self._torch.rand(shape, generator=self._random)

    def _drawn_levels(self) -> Any:
        """Random quantile levels: one from each of 16 equal parts of (0, 1)."""
        torch = self._torch
        within = torch.rand(_LEVELS_AT_ONCE, generator=self._random).clamp(1e-3, 1.0 - 1e-3)
        return (torch.arange(_LEVELS_AT_ONCE) + within) / _LEVELS_AT_ONCE

    def _weights(self, parameters: list[Any]) -> Weights:
        levels = self._torch.tensor(self._rules.odds).sigmoid().float()
        with self._torch.no_grad():
            head = self._heads(parameters, levels)
        return Weights(*(np.array(one.numpy(), order="C") for one in (*parameters[:4], head)))
