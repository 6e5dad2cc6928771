"""The study that the paper asks for: its method, and other methods, on other kinds of models."""
