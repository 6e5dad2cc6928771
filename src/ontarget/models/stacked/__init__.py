"""The stacked forest: models (experts) that answer together, each with a weight."""
