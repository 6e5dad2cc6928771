"""Checks of recorded episodes before a fit: columns, leaks, the order of the file."""
