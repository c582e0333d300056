"""The converted network that commands are shown with."""

from tests.engine.convert.conftest import converted

__all__ = ["converted"]
