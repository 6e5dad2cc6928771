"""Four models (experts) that answer together: two forests, a shifted shape and a regression."""
