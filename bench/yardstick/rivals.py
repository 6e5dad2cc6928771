"""What a competent user would write instead: two classifiers of "ends inside this target".

Both learn from every past episode, from its features, the step and the behavior so far. What has
to be chosen is chosen on a fifth of the past episodes, held out whole; then all of them are used.
"""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import SplineTransformer

from yardstick.questions import Question, Rows

MOST_TREES, STRENGTHS = 400, (0.01, 0.1, 1.0)


def boosted(question: Question) -> np.ndarray:
    """Gradient boosting, stopped where held-out episodes are forecast best; categories native."""
    X, asked = (np.column_stack([r.X, r.t, r.b]) for r in (question.learn, question.asked))
    category = np.append(question.is_category, [False, False])
    met, held = question.learn.met, _held(question)

    def fit(rows: np.ndarray, trees: int) -> HistGradientBoostingClassifier:
        model = HistGradientBoostingClassifier(
            learning_rate=0.05,
            max_iter=trees,
            max_leaf_nodes=15,
            min_samples_leaf=50,
            early_stopping=False,
            categorical_features=category,
            random_state=0,
        )
        return model.fit(X[rows], met[rows])

    losses = [
        _loss(p[:, 1], met[held]) for p in fit(~held, MOST_TREES).staged_predict_proba(X[held])
    ]
    chosen = fit(np.ones_like(held), int(np.argmin(losses)) + 1)
    return chosen.predict_proba(asked)[:, 1]


def logistic(question: Question) -> np.ndarray:
    """Logistic regression whose coefficients change smoothly with the step, L2 chosen held out."""
    design = _Design(question)
    X, asked, met = design(question.learn), design(question.asked), question.learn.met
    held = _held(question)

    def fit(rows: np.ndarray, strength: float) -> LogisticRegression:
        model = LogisticRegression(C=strength, solver="newton-cholesky", max_iter=50)
        return model.fit(X[rows], met[rows])

    losses = [_loss(fit(~held, c).predict_proba(X[held])[:, 1], met[held]) for c in STRENGTHS]
    best = STRENGTHS[int(np.argmin(losses))]
    return fit(np.ones_like(held), best).predict_proba(asked)[:, 1]


class _Design:
    """Standardised numbers and their squares, missing flags, one-hot categories; times the step.

    Up to 15 steps have a column each; longer runs get a cubic spline in the step, with knots where
    the rows are. Every other column is multiplied by these, so that its weight may change with t.
    """

    def __init__(self, question: Question) -> None:
        learn = question.learn
        values, self.category = self._values(learn), np.append(question.is_category, False)
        self.mean, self.spread = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
        self.gaps = np.isnan(values).any(axis=0)
        codes = [np.unique(column[~np.isnan(column)]) for column in values.T]
        self.codes = [own if c else None for own, c in zip(codes, self.category, strict=True)]
        self.n_steps = int(learn.t.max()) + 1
        self.spline = None
        if self.n_steps > 15:
            knots = np.unique(np.quantile(learn.t, np.linspace(0.0, 1.0, 6)))[:, None]
            self.spline = SplineTransformer(knots=knots, extrapolation="constant")
            self.spline.fit(learn.t[:, None].astype(float))

    def __call__(self, rows: Rows) -> np.ndarray:
        columns, linear = [], []
        for k, column in enumerate(self._values(rows).T):
            codes = self.codes[k]
            if codes is not None:
                linear += [(column == code).astype(float) for code in codes]
                continue
            known = np.where(np.isnan(column), self.mean[k], column)
            scaled = np.clip((known - self.mean[k]) / (self.spread[k] or 1.0), -6.0, 6.0)
            linear.append(scaled)
            columns.append(scaled**2)
            if self.gaps[k]:
                linear.append(np.isnan(column).astype(float))
        time = self._time(rows.t)
        crossed = [time * column[:, None] for column in linear]
        return np.column_stack([time, *crossed, *columns])

    def _time(self, t: np.ndarray) -> np.ndarray:
        if self.spline is None:
            return (np.minimum(t, self.n_steps - 1)[:, None] == np.arange(self.n_steps)).astype(
                float
            )
        return self.spline.transform(t[:, None].astype(float))

    @staticmethod
    def _values(rows: Rows) -> np.ndarray:
        return np.column_stack([rows.X, rows.b])


def _held(question: Question) -> np.ndarray:
    """Which past rows belong to the fifth of the episodes that is held out."""
    n = int(question.learn.episode[-1]) + 1
    chosen = np.random.default_rng(question.seed).permutation(n)[: max(n // 5, 1)]
    return np.isin(question.learn.episode, chosen)


def _loss(p: np.ndarray, met: np.ndarray) -> float:
    clipped = np.clip(p, 1e-4, 1.0 - 1e-4)
    return float(-np.log(np.where(met, clipped, 1.0 - clipped)).mean())
