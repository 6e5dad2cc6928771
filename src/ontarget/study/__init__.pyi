from .comparison import Study as Study
from .comparison import study as study
