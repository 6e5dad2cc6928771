"""The laws of several behaviors, joined by the ranks of recorded episodes."""
