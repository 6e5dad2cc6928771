"""The ``.ontarget`` model file: writing it, reading it and checking it.

`several` saves and loads a monitor, `file` the part of it for one behavior, and `container` the
sections of arrays below, in the format of safetensors with a sealed header.
"""
