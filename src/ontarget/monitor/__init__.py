"""`GoalMonitor`, the main class of the library."""
