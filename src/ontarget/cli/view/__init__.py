"""What `ontarget watch` draws on a terminal: charts of runs, a list of agents, predicted paths."""
