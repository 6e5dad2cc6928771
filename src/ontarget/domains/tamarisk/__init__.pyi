from ._parameters import PRESETS as PRESETS
from ._parameters import TamariskParameters as TamariskParameters
from ._parameters import dispersal_kernel as dispersal_kernel
from ._simulator import Rivers as Rivers
from ._simulator import Tamarisk as Tamarisk
