"""A calibrated distribution per step: fit, outlook, live watch, guarantees, and the model file."""
