"""Goals over several behaviors: predicts how the outcomes of the behaviors depend on each other."""
