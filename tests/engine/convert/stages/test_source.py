"""The stages that read the model and put preprocessing before it."""

from __future__ import annotations

from pathlib import Path

from engine.config import InputSpec
from engine.convert.stages.source import PREPARE, READ
from tests.engine.convert.work import configured, ran
from tests.engine.frontend.networks import convolution, saved


def test_the_model_and_its_inputs_are_read(tmp_path: Path) -> None:
    found = ran(READ, configured(model__onnx_model=str(saved(convolution(), tmp_path))))
    assert [node.name for node in found["source"].graph] == ["Conv_0"]
    assert found["specs"] == (InputSpec(name="x"),)


def test_images_get_their_preprocessing(tmp_path: Path) -> None:
    source = ran(READ, configured(model__onnx_model=str(saved(convolution(), tmp_path))))["source"]
    for kind, expected in (("featuremap", ["Conv"]), ("rgb", ["HzPreprocess", "Conv"])):
        norm = {} if kind == "featuremap" else {"norm_type": "data_scale", "scale": (0.5,)}
        spec = InputSpec(name="x", type_train=kind, type_rt=kind, **norm)
        original = ran(PREPARE, configured(), source=source, specs=(spec,))["original_float"]
        assert [node.op_type for node in original.graph] == expected
    assert PREPARE.parameters == ()
