"""Ship folders that the original has built: what is written now is what it was given, and our engine reads it alike."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from engine.config import load_config
from engine.convert import conversion
from engine.convert.items import QUANTIZED
from engine.ir import constant_of, load_model
from engine.quantize.diff import Aspect, diff
from engine.ship import ship
from engine.ship.folder import CONFIGURATION, NETWORK
from engine.ship.network import network_of
from engine.toolchain.tool import find_toolchain
from tests.parity.ships import CASES, RECORDED, built

TOLERANCE = 5e-5
"""Of thresholds and corrected biases, which other processors round otherwise: a bias by 2.6e-5 of the largest with AVX2
instead of AVX-512."""
LARGEST = 50_000
"""Bytes of a recorded case."""

NAMES = sorted(path.name for path in RECORDED.iterdir())


def test_all_cases_are_recorded_and_small() -> None:
    assert set(NAMES) == set(CASES)
    for name in NAMES:
        assert sum(path.stat().st_size for path in (RECORDED / name).iterdir()) < LARGEST, name


@pytest.mark.parametrize("name", NAMES)
def test_our_engine_makes_of_a_shipped_network_what_the_original_made(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "ship"
    shutil.copytree(RECORDED / name, folder)
    ours = conversion(load_config(folder / CONFIGURATION))[QUANTIZED]
    found = diff(ours, load_model(folder / "quantized.onnx"))
    assert not [str(each) for each in found if each.aspect is not Aspect.NAME and each.what != "weight_thresholds"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shipped_now_is_what_was_built(name: str, tmp_path: Path) -> None:
    shipment = ship(load_config(CASES[name].write(tmp_path)))
    assert_alike(network_of(shipment.calibrated), load_model(RECORDED / name / NETWORK))


def assert_alike(actual: ir.Model, expected: ir.Model) -> None:
    """The same nodes, and constants that are equal up to :data:`TOLERANCE`."""
    shapes = [[(node.op_type, node.name, len(node.inputs)) for node in model.graph] for model in (actual, expected)]
    assert shapes[0] == shapes[1]
    for node, other in zip(actual.graph, expected.graph, strict=True):
        for value, known in zip(node.inputs, other.inputs, strict=True):
            arrays = constant_of(value), constant_of(known)
            assert (arrays[0] is None) == (arrays[1] is None), node.name
            if arrays[0] is not None and arrays[1] is not None:
                scale = float(np.abs(arrays[1]).max(initial=0))
                np.testing.assert_allclose(arrays[0], arrays[1], rtol=TOLERANCE, atol=TOLERANCE * scale)


@pytest.mark.original
@pytest.mark.parametrize("name", os.environ.get("PTQLAB_ORIGINAL_SHIPS", "max").split(","))
def test_the_original_builds_it(name: str, tmp_path: Path) -> None:
    tool = find_toolchain(None, time_limit=300)
    assert tool is not None
    _, found = built(CASES[name].write(tmp_path), tmp_path / "ship", tool)
    assert found.equal, found.first
