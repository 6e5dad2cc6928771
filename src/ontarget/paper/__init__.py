"""The paper's experiments, and the studies that the defaults rest on."""
