"""What all data sets share: formats, ranges, digests."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from pydantic import ValidationError

from engine.errors import CalibrationDataError, ConfigError
from harness.datasets.base import ArraySplit, Colour, ImageFormat, sha256_of, stacked
from tests.harness.datasets.helpers import open_with


def test_formats() -> None:
    assert (Colour.GRAY.channels, Colour.RGB.channels) == (1, 3)
    assert ImageFormat(height=4, width=5, colour=Colour.RGB).shape == (4, 5, 3)
    for size in ({"height": 0, "width": 1}, {"height": 1, "width": 0}):
        with pytest.raises(ValidationError):
            ImageFormat.model_validate({**size, "colour": "rgb"})


class TestSplit:
    SPLIT = ArraySplit("some", np.arange(5, dtype=np.uint8).reshape(5, 1, 1, 1), np.arange(5) * 2)

    @pytest.mark.parametrize(("start", "stop", "expected"), [(0, None, 5), (0, 5, 5), (2, 4, 2), (5, 5, 0), (3, 3, 0)])
    def test_ranges_within(self, start: int, stop: int | None, expected: int) -> None:
        found = self.SPLIT.images(start, stop)
        assert found.reshape(-1).tolist() == list(range(start, start + expected))
        assert np.asarray(self.SPLIT.targets(start, stop)).tolist() == [2 * i for i in range(start, start + expected)]

    @pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 2), (0, 6), (6, 6)])
    def test_ranges_that_leave_it(self, start: int, stop: int) -> None:
        message = rf"^split 'some': images {start}\.\.{stop} requested, but it holds 0\.\.5 \(end excluded\)$"
        with pytest.raises(CalibrationDataError, match=message):
            self.SPLIT.images(start, stop)
        with pytest.raises(CalibrationDataError, match=message):
            self.SPLIT.targets(start, stop)

    @pytest.mark.parametrize("adapter", ["text_lines", "text_pages", "scenes"])
    def test_no_images_are_an_empty_array(self, adapter: str) -> None:
        data = open_with(adapter, calibration=3)
        assert data.split("calibration").images(3).shape == (0, *data.image_format.shape)


def test_a_split_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"unknown split 'train'.* Allowed: calibration, evaluation"):
        open_with("text_lines").split("train")


def test_a_digest_covers_adapter_version_options_and_data() -> None:
    data = open_with("text_lines", seed=3)
    content = {
        "adapter": "TextLines",
        "version": data.version,
        "options": data.Options(seed=3).model_dump(mode="json"),
        "probe": 1,
    }
    found = data._digest(data.Options(seed=3), {"probe": 1})
    assert found == hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def test_digests_of_arrays_cover_type_shape_and_values() -> None:
    array = np.arange(6, dtype="<i4").reshape(2, 3)
    assert sha256_of(array) == hashlib.sha256(b"<i4(2, 3)" + array.tobytes()).hexdigest()
    assert sha256_of(array.astype(">i4")) == sha256_of(array)
    assert sha256_of(np.asfortranarray(array)) == sha256_of(array)
    others = [array.reshape(3, 2), array.astype("<i8"), array.astype("<u4"), array + 1]
    assert sha256_of(array) not in {sha256_of(other) for other in others}
    assert sha256_of(array, array) != sha256_of(array)


def test_images_are_stacked_in_their_order() -> None:
    form = ImageFormat(height=1, width=2, colour=Colour.GRAY)
    images = [np.full(form.shape, value, np.uint8) for value in (3, 1, 2)]
    assert stacked(images, 3, form)[:, 0, 0, 0].tolist() == [3, 1, 2]
    assert stacked([], 0, form).shape == (0, 1, 2, 1)
