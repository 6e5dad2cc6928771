"""Compares a monitor with the classifiers that you could write instead, on your own log.

`run_study` compares them on random splits of a log. `study_beside` compares them on the new
episodes of an evaluation.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
