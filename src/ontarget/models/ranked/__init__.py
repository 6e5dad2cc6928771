"""Models that predict the rank of a row's outcome among the outcomes around the same step."""
