"""Modules of `bench/quality.py`: questions, answers of several methods, measures, tables."""
