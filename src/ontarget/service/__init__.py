"""The service: it takes steps of runs over HTTP, stores them, and answers when they are on disk.

A contract (`contracts`; `held` while in use) is a monitor, a target and an alarm rule under a name
and a version. One thread writes: it runs the `engine`, whose fleets take the steps; the `store`
keeps runs, steps, alarms and messages in SQLite or PostgreSQL (`database`). Times are in seconds
since 1970. A run that was cut off, or that somebody took over, has no known outcome.
"""
