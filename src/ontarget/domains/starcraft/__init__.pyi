from ._game import Recording as Recording
from ._game import StarcraftGame as StarcraftGame
