"""Recorded episodes: what a run is, the number it is judged by, and dividing runs into parts.

The words of this package: an *episode* is a recorded run, with a *state* (its features) and a
reward for every *step*. A *behavior* is the number that a run is judged by, such as the sum of its
rewards; its value at the end is the *outcome*. Models learn the *remainder*: what is still to come.
The *horizon* is the number of steps of a complete run. The *learn* episodes are for estimates, the
*assure* episodes are held out for promises.

Other packages may import these modules: `behavior`, `builtin_behaviors` and `judged`, which finds
the behaviors that a log is judged by; `schema`, the features of a state; `recording`, rows that are
not checked yet; `building`, which checks them; `store`, which keeps them; `censoring`, for runs
that were stopped; `history`, what a state says about the run so far; `rounding`, for outcomes that
are close to a bound; `splits`; `joining`, which brings recordings together; `facts`, what a fit
asks about episodes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
