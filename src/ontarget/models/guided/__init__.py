"""Guides: predictions of the mean that the forests of a stacked forest read as features."""
