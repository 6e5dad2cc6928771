"""Runs that are watched for a goal over several behaviors: contracts, watches and fleets."""
