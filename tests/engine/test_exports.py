"""Names imported on first use, and names that have moved."""

from __future__ import annotations

import pytest

from engine.exports import Moved, lazily
from tests.conftest import ROOT

LOOKUP = lazily("box", {"ROOT": "tests.conftest"}, {"TOP": Moved("tests.conftest.ROOT", "0.2")})


def test_a_name_is_that_of_its_module() -> None:
    assert LOOKUP("ROOT") is ROOT


def test_an_old_name_says_where_it_is_now() -> None:
    with pytest.warns(DeprecationWarning, match=r"^box.TOP is deprecated since ptqlab 0.2: use tests.conftest.ROOT$"):
        assert LOOKUP("TOP") is ROOT


def test_any_other_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'box' has no attribute 'lid'"):
        LOOKUP("lid")
