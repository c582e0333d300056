from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

import engine.debug
from engine import HB_ONNXRuntime, Session
from engine.compat import install, modules, uninstall
from engine.compat.modules import content_of
from engine.errors import ConfigError
from tests.engine.debug.models import zoo


@pytest.fixture
def installed() -> Iterator[None]:
    install()
    yield
    uninstall()


@pytest.mark.usefixtures("installed")
def test_modules_are_found_in_every_way_of_importing() -> None:
    install()
    import horizon_nn.debug as dbg
    from horizon_nn import api
    from horizon_tc_ui import HB_ONNXRuntime as Runtime

    assert Runtime is HB_ONNXRuntime
    assert dbg.get_sensitivity_of_nodes is engine.debug.get_sensitivity_of_nodes
    assert set(dbg.__all__) == set(engine.debug.__all__)
    assert importlib.import_module("horizon_nn.api") is api


@pytest.mark.usefixtures("installed")
def test_api_runs_models() -> None:
    from horizon_nn import api

    calibrated, feed = zoo("mnist_lenet")
    expected = Session(calibrated).run(feed)
    executor = api.ORTExecutor(calibrated).create_session()
    (actual,) = executor.inference(feed)
    np.testing.assert_array_equal(actual, expected[executor.output_names[0]])
    assert api.infer(calibrated, feed).keys() == expected.keys()


def test_uninstall_takes_everything_away() -> None:
    install()
    uninstall()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("horizon_tc_ui")


def test_originals_are_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "horizon_nn", ModuleType("horizon_nn"))
    with pytest.raises(ConfigError, match="horizon_nn is already imported"):
        install()


@pytest.mark.usefixtures("installed")
def test_every_module_is_named_and_marked() -> None:
    listed = modules.names()
    assert listed.index("horizon_nn") < listed.index("horizon_nn.debug")
    for name in listed:
        module = sys.modules[name]
        assert set(module.__all__) == set(content_of(name)), name
        parent, _, child = name.rpartition(".")
        assert not parent or getattr(sys.modules[parent], child) is module
    packages = {name for name in listed if hasattr(sys.modules[name], "__path__")}
    assert packages >= {name.rpartition(".")[0] for name in listed if "." in name}
