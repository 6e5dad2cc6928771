"""What regressions and networks share: input columns, and outcomes ranked around each step."""
