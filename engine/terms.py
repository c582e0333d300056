"""The closed choices of the documents, by their names: input formats, calibration types, compiler levels."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


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

    @property
    def has_mean(self) -> bool:
        """Whether a mean is subtracted."""
        return self in (NormType.MEAN_AND_SCALE, NormType.MEAN)

    @property
    def has_scale(self) -> bool:
        """Whether a scale is multiplied."""
        return self in (NormType.MEAN_AND_SCALE, NormType.SCALE)


class CalibrationType(StrEnum):
    """How activation thresholds are chosen."""

    DEFAULT = "default"
    MIX = "mix"
    KL = "kl"
    MAX = "max"
    LOAD = "load"
    SKIP = "skip"

    @property
    def needs_data(self) -> bool:
        """Whether calibration data must be given."""
        return self not in (CalibrationType.LOAD, CalibrationType.SKIP)

    @property
    def gives_thresholds(self) -> bool:
        """Whether it gives the threshold of a tensor by itself, from data, rather than by trying other methods."""
        return self in (CalibrationType.MAX, CalibrationType.KL)

    @property
    def needs_histogram(self) -> bool:
        """Whether it looks at histograms; of a method that tries others, whether one of these does."""
        return self in (CalibrationType.KL, CalibrationType.DEFAULT, CalibrationType.MIX)


class Compatibility(StrEnum):
    """Whether a conversion imitates the original where that costs accuracy, or computes the accurate result."""

    ORIGINAL = "original"
    CLEAN = "clean"


class Device(StrEnum):
    """Where a node runs."""

    BPU = "BPU"
    CPU = "CPU"


class DataType(StrEnum):
    """Integer type of a tensor on the BPU."""

    INT8 = "int8"
    INT16 = "int16"


class OptimizeLevel(StrEnum):
    """How much the compiler fuses (``optimize_level``); :data:`DEFAULT_OPTIMIZE_LEVEL` by default."""

    O0 = "O0"
    O1 = "O1"
    O2 = "O2"
    O3 = "O3"


DEFAULT_OPTIMIZE_LEVEL = OptimizeLevel.O2
"""The level of conversions, checks, sweeps and benchmarks alike: feature maps stay on the chip, no search."""


class CompileMode(StrEnum):
    """What the compiler minimises (``compile_mode``)."""

    LATENCY = "latency"
    BANDWIDTH = "bandwidth"


class InputSource(StrEnum):
    """Where the data of an input come from on the board (``input_source``)."""

    DDR = "ddr"
    PYRAMID = "pyramid"
    RESIZER = "resizer"


SUPPORTED_CONVERSIONS: Mapping[InputType, tuple[InputType, ...]] = MappingProxyType(
    {
        InputType.YUV444: (InputType.NV12, InputType.YUV444),
        InputType.RGB: (InputType.NV12, InputType.YUV444, InputType.RGB, InputType.BGR),
        InputType.BGR: (InputType.NV12, InputType.YUV444, InputType.RGB, InputType.BGR),
        InputType.GRAY: (InputType.GRAY,),
        InputType.FEATUREMAP: (InputType.FEATUREMAP,),
    }
)
"""``input_type_rt`` per ``input_type_train``, as the documents' table has it."""
