"""Inputs that become constants, and what is said of inputs that cards cannot feed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from engine.errors import ConfigError
from harness.onboarding.array_network import read_array_network
from harness.onboarding.fixed_inputs import next_steps, with_fixed_inputs
from harness.onboarding.network_file import Runner, read_network
from tests.harness.onboarding.networks import array_files, stateful


def test_inputs_become_constants(tmp_path: Path) -> None:
    path = stateful(tmp_path / "net.onnx", [2, "batch", 4])
    with with_fixed_inputs(path, {"state": (0.5,), "rate": (3,)}, {"state": (2, 1, 4)}) as made:
        assert made.name == "net.onnx"
        assert read_network(made).input_name == "x"
        (found,) = Runner(made, "x").run(np.ones((3, 8, 8), np.float32))
    np.testing.assert_allclose(found, 15)
    assert not made.exists()
    with with_fixed_inputs(path, {}, {}) as same:
        assert same == path


def test_a_state_of_size_0_is_nothing(tmp_path: Path) -> None:
    path = stateful(tmp_path / "net.onnx", [1, 0, 4])
    with with_fixed_inputs(path, {"rate": (1,)}, {}) as made:
        (found,) = Runner(made, "x").run(np.ones((3, 8, 8), np.float32))
    np.testing.assert_allclose(found, 1)
    with with_fixed_inputs(path, {}, {}) as made, pytest.raises(ConfigError, match=r"has 2 inputs \(x 1x3x8x8, rate"):
        read_network(made)
    for name, shape in (("x", (3, 8, 8)), ("state", (1, 4)), ("rate", ())):
        array_files(tmp_path / "arrays" / name, shape, 2)
    with pytest.raises(
        ConfigError, match=r"input state has shape 1x0x4 \(\?: open\): of size 0 there is nothing to feed"
    ):
        read_array_network(path, tmp_path / "arrays")


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    path = stateful(tmp_path / "net.onnx", [2, "batch", 4])
    wrong: list[tuple[dict[str, tuple[float, ...]], dict[str, tuple[int, ...]], str]] = [
        ({"stat": (0,)}, {}, "names 'stat', the inputs of the model are"),
        ({"state": (0,)}, {}, "input 'state' is dynamic; give its shape"),
        ({"x": (0,), "state": (0,), "rate": (1,)}, {"state": (2, 1, 4)}, "fixes all inputs"),
        ({}, {"x": (1, 3, 8, 8)}, "--input-shape x: is for inputs that --fix makes constants; --size gives"),
    ]
    for fixed, shapes, message in wrong:
        with pytest.raises(ConfigError, match=message), with_fixed_inputs(path, fixed, shapes):
            pass


def test_the_next_steps_of_several_inputs(tmp_path: Path) -> None:
    path = stateful(tmp_path / "net.onnx", [2, "batch", 4])
    with pytest.raises(ConfigError) as caught:
        read_network(path)
    text = str(caught.value)
    assert "has 3 inputs (x 1x3x8x8, state 2x?x4, rate one number); expected one, an image" in text
    assert "--fix state=0 --input-shape state=2x1x4 --fix rate=0" in text
    assert "--fix x" not in text  # the one that looks like an image is fed
    assert "DIR/x/0.npy, DIR/state/0.npy, DIR/rate/0.npy" in text
    assert "hb_mapper makertbin; lists of its YAML file (input_name, input_shape, cal_data_dir)" in text
    assert "hb_mapper checker --input-shape state=SHAPE" in text
    (value,) = onnx.load(path).graph.input[:1]
    alone = next_steps([value])
    assert "give --images a folder of arrays" in alone
    assert "--fix" not in alone
