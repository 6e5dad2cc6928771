"""The ``.ontarget`` model file: writing it, reading it and checking it."""
