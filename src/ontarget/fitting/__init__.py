"""Fits a monitor to episodes: blocks of steps, engines that run the work, checkpoints.

A block is a range of steps that share a model.
"""
