"""The quantile forest: its scikit-learn interface, and the kernels that grow and use its trees."""
