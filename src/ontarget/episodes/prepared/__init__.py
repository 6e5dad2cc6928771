"""Prepared episodes: on disk, sorted by step, with only the requested step in memory."""
