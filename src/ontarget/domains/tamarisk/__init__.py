"""The Tamarisk domain: an invasive tree spreads along a river, and a crew fights it.

The river is a balanced binary tree of edges. Edge 0 is the root, the most downstream one; edge e
flows into edge ``(e - 1) // 2``. Each edge holds one slot: a native plant, nothing, or a tamarisk.

Where the numbers come from
---------------------------
*Known from the paper* (Guyer and Dietterich): seven edges, three states of an edge, uniform at the
start, the four actions, a budget, a reward that is minus a cost. *Known from the document and the
code of the 2014 Reinforcement Learning Competition*: the step order, the rates, the costs, the
penalty, the dispersal kernel. *Chosen here*, because the authors' constants, policy and
trajectories are not public: the four presets (`PRESETS`), the fixed policy, the horizon of 50, one
slot per edge, the codes of an edge. No number here is the authors'.

One step
--------
1. The reward is minus (the cost of the current state + the cost of the actions).
2. An illegal action (eradicating where there is no tamarisk, restoring where it is not empty), or
   actions beyond the budget: the reward is the penalty alone and the state stays.
3. Treatment or death, one uniform draw per edge. An untreated tamarisk dies with its death rate.
   Eradicating a tamarisk succeeds with the eradication rate. With eradicate-and-restore, a native
   plant then takes its place with the restoration rate. A treated tamarisk has no natural death. A
   native plant dies with its death rate whatever the action. Restoring an empty edge succeeds with
   the restoration rate.
4. Each surviving plant, one restored in this step included, sends Binomial(seeds, K_ij) seeds from
   its edge i to edge j; K is the dispersal kernel (`dispersal_kernel`). If the parameters have
   ``arrivals``, seeds of both species also come from outside the river to every edge.
5. With one slot per edge, all of an edge's seeds reach its slot.
6. An empty edge that gets no seeds stays empty. Otherwise, with s_T tamarisk seeds and s_N native
   ones, a tamarisk takes the edge with probability β s_T / (β s_T + s_N), and else a native plant.
   β is the parameter ``competition``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
