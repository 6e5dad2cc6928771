"""Models that predict the rank of an outcome among the training outcomes around the same step."""
