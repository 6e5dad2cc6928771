"""The distribution regression: one logistic regression for all thresholds of the outcome."""
