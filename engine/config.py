"""Typed configuration: the four YAML parameter groups of a conversion, validated, under the documented names."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class InputType(StrEnum):
    """Colour format of an input; ``featuremap`` is no image and is fed as it is."""

    RGB = "rgb"
    BGR = "bgr"
    YUV444 = "yuv444"
    NV12 = "nv12"
    GRAY = "gray"
    FEATUREMAP = "featuremap"


class Layout(StrEnum):
    """Order of the dimensions of a four-dimensional input."""

    NCHW = "NCHW"
    NHWC = "NHWC"


class SpaceAndRange(StrEnum):
    """Range of YUV values: ``regular`` is BT.601 over 0..255, ``bt601_video`` over 16..235."""

    REGULAR = "regular"
    BT601_VIDEO = "bt601_video"


class NormType(StrEnum):
    """Normalisation that becomes part of the model."""

    MEAN_AND_SCALE = "data_mean_and_scale"
    MEAN = "data_mean"
    SCALE = "data_scale"
    NONE = "no_preprocess"


class InputSpec(BaseModel):
    """What one input of the float model expects and what the converted model is fed with.

    Attributes:
        name: the input's name in the float model.
        type_train: format the float model was trained on (never ``nv12``).
        layout_train: layout of the float model's input.
        type_rt: format of the data at run time.
        layout_rt: layout of the data at run time; ``None`` for ``nv12``, whose layout is fixed, or to follow the model.
        space_and_range: range of ``nv12`` data.
        shape: the input's shape; ``None`` where the model's own holds.
        norm_type: which of ``mean`` and ``scale`` apply.
        mean: one value, or one per channel in the order of ``type_train``, in units of the uint8 image; empty without mean.
        scale: likewise; ``normalised = (image - mean) * scale``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    type_train: InputType = InputType.FEATUREMAP
    layout_train: Layout = Layout.NCHW
    type_rt: InputType = InputType.FEATUREMAP
    layout_rt: Layout | None = None
    space_and_range: SpaceAndRange = SpaceAndRange.REGULAR
    shape: tuple[int, ...] | None = None
    norm_type: NormType = NormType.NONE
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()

    @property
    def is_image(self) -> bool:
        """Whether the input gets an ``HzPreprocess``."""
        return self.type_train is not InputType.FEATUREMAP
