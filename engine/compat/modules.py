"""The modules that scripts import."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from engine.errors import ConfigError
from engine.ops.foreign.custom_registry import LOOKALIKE, LOOKALIKE_MODULES

_MARK = "__ptqlab__"


def install() -> None:
    """Make ``horizon_tc_ui``, ``horizon_nn`` and ``hmct`` with their modules importable in this process.

    Calling it again changes nothing.

    Raises:
        ConfigError: the original packages are imported already.
    """
    content = _content()
    for name in content:
        found = sys.modules.get(name)
        if found is not None and not hasattr(found, _MARK):
            raise ConfigError(f"{name} is already imported from {getattr(found, '__file__', 'elsewhere')}")
    modules = {name: _module(name, names) for name, names in content.items()}
    for name, module in modules.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
    for name, module in modules.items():
        sys.modules.setdefault(name, module)


def uninstall() -> None:
    """Take away what :func:`install` added."""
    for name in _content():
        if hasattr(sys.modules.get(name), _MARK):
            del sys.modules[name]


def names() -> tuple[str, ...]:
    """The modules, packages before what is in them."""
    return tuple(_content())


def content_of(name: str) -> Mapping[str, Any]:
    """What module ``name`` holds."""
    return _content()[name]


def _content() -> dict[str, Mapping[str, Any]]:
    """What each module holds; packages stand before their modules."""
    from engine import debug  # brings the whole engine, which who imports ``HB_ONNXRuntime`` alone does not need
    from engine.compat.api import ORTExecutor, convert, infer
    from engine.compat.runtime import HB_HBIRRuntime, HB_ONNXRuntime, HBRuntime

    functions = {name: getattr(debug, name) for name in debug.__all__}
    runtime = {"HB_ONNXRuntime": HB_ONNXRuntime, "HB_HBIRRuntime": HB_HBIRRuntime, "HBRuntime": HBRuntime}
    api = {"ORTExecutor": ORTExecutor, "convert": convert, "infer": infer}
    return {
        "horizon_tc_ui": runtime,
        "horizon_tc_ui.hb_onnxruntime": runtime,
        "horizon_tc_ui.hb_runtime": runtime,
        "horizon_nn": {},
        "horizon_nn.debug": functions,
        **dict.fromkeys(LOOKALIKE_MODULES, LOOKALIKE),
        "horizon_nn.api": api,
        "hmct": {},
        "hmct.debug": functions,
        "hmct.api": api,
    }


def _module(name: str, content: Mapping[str, Any]) -> ModuleType:
    module = ModuleType(name, "Look-alike of the original toolchain's module of this name, by ptqlab.")
    if not content or any(other.startswith(f"{name}.") for other in _content()):
        module.__path__ = []
    module.__dict__.update(content)
    module.__dict__.update({_MARK: True, "__all__": sorted(content)})
    return module
