"""The ``.ontarget`` model file: writing it, reading it and checking it."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.modelfile.container import Container, container_bytes, write_container
    from ontarget.modelfile.file import inspect_file
    from ontarget.modelfile.several import load_any, save_several

__all__ = [
    "Container",
    "container_bytes",
    "inspect_file",
    "load_any",
    "save_several",
    "write_container",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Container": "ontarget.modelfile.container",
        "container_bytes": "ontarget.modelfile.container",
        "inspect_file": "ontarget.modelfile.file",
        "load_any": "ontarget.modelfile.several",
        "save_several": "ontarget.modelfile.several",
        "write_container": "ontarget.modelfile.container",
    },
)
