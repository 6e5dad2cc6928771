"""Conformal calibration of conditional distributions: ranks, PCQR and its inverse, and rivals."""
