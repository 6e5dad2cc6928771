from .bets import DriftBet as DriftBet
from .bets import DriftReading as DriftReading
from .bets import HarmBet as HarmBet
from .change import Bias as Bias
from .change import Drift as Drift
from .change import DriftJudgement as DriftJudgement
from .change import Evidence as Evidence
from .guard import DriftGuard as DriftGuard
