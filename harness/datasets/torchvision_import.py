"""Import torchvision beside a CPU build of torch.

torchvision's compiled operators do not load there, and importing the package then fails at decorators that want the
schemas of two operators which models, data sets and transforms never call. Declaring these schemas first is enough.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
"""Operators that the package wants to find while it is imported."""


@cache
def import_torchvision() -> ModuleType:
    """The package, with ``datasets``, ``models`` and ``transforms``.

    Raises:
        ImportError: torch or torchvision is not installed, or they do not fit each other.
    """
    import torch

    library = None if _compiled_operators_load() else torch.library.Library("torchvision", "FRAGMENT")
    if library is not None:
        for schema in SCHEMAS:
            library.define(schema)
    try:
        import torchvision
    except RuntimeError as error:  # it was built for another torch
        raise ImportError(str(error)) from error
    torchvision.ptqlab_schemas = library  # the declarations last as long as this object
    return torchvision  # type: ignore[no-any-return]  # an extra that mypy need not find


def _compiled_operators_load() -> bool:
    """Whether torchvision's own library fits the torch that is installed; it declares the schemas then."""
    import torch

    found = find_spec("torchvision")
    folders = [] if found is None else [Path(folder) for folder in found.submodule_search_locations or ()]
    for library in (file for folder in folders for file in folder.glob("_C.*")):
        try:
            torch.ops.load_library(library)
        except OSError:
            continue
        return True
    return False
