"""How good the probabilities and intervals are: measures and figures, on arrays only."""
