"""Images as the input of the quantised model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.calibrate.data.sources import as_fed
from engine.config import InputSpec
from engine.terms import SUPPORTED_CONVERSIONS, InputType, Layout
from harness.backends.stages import simulate
from harness.backends.stages.simulate import SIMULATE, integer_feed
from tests.harness.backends.stages import work

IMAGE_CONVERSIONS = [
    (trained, type_rt)
    for trained, allowed in SUPPORTED_CONVERSIONS.items()
    for type_rt in allowed
    if trained is not InputType.FEATUREMAP
]
(SPEC,) = work.config().input_specs([work.CARD.input_specs[0].name])


def session(shape: tuple[int, ...], dtype: type) -> Any:
    return SimpleNamespace(inputs=[SimpleNamespace(name="input", shape=shape, dtype=np.dtype(dtype))])


def fed(values: np.ndarray, shape: tuple[int, ...], dtype: type, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    monkeypatch.setattr(simulate, "as_fed", lambda images, spec: values)
    feed = integer_feed(session(shape, dtype), {SPEC.name: np.zeros(1)}, [SPEC])
    assert list(feed) == ["input"]
    assert feed["input"].flags.c_contiguous
    return feed["input"]


def test_values_are_rounded_to_even_and_limited_to_the_type(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([-200.0, -128.4, -0.5, 0.5, 1.5, 127.4, 300.0], np.float32).reshape(7, 1, 1, 1)
    found = fed(values, (1, 1, 1, 1), np.int8, monkeypatch)
    assert found.dtype == np.int8
    assert found.reshape(-1).tolist() == [-128, -128, 0, 0, 2, 127, 127]


def test_floats_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([0.5, -300.25], np.float32).reshape(2, 1, 1, 1)
    assert fed(values, (1, 1, 1, 1), np.float32, monkeypatch).reshape(-1).tolist() == [0.5, -300.25]


def test_channels_move_where_the_model_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    last = fed(values, (1, 4, 5, 3), np.int16, monkeypatch)
    np.testing.assert_array_equal(last, values.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(fed(values, (1, 3, 4, 5), np.int16, monkeypatch), values)


def test_an_image_of_bytes_loses_128() -> None:
    images = np.array([0, 1, 128, 255], np.uint8).reshape(4, 1, 1, 1)
    feed = integer_feed(session((1, 1, 1, 1), np.int8), {SPEC.name: images}, [SPEC])
    assert feed["input"].reshape(-1).tolist() == [-128, -127, 0, 127]


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize(("trained", "type_rt"), IMAGE_CONVERSIONS)
def test_images_of_bytes_are_fed_as_their_floats_would_be(
    trained: InputType, type_rt: InputType, channels_last: bool, layout: Layout
) -> None:
    spec = SPEC.model_copy(update={"type_train": trained, "type_rt": type_rt, "layout_train": layout})
    channels = 1 if trained is InputType.GRAY else 3
    images = np.random.default_rng(0).integers(0, 256, (2, 4, 6, channels), dtype=np.uint8)
    taken = images if layout is Layout.NHWC else np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    floats = np.clip(np.rint(as_fed(taken, spec)), -128, 127)
    floats = floats if layout is Layout.NHWC else floats.transpose(0, 2, 3, 1)
    is_kept = channels_last or layout is Layout.NHWC
    shape = (1, 4, 6, channels) if is_kept else (1, channels, 4, 6)
    (found,) = integer_feed(session(shape, np.int8), {spec.name: taken}, [spec]).values()
    np.testing.assert_array_equal(found, floats if is_kept else floats.transpose(0, 3, 1, 2))
    assert found.dtype == np.int8
    assert found.flags.c_contiguous


def test_several_inputs_go_by_name_and_arrays_stay_as_they_are() -> None:
    state = InputSpec(name="state")
    wanted = [
        SimpleNamespace(name="state", shape=(1, 2), dtype=np.dtype(np.float32)),
        SimpleNamespace(name=SPEC.name, shape=(1, 1, 1, 1), dtype=np.dtype(np.int8)),
    ]
    arrays = {SPEC.name: np.full((3, 1, 1, 1), 130, np.uint8), "state": np.arange(6.0).reshape(3, 2)}
    several: Any = SimpleNamespace(inputs=wanted)
    feed = integer_feed(several, arrays, [SPEC, state])
    assert feed[SPEC.name].reshape(-1).tolist() == [2, 2, 2]
    assert feed["state"].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_the_stage_declares_the_input_s_parameters() -> None:
    assert SIMULATE.parameters == ("input_parameters",)
