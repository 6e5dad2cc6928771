"""A service that many agents report to: it stores every run and delivers alarms."""
