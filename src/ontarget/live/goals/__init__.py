"""Watches one run or many runs for a goal over several behaviors."""
