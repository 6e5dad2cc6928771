"""The guided forest: a quantile forest that also reads predictions of the mean."""
