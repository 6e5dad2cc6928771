"""From any log to episodes: tables, files, datasets, prepared folders; and a look at the result.

`Episodes.from_frame` and `Episodes.read` call this package. A table is read in the order of its
modules: `layout` completes the user's options, `frames` finds the columns and reads them, and
`ontarget.episodes.building` checks the result. `files` and `dividing` open files, `arrays` takes
arrays, `observations` names the numbers that an environment shows, `prepared` keeps episodes on
disk, and `look` shows what to clear up before a fit.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
