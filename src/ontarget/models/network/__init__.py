"""Neural networks that predict quantiles; a fitted network answers without PyTorch."""
