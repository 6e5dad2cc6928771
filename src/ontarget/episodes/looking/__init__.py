"""What is striking about recorded episodes: columns, leaks, the order of the file."""
