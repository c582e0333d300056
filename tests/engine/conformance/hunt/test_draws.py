"""Draws: the same for the same seed, options that fit together, files that a conversion can read."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from engine.chips import MEASURED_MARCHES, March
from engine.config import load_config
from engine.conformance.hunt.draws import METHODS, PLAIN, draw, draw_options, write_draw
from engine.conformance.hunt.grammar.networks import draw_network


def test_the_same_seed_draws_the_same() -> None:
    first, second = (draw(4, 2, MEASURED_MARCHES) for _ in range(2))
    assert first.model.SerializeToString() == second.model.SerializeToString()
    assert (first.march, first.options, first.blocks, first.parameters) == (
        second.march,
        second.options,
        second.blocks,
        second.parameters,
    )
    assert all(np.array_equal(first.data[name], second.data[name]) for name in first.data)


@pytest.mark.parametrize("index", range(12))
def test_files_are_what_a_conversion_reads(index: int, tmp_path: Path) -> None:
    item = draw(9, index, MEASURED_MARCHES)
    config = load_config(write_draw(item, tmp_path))
    assert config.march == item.march
    assert config.onnx_model == tmp_path / "net.onnx"
    specs = config.input_specs(list(item.data))
    for number, (spec, (name, samples)) in enumerate(zip(specs, item.data.items(), strict=True)):
        assert spec.name == name
        files = sorted((tmp_path / f"cal_{number}").iterdir())
        assert [np.fromfile(path, np.float32).size for path in files] == [samples[0].size] * len(samples)
        if spec.is_image:
            assert 0 <= samples.min() < samples.max() <= 255
            assert np.array_equal(samples, np.round(samples))


def test_every_option_is_drawn_and_plain_ones_in_between() -> None:
    model = draw_network(1, 3).model()
    drawn = [draw_options(random.Random(index), model, MEASURED_MARCHES) for index in range(1500)]
    labels = {label for each in drawn for label in each.labels}
    wanted = {*METHODS, PLAIN, "percentile", "per_channel", "asymmetric", "bias_correction", "int16", "int16 node"}
    assert wanted | {"run_on_cpu", "remove_node_type", "set_model_output_int8"} <= labels
    assert all(sum(label in METHODS for label in each.labels) == 1 for each in drawn)
    assert {each.march for each in drawn} == set(MEASURED_MARCHES)
    plain = [each for each in drawn if PLAIN in each.labels]
    assert all(len(each.labels) == 2 for each in plain)
    for each in drawn:
        if each.march is March("bernoulli2"):
            assert not any("int16" in label for label in each.labels)
