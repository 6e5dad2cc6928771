"""The laws of several behaviors, held together by the ranks of recorded episodes."""
