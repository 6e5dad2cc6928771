"""Prepared episodes: they stay on disk, sorted by step, and are read one step at a time."""
