"""The converted network that commands and pages are shown with."""

from tests.engine.convert.conftest import converted

__all__ = ["converted"]
