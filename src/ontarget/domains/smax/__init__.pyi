from ._simulator import Smax as Smax
from ._simulator import SmaxBattle as SmaxBattle
