"""Conditional distributions F̂(y | x): one protocol, several models."""
