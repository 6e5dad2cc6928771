"""The results of an evaluation, in figures, in words and as one HTML page.

With `page` and the pieces of a page (`section`, `paragraph`, `points`, `figure`, `pair`, `Table`),
you can make your own pages in the same style; `write_whole` writes a file that appears whole or not
at all.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
