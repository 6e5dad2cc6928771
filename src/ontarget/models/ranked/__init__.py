"""Models that predict the rank of an outcome: the share of training outcomes that are lower.

Only training outcomes around the same step count.
"""
