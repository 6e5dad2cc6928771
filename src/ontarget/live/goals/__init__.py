"""Watches runs for a goal over several behaviors: contracts, watches and fleets."""
