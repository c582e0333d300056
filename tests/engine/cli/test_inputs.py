"""Inputs of the tools from files: what a board is fed gives what the runtime session gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.cli.inputs import read_input, read_inputs
from engine.config import InputSpec
from engine.errors import ConfigError, InferenceError
from engine.frontend.colour import convert_colour, to_quantized_input
from engine.frontend.preprocess import MARK_INPUTS
from engine.ir import load_model
from engine.simulate import Session
from engine.terms import InputType, Layout, NormType

IMAGE = Path(__file__).parents[2] / "golden" / "conversions" / "p_rgb.quant.onnx"


def session_of(type_train: str, type_rt: str, layout_rt: str) -> tuple[Session, InputSpec]:
    """The golden image model as if converted with these formats, and its spec."""
    model = load_model(IMAGE)
    (name,) = (str(value.name) for value in model.graph.inputs)
    spec = InputSpec(
        name=name,
        type_train=InputType(type_train),
        type_rt=InputType(type_rt),
        layout_train=Layout.NCHW,
        layout_rt=Layout(layout_rt),
        norm_type=NormType.NONE,
    )
    model.metadata_props[MARK_INPUTS] = f"[{spec.model_dump_json()}]"
    return Session(model), spec


def picture(session: Session) -> np.ndarray:
    """A random picture (H, W, 3) of the session's input size."""
    (info,) = session.inputs
    height, width = sorted(info.shape)[-2:]
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


@pytest.mark.parametrize("suffix", [".bin", ".npy"])
@pytest.mark.parametrize(
    ("type_rt", "layout_rt"), [("rgb", "NHWC"), ("rgb", "NCHW"), ("nv12", "NHWC"), ("bgr", "NHWC")]
)
def test_pixels_as_a_board_is_fed(tmp_path: Path, type_rt: str, layout_rt: str, suffix: str) -> None:
    session, spec = session_of("rgb", type_rt, layout_rt)
    (info,) = session.inputs
    images = convert_colour(picture(session)[None], InputType.RGB, InputType(type_rt))
    fed = images.transpose(0, 3, 1, 2) if layout_rt == "NCHW" else images
    path = tmp_path / f"frame{suffix}"
    if suffix == ".npy":
        np.save(path, fed)
    else:
        np.ascontiguousarray(fed).tofile(path)
    layout = Layout.NHWC if info.shape[3] == 3 else Layout.NCHW
    np.testing.assert_array_equal(read_input(session, info, path), to_quantized_input(fed, spec, layout))


@pytest.mark.parametrize("type_train", ["rgb", "bgr"])
def test_a_picture_is_what_its_pixels_are(tmp_path: Path, type_train: str) -> None:
    session, _ = session_of(type_train, "rgb", "NHWC")
    (info,) = session.inputs
    pixels = picture(session)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    pixels[None].tofile(tmp_path / "a.bin")
    found = read_input(session, info, tmp_path / "a.png")
    np.testing.assert_array_equal(found, read_input(session, info, tmp_path / "a.bin"))


def test_by_name_or_in_order(tmp_path: Path) -> None:
    session, spec = session_of("rgb", "rgb", "NHWC")
    picture(session).tofile(tmp_path / "a.bin")
    by_name = read_inputs(session, f"{spec.name}:{tmp_path}/a.bin")
    np.testing.assert_array_equal(by_name[spec.name], read_inputs(session, f"{tmp_path}/a.bin")[spec.name])
    with pytest.raises(ConfigError, match="expected one per input"):
        read_inputs(session, "a.bin,b.bin")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.bin", None, "no such file"),
        ("a.npy", b"no array", "cannot be read"),
        ("a.png", b"no picture", "not a readable image"),
        ("a.bin", b"123", "holds 3 bytes, expected .*: rgb"),
    ],
)
def test_what_does_not_fit(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    session, _ = session_of("rgb", "rgb", "NHWC")
    (info,) = session.inputs
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InferenceError, match=message):
        read_input(session, info, tmp_path / name)
