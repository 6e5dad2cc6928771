"""Prepared episodes: stored on disk, sorted by step, and read one step at a time."""
