"""A service that many agents report to: it keeps every run and raises alarms that arrive."""
