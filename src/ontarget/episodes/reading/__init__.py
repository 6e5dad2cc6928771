"""From arrays, tables and files to recorded episodes, and back to tables."""
