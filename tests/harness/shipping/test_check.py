"""What was built beside what was measured, kept in the ship folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

import onnx_ir as ir
import pytest

from engine.config import load_config
from engine.ir import load_model
from engine.ship import ship, write
from engine.ship.build import Built, run_toolchain
from harness.shipping.check import check_and_keep, compare_built, digest_of_model
from harness.shipping.record import Matched, Outputs, load_shipped
from tests import toolchains
from tests.engine.conformance.models import write_network


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("check")
    write(ship(load_config(write_network(root))), root / "ship")
    return root / "ship"


def look(model: ir.Model) -> Outputs:
    return Outputs(samples="images", equal=Matched(equal=2, total=2))


def test_the_comparison_is_kept_with_the_file_for_the_board(folder: Path, tmp_path: Path) -> None:
    told: list[str] = []
    built = run_toolchain(folder, toolchains.toolchain(tmp_path, toolchains.EQUAL))
    shipped = check_and_keep(folder, built, look, told.append)
    assert shipped.equal
    assert load_shipped(folder) == shipped
    assert (shipped.toolchain, shipped.binary) == ("1.24.3", "model_output/small.bin")
    assert shipped.binary_sha256 == hashlib.sha256(b"for the board").hexdigest()
    assert told == ["compares node by node", "runs what was built on the simulator"]


def test_what_differs_is_named(folder: Path, tmp_path: Path) -> None:
    built = run_toolchain(folder, toolchains.toolchain(tmp_path, toolchains.DIFFERENT))
    assert built.quantized is not None
    shipped = compare_built(folder, built.quantized, None)
    assert not shipped.equal
    assert shipped.first is not None
    assert shipped.integers.equal == shipped.integers.total - 1
    expected = load_model(folder / "expected_quantized.onnx")
    assert shipped.digest != digest_of_model(expected)


def test_names_do_not_count_in_the_digest(folder: Path) -> None:
    model, renamed = (load_model(folder / "expected_quantized.onnx") for _ in range(2))
    for node in renamed.graph:
        node.name = f"other_{node.name}"
    assert digest_of_model(model) == digest_of_model(renamed)


def test_nothing_can_be_said_without_a_model(folder: Path) -> None:
    with pytest.raises(ValueError, match="nothing to compare"):
        check_and_keep(folder, Built(None, None, "", 0.0), None)
