"""Names of the simulators, looked up when they are asked for."""

from __future__ import annotations

import pytest

from engine import simulate
from engine.simulate.session import Mode, Session
from engine.simulate.tensors import TensorInfo


def test_names_are_those_of_the_modules() -> None:
    assert (simulate.Mode, simulate.Session, simulate.TensorInfo) == (Mode, Session, TensorInfo)
    with pytest.raises(AttributeError, match=r"module 'engine.simulate' has no attribute 'Simulator'"):
        _ = simulate.Simulator
