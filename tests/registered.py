"""Extensions that are registered for as long as a test needs them: others' messages and pages do not show them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.registry import Registry


@contextmanager
def registered(registry: Registry[Any], **values: object) -> Iterator[None]:
    """Have ``values`` registered by name inside of the ``with`` statement."""
    for name, value in values.items():
        registry.register(name)(value)
    try:
        yield
    finally:
        for name in values:
            registry._own.pop(name, None)
            registry._checked.pop(name, None)
