"""`GoalMonitor`, the main class of the library, and `Upkeep`, which recalibrates it after drift."""
