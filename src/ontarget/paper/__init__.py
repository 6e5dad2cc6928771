"""The paper's experiments, and the studies behind the library's defaults."""
