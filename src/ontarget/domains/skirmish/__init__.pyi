from ._simulator import Armies as Armies
from ._simulator import Battle as Battle
from ._simulator import Order as Order
from ._simulator import Skirmish as Skirmish
