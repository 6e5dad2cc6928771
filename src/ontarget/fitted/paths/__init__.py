"""Path bands: ranges for every later step of a run, from the recorded runs most like it."""
