"""The parts of `bench/quality.py`: questions, answers from several methods, measures, tables."""
