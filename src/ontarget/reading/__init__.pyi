from ._cautions import Caution as Caution
from ._cautions import FileOrder as FileOrder
from .look import ColumnFacts as ColumnFacts
from .look import Look as Look
from .prepared.preparing import PreparedEpisodes as PreparedEpisodes
from .prepared.preparing import prepare as prepare
