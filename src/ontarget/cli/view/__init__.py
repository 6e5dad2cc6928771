"""What `ontarget watch` draws on a terminal: charts, agents at a glance, the path to come."""
