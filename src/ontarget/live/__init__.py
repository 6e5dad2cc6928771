"""Watches runs while they happen: one run, many runs at once, or runs of agents known by name.

A `Contract` is a fitted monitor, a target (or a goal over several behaviors) and an alarm rule,
prepared once; `contracts` makes and keeps them. The runs under way of a contract are rows of one
table. A `Watch` is a view of one row, with a short cut; a `FleetWatch` is one of many rows, and
`Sessions` knows watches by the names of agents. `protocol` has the JSON that ``ontarget watch`` and
the service share; `reasons` has the words for why a run has its status. A step *looks* if models
are asked, and is *bad* if a value is missing or unreadable. A run is *taken over* by somebody who
acts on it. What a caller brings with a state is the reward, the signals or the behavior.

Recorded episodes get the same answers (`Answers`): those of `answering` ask all episodes step by
step. *Assure* episodes are held out from learning, and promises come from them. `explaining` says
why p is what it is. Tables are (steps, episodes), and rows are one step of one episode. `setting`
says how an alarm is set, for Python, the commands and the service.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
