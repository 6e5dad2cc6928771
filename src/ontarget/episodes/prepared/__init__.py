"""Episodes on disk, sorted by step, of which only the step that is asked for is in memory."""
