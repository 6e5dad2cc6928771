"""Everything ontarget raises on purpose: one tree under `OntargetError`.

Each error is also the builtin kind a caller would expect, so ``except ValueError`` keeps working.
"""


class OntargetError(Exception):
    """The root of every error that ontarget raises on purpose."""


class TargetError(OntargetError, ValueError):
    """A target that is no set of outcomes."""


class EpisodesError(OntargetError, ValueError):
    """Recorded episodes that cannot be used as they are."""


class CensoredError(EpisodesError):
    """Episodes that were cut off before their end, so that their outcome is unknown."""


class CategoryError(EpisodesError):
    """A category that the episodes' dictionary does not hold."""


class EpisodesFileError(EpisodesError, OSError):
    """A file of episodes that cannot be read or written."""


class InputError(OntargetError, ValueError):
    """An argument that breaks its rule: shape, range, NaN or infinity."""


class UnfittedError(OntargetError, ValueError, AttributeError):
    """A model or a calibrated object was asked before it was fitted or calibrated."""


class CalibrationError(OntargetError, ValueError):
    """Calibration data that cannot support what was asked of it."""


class FewEpisodesError(CalibrationError):
    """Too few episodes for what was asked to be promised."""


class GroupError(OntargetError, ValueError):
    """A group that was never calibrated, or is too small to be."""


class ModelFileError(OntargetError, OSError):
    """A model file that is damaged, truncated or of another format."""


class MissingExtraError(OntargetError, ImportError):
    """An optional package is not installed; the message says how to install it."""


class GameError(OntargetError, RuntimeError):
    """StarCraft II could not be started, refused a request, ended early or went away."""


class AlarmWarning(UserWarning):
    """An alarm rule that would have stayed silent on every recorded episode."""
