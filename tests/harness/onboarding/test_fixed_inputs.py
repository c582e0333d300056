"""Inputs that become constants, and what is said of inputs that cards cannot feed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from engine.errors import ConfigError
from harness.onboarding.array_network import read_array_network
from harness.onboarding.fixed_inputs import FixedInput, next_steps, parse_fixed, with_fixed_inputs
from harness.onboarding.network_file import Runner, read_network
from tests.harness.onboarding.networks import array_files, stateful


def test_inputs_become_constants(tmp_path: Path) -> None:
    path = stateful(tmp_path / "net.onnx", [2, "batch", 4])
    fixed = [parse_fixed("state=0.5:2x1x4"), parse_fixed("rate=3")]
    with with_fixed_inputs(path, fixed) as made:
        assert made.name == "net.onnx"
        assert read_network(made).input_name == "x"
        (found,) = Runner(made, "x").run(np.ones((3, 8, 8), np.float32))
    np.testing.assert_allclose(found, 15)
    assert not made.exists()
    with with_fixed_inputs(path, []) as same:
        assert same == path


def test_a_state_of_size_0_is_nothing(tmp_path: Path) -> None:
    path = stateful(tmp_path / "net.onnx", [1, 0, 4])
    with with_fixed_inputs(path, [parse_fixed("state=0"), parse_fixed("rate=1")]) as made:
        (found,) = Runner(made, "x").run(np.ones((3, 8, 8), np.float32))
    np.testing.assert_allclose(found, 1)
    for name, shape in (("x", (3, 8, 8)), ("state", (1, 4)), ("rate", ())):
        array_files(tmp_path / "arrays" / name, shape, 2)
    with pytest.raises(ConfigError) as caught:
        read_array_network(path, tmp_path / "arrays")
    assert "input state has shape 1x0x4 (?: open): of size 0 there is nothing to feed" in str(caught.value)
    assert "--fix state=0 --fix rate=0" in str(caught.value)
    assert "hb_mapper checker --input-shape state SHAPE" in str(caught.value)


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    path = stateful(tmp_path / "net.onnx", [2, "batch", 4])
    wrong = {
        "stat=0": r"has no input 'stat'; its inputs are x, state, rate",
        "state=0": r"input state of .* is 2x\?x4: say its shape, --fix state=0:2x1x4",
        "state=0:3x1x4": r"--fix state=0:3x1x4: input state of .* is 2x\?x4",
    }
    for text, message in wrong.items():
        with pytest.raises(ConfigError, match=message), with_fixed_inputs(path, [parse_fixed(text)]):
            pass
    everything = [parse_fixed(text) for text in ("x=0", "state=0:2x1x4", "rate=1")]
    with pytest.raises(ConfigError, match="leaves no input that could be fed"), with_fixed_inputs(path, everything):
        pass
    assert parse_fixed("state:0=1") == FixedInput("state:0", 1)
    for text in ("state", "=1", "state=a", "state=0:2xb"):
        with pytest.raises(ConfigError, match="expected NAME=NUMBER, or NAME=NUMBER:SHAPE"):
            parse_fixed(text)


def test_the_next_steps_of_several_inputs(tmp_path: Path) -> None:
    path = stateful(tmp_path / "net.onnx", [2, "batch", 4])
    with pytest.raises(ConfigError) as caught:
        read_network(path)
    text = str(caught.value)
    assert "has 3 inputs (x 1x3x8x8, state 2x?x4, rate one number); expected one, an image" in text
    assert "--fix state=0:2x1x4 --fix rate=0" in text
    assert "--fix x" not in text  # the one that looks like an image is fed
    assert "DIR/x/0.npy, DIR/state/0.npy, DIR/rate/0.npy" in text
    assert "hb_mapper makertbin, with input_name, input_shape and cal_data_dir" in text
    assert "hb_mapper checker --input-shape state SHAPE" in text
    (value,) = onnx.load(path).graph.input[:1]
    alone = next_steps([value])
    assert "give --images a folder of arrays" in alone
    assert "--fix" not in alone
