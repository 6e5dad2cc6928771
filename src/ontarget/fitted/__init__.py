"""The result of a fit: the predicted distributions of every step, and their calibration.

It also holds the assure episodes, the held-out runs that back the promises.
"""
