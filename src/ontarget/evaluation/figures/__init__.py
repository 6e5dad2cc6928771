"""Figures that show how good forecasts are, each a `matplotlib.figure.Figure`.

matplotlib is loaded when a figure is drawn. pyplot is not used, and matplotlib's settings stay as
they are. `figure_bytes` returns the content of a file, `svg_of` inline SVG.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
