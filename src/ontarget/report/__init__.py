"""An evaluation's measures, its checks, and both as text, JSON and one HTML page.

`checks` makes one list of what was found, `facts` decides each condition in it, and `rendered` and
`page` show the list. p is the probability of meeting the target; assure runs (assure episodes) are
recorded runs that no model learned from, held out to back the promises. `render` makes a page in
the same style from a template of your own, with the macros of ``pieces.html``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
