"""Fast simulators of the paper's two domains, and their true probabilities.

True probabilities are found by repeated simulation. `Smax` fights the paper's battles in SMAX, an
engine by the authors of JaxMARL (extra ``smax``). Nothing here needs gymnasium; ``import
ontarget.domains.envs`` registers the environments.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
