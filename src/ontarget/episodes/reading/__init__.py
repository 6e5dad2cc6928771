"""Reads episodes from arrays, tables and files, and turns them back into tables."""
