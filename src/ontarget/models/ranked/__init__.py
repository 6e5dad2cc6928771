"""Outcomes ranked among those around the same step, and models that tell a row's rank."""
