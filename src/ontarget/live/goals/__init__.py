"""Runs that are held to a goal over several behaviors: contracts, watches and fleets."""
