"""Typed configuration: the four YAML parameter groups of a conversion, validated, under the documented names.

Several values in one string are separated by ``;``, ``'None'`` stands for "nothing for this input". Paths in a file are
relative to the file's folder where they exist there, else to the working directory.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from engine.errors import ConfigError, UnsupportedError

logger = logging.getLogger("engine.config")


class March(StrEnum):
    """BPU architecture."""

    BERNOULLI2 = "bernoulli2"
    BAYES = "bayes"
    BAYES_E = "bayes-e"


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


class Device(StrEnum):
    """Where a node runs."""

    BPU = "BPU"
    CPU = "CPU"


class DataType(StrEnum):
    """Integer type of a tensor on the BPU."""

    INT8 = "int8"
    INT16 = "int16"


SUPPORTED_CONVERSIONS: Mapping[InputType, tuple[InputType, ...]] = {
    InputType.YUV444: (InputType.NV12, InputType.YUV444),
    InputType.RGB: (InputType.NV12, InputType.YUV444, InputType.RGB, InputType.BGR),
    InputType.BGR: (InputType.NV12, InputType.YUV444, InputType.RGB, InputType.BGR),
    InputType.GRAY: (InputType.GRAY,),
    InputType.FEATUREMAP: (InputType.FEATUREMAP,),
}
"""``input_type_rt`` per ``input_type_train``, as the documents' table has it."""


def _split(value: Any) -> Any:
    """``'a; b'`` to ``('a', 'b')``; lists pass, nothing and blank text give ``()``."""
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(";") if part.strip())
    if isinstance(value, Sequence):
        return tuple(str(part).strip() for part in value)
    return (str(value),)


def _parse_shapes(value: Any) -> Any:
    """``'1x3x224x224; 1x10'`` to tuples of dimensions."""
    return tuple(part if not isinstance(part, str) else _parse_shape(part) for part in _split(value))


def _parse_shape(text: str) -> tuple[int, ...]:
    try:
        dims = tuple(int(dim) for dim in text.lower().split("x"))
    except ValueError:
        dims = ()
    if not dims or min(dims) < 1:
        raise ValueError(f"{text!r} is no shape; write positive dimensions joined by x, for example 1x3x224x224")
    return dims


def _parse_numbers(value: Any) -> Any:
    """``'103.94 116.78 123.68; None'`` to one tuple of numbers per input, ``()`` for ``None``."""
    return tuple(_parse_floats(part) for part in _split(value))


def _parse_floats(text: str) -> tuple[float, ...]:
    if text == "None":
        return ()
    try:
        return tuple(float(item) for item in text.replace(",", " ").split())
    except ValueError:
        raise ValueError(f"{text!r} is neither None nor numbers separated by spaces") from None


def _blank_to_none(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip() else value


def _exact_bool(value: Any) -> Any:
    """YAML's booleans and their names as text; no numbers."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError(f"{value!r}: expected True or False")


def _split_optional(value: Any) -> Any:
    """As :func:`_split`; ``None`` written as text is no value."""
    return tuple(None if part == "None" else part for part in _split(value))


RemovableType = Literal["Quantize", "Transpose", "Dequantize", "Cast", "Reshape", "Softmax"]
DebugMode = Literal["dump_calibration_data"]
RawType = Literal["float32", "uint8"]
CompileMode = Literal["latency", "bandwidth"]
OptimizeLevel = Literal["O0", "O1", "O2", "O3"]
InputSource = Literal["ddr", "pyramid", "resizer"]
CustomOpMethod = Literal["register"]

Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
Flag = Annotated[bool, BeforeValidator(_exact_bool)]
Text = Annotated[str | None, BeforeValidator(_blank_to_none)]
NumbersPerInput = Annotated[tuple[tuple[float, ...], ...], BeforeValidator(_parse_numbers)]
ShapePerInput = Annotated[tuple[tuple[int, ...], ...], BeforeValidator(_parse_shapes)]


class _Group(BaseModel):
    """A parameter group: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _absent_means_default(cls, values: Any) -> Any:
        """A key without a value is a key that is not given."""
        if isinstance(values, Mapping):
            return {key: value for key, value in values.items() if value is not None and value != ""}
        return values


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
        mean: one value, or one per channel in the order of ``type_train``, in units of the uint8 image; empty: none.
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

    @model_validator(mode="after")
    def _values_fit_norm_type(self) -> Self:
        for key, values, wanted in (
            ("mean", self.mean, self.norm_type.has_mean),
            ("scale", self.scale, self.norm_type.has_scale),
        ):
            if bool(values) != wanted:
                verb = "needs" if wanted else "takes no"
                raise ConfigError(f"input {self.name!r}: norm_type {self.norm_type.value!r} {verb} {key}")
        return self

    @property
    def is_image(self) -> bool:
        """Whether the input gets an ``HzPreprocess``."""
        return self.type_train is not InputType.FEATUREMAP


class NodeInfo(_Group):
    """Placement and data types that ``node_info`` asks for.

    Attributes:
        on: device, ``None`` to leave it to placement.
        input_type: type of all inputs.
        input_types: type of single inputs by index; wins over ``input_type``.
        output_type: type of all outputs.
    """

    model_config = ConfigDict(populate_by_name=True)

    on: Device | None = Field(default=None, alias="ON")
    input_type: DataType | None = Field(default=None, alias="InputType")
    input_types: Mapping[int, DataType] = Field(default_factory=dict)
    output_type: DataType | None = Field(default=None, alias="OutputType")

    @model_validator(mode="before")
    @classmethod
    def _gather_numbered(cls, values: Any) -> Any:
        """``InputType0``, ``InputType1``, … to ``input_types``."""
        if not isinstance(values, Mapping):
            return values
        numbered = {key: re.fullmatch(r"InputType(\d+)", str(key)) for key in values}
        single = {int(match.group(1)): values[key] for key, match in numbered.items() if match}
        rest = {key: value for key, value in values.items() if not numbered[key]}
        return {**rest, "input_types": {**rest.get("input_types", {}), **single}}

    @property
    def uses_int16(self) -> bool:
        """Whether any type asked for is ``int16``."""
        return DataType.INT16 in (self.input_type, self.output_type, *self.input_types.values())


def _resolve(value: Any, info: ValidationInfo) -> Any:
    """A path beside the YAML file if it exists there, else relative to the working directory."""
    if not isinstance(value, str | os.PathLike):
        return value
    path = Path(value)
    base = (info.context or {}).get("folder")
    beside = base / path if base is not None else path
    return beside if beside.exists() else path


def _resolve_all(value: Any, info: ValidationInfo) -> Any:
    return tuple(_resolve(part, info) for part in _split(value))


File = Annotated[Path | None, BeforeValidator(_resolve)]
Files = Annotated[tuple[Path, ...], BeforeValidator(_resolve_all)]


class ModelParameters(_Group):
    """``model_parameters``: what to convert, for which march, where results go.

    Attributes:
        prototxt: structure of a Caffe model.
        caffe_model: weights of a Caffe model.
        onnx_model: an ONNX model.
        march: target architecture.
        output_model_file_prefix: first part of the names of all results.
        working_dir: folder of the results, made where it is missing.
        layer_out_dump: keep every BPU activation as an output.
        output_nodes: names of the nodes that the converted model ends with; empty: the model's own outputs.
        remove_node_type: types of nodes to cut from the ends of the ``.bin``.
        remove_node_name: names of nodes to cut from the ends of the ``.bin``, in this order.
        set_node_data_type: output type by node name.
        debug_mode: ``dump_calibration_data`` keeps the calibration data as ``.npy``.
        node_info: device and data types by node name.
    """

    prototxt: File = None
    caffe_model: File = None
    onnx_model: File = None
    march: March
    output_model_file_prefix: str
    working_dir: Annotated[Path, BeforeValidator(_resolve)] = Path("model_output")
    layer_out_dump: Flag = False
    output_nodes: Names = ()
    remove_node_type: Annotated[tuple[RemovableType, ...], BeforeValidator(_split)] = ()
    remove_node_name: Names = ()
    set_node_data_type: Mapping[str, DataType] = Field(default_factory=dict)
    debug_mode: DebugMode | None = None
    node_info: Mapping[str, NodeInfo] = Field(default_factory=dict)

    @field_validator("march", mode="before")
    @classmethod
    def _known_march(cls, value: Any) -> Any:
        if value not in [march.value for march in March]:
            raise ValueError(
                f"User input march invalid: {value!r} . It should in list {[march.value for march in March]}"
            )
        return value

    @model_validator(mode="after")
    def _one_model(self) -> Self:
        if self.onnx_model is not None and (self.caffe_model is not None or self.prototxt is not None):
            raise ValueError("give either onnx_model, or prototxt and caffe_model, not both")
        return self

    @field_validator("output_model_file_prefix")
    @classmethod
    def _is_a_file_name(cls, value: str) -> str:
        if Path(value).name != value:
            raise ValueError(f"{value!r} must be the first part of a file name, without folders")
        return value


class InputParameters(_Group):
    """``input_parameters``: one entry per input of the model, in the order of ``input_name``.

    Attributes:
        input_name: the inputs' names; may be empty for a model with one input.
        input_type_train: format that the float model was trained on, never ``nv12``.
        input_layout_train: layout of the float model's input.
        input_type_rt: format that the converted model is fed with.
        input_layout_rt: layout that the converted model is fed with; without effect for ``nv12``.
        input_space_and_range: range of ``nv12`` data.
        input_shape: the inputs' shapes; empty: those of the model file.
        input_batch: batch size of the ``.bin``, 1..128.
        norm_type: normalisation that becomes part of the model.
        mean_value: what is subtracted, one value or one per channel, in units of the uint8 image.
        scale_value: what is then multiplied, one value or one per channel.
    """

    input_name: Names = ()
    input_type_train: Annotated[tuple[InputType, ...], BeforeValidator(_split), Field(min_length=1)]
    input_layout_train: Annotated[tuple[Layout, ...], BeforeValidator(_split), Field(min_length=1)]
    input_type_rt: Annotated[tuple[InputType, ...], BeforeValidator(_split), Field(min_length=1)]
    input_layout_rt: Annotated[tuple[Layout | None, ...], BeforeValidator(_split_optional)] = ()
    input_space_and_range: Annotated[tuple[SpaceAndRange, ...], BeforeValidator(_split)] = ()
    input_shape: ShapePerInput = ()
    input_batch: Annotated[int, Field(ge=1, le=128)] = 1
    norm_type: Annotated[tuple[NormType, ...], BeforeValidator(_split)] = ()
    mean_value: NumbersPerInput = ()
    scale_value: NumbersPerInput = ()

    @model_validator(mode="after")
    def _one_entry_per_input(self) -> Self:
        count = len(self.input_type_train)
        for key in type(self).model_fields:
            values = getattr(self, key)
            if isinstance(values, tuple) and values and len(values) != count:
                raise ValueError(f"Wrong {key} num given, {key} num {len(values)} is not equal to input num {count}")
        if len(set(self.input_name)) < len(self.input_name):
            raise ValueError(f"input_name {list(self.input_name)} names an input twice")
        if self.input_batch > 1 and (count > 1 or (self.input_shape and self.input_shape[0][0] != 1)):
            raise ValueError("input_batch above 1 needs a model with a single input whose first dimension is 1")
        return self

    @model_validator(mode="after")
    def _consistent_entries(self) -> Self:
        for index, (train, runtime) in enumerate(zip(self.input_type_train, self.input_type_rt, strict=True)):
            if runtime not in SUPPORTED_CONVERSIONS.get(train, ()):
                allowed = [kind.value for kind in SUPPORTED_CONVERSIONS.get(train, ())]
                raise ValueError(
                    f"input_type_train {train.value!r} not supported transform to input_type_rt {runtime.value!r} for "
                    f"now. Allowed: {allowed}"
                )
            norm = self.norm_type[index] if self.norm_type else NormType.NONE
            if train is InputType.FEATUREMAP and norm is not NormType.NONE:
                raise ValueError(
                    f"a featuremap is fed as it is: its norm_type must be no_preprocess, not {norm.value!r}"
                )
            for needed, key in ((norm.has_mean, "mean_value"), (norm.has_scale, "scale_value")):
                values = getattr(self, key)
                if needed and not (values and values[index]):
                    raise ValueError(f"norm_type {norm.value!r} needs {key}")
        return self


class CalibrationParameters(_Group):
    """``calibration_parameters``: how thresholds are found, and from which data.

    Attributes:
        cal_data_dir: one folder per input.
        cal_data_type: type of raw binary files per input; empty: float32 in folders that end in ``_f32``, else uint8.
        preprocess_on: the folders hold images, to be read and resized.
        calibration_type: how thresholds of activations are chosen.
        max_percentile: fraction of ``|x|`` that the threshold of method ``max`` covers, 0..1.
        per_channel: one threshold per channel where that is possible.
        run_on_cpu: names of nodes to compute in float.
        run_on_bpu: names of nodes to compute in integers where that is possible.
        optimization: options as ``asymmetric``, ``set_model_output_int8``, ``set_Conv_input_int16``.
    """

    cal_data_dir: Files = ()
    cal_data_type: Annotated[tuple[RawType, ...], BeforeValidator(_split)] = ()
    preprocess_on: Flag = False
    calibration_type: CalibrationType = CalibrationType.DEFAULT
    max_percentile: float = 1.0
    per_channel: Flag = False
    run_on_cpu: Names = ()
    run_on_bpu: Names = ()
    optimization: Names = ()

    @field_validator("calibration_type", mode="before")
    @classmethod
    def _known_type(cls, value: Any) -> Any:
        allowed = [kind.value for kind in CalibrationType]
        if value not in allowed:
            raise ValueError(f"calibration_type {value!r} should in list {allowed}")
        return value

    @field_validator("max_percentile")
    @classmethod
    def _is_a_fraction(cls, value: float) -> float:
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"Invalid max_percentile: {value}, avaliable range: 0~1")
        return value


class CompilerParameters(_Group):
    """``compiler_parameters``: how the ``.bin`` is made.

    Attributes:
        compile_mode: optimise for ``latency`` or for DDR ``bandwidth``.
        debug: keep what the per-layer performance page needs.
        core_num: cores that one inference uses.
        optimize_level: effort of the compiler, from least to most.
        input_source: where each input comes from, by its name.
        max_time_per_fc: longest function call in microseconds, 0 or 1000..4294967295; 0: unlimited.
        jobs: processes of the compiler; ``None``: its own choice.
    """

    compile_mode: CompileMode = "latency"
    debug: Flag = False
    core_num: Annotated[int, Field(ge=1, le=2)] = 1
    optimize_level: OptimizeLevel = "O0"
    input_source: Mapping[str, InputSource] = Field(default_factory=dict)
    max_time_per_fc: Annotated[int, Field(ge=0, le=4294967295)] = 0
    jobs: Annotated[int, Field(ge=1)] | None = None

    @field_validator("max_time_per_fc")
    @classmethod
    def _zero_or_a_millisecond(cls, value: int) -> int:
        if 0 < value < 1000:
            raise ValueError(f"max_time_per_fc {value} must be 0 or 1000..4294967295 (microseconds)")
        return value


class CustomOp(_Group):
    """``custom_op``: operators of the user's own.

    Attributes:
        custom_op_method: how operators are made known.
        op_register_files: Python files that register them.
        custom_op_dir: folder of these files.
    """

    custom_op_method: CustomOpMethod | None = None
    op_register_files: Names = ()
    custom_op_dir: File = None


class Config(_Group):
    """A whole conversion.

    Attributes:
        model_parameters, input_parameters, calibration_parameters, compiler_parameters, custom_op: the groups.
    """

    model_parameters: ModelParameters
    input_parameters: InputParameters
    calibration_parameters: CalibrationParameters
    compiler_parameters: CompilerParameters = CompilerParameters()
    custom_op: CustomOp | None = None

    @model_validator(mode="after")
    def _one_folder_per_input(self) -> Self:
        calibration = self.calibration_parameters
        count = len(self.input_parameters.input_type_train)
        given = len(calibration.cal_data_dir)
        if calibration.calibration_type.needs_data and given != count:
            raise ValueError(f"Wrong cal_dir num given, cal_dir num {given} is not equal to input num {count}")
        if len(calibration.cal_data_type) not in (0, count):
            given = len(calibration.cal_data_type)
            raise ValueError(
                f"Wrong cal_data_type num given, cal_data_type num {given} is not equal to input num {count}"
            )
        return self

    @model_validator(mode="after")
    def _fits_the_march(self) -> Self:
        march = self.model_parameters.march
        for option in self.calibration_parameters.optimization:
            if not _OPTIMIZATION.fullmatch(option):
                raise ValueError(
                    f"The optimization parameter: {option} is not supported by BPU March:{march.value}. Please check "
                    "it: allowed are asymmetric, bias_correction, run_fast, set_model_output_int8, "
                    "set_model_output_int16, "
                    "set_<OpType>_input_int16, set_<OpType>_output_int16"
                )
        if march is March.BERNOULLI2:
            self._fits_bernoulli2()
        elif self.compiler_parameters.core_num > 1:
            raise ValueError(
                f"core_num {self.compiler_parameters.core_num}: march {march.value} computes on one core only"
            )
        return self

    def _fits_bernoulli2(self) -> None:
        """What bernoulli2 has not: int16, and yuv444 in NCHW."""
        model, inputs = self.model_parameters, self.input_parameters
        int16 = DataType.INT16 in model.set_node_data_type.values()
        int16 |= any(info.uses_int16 for info in model.node_info.values())
        int16 |= any(option.endswith("int16") for option in self.calibration_parameters.optimization)
        if int16:
            raise ValueError("Unsupported datatype settings for march bernoulli/bernoulli2: int16")
        for kind, layout in zip(inputs.input_type_rt, inputs.input_layout_rt, strict=False):
            if kind is InputType.YUV444 and layout is Layout.NCHW:
                raise ValueError("march bernoulli2 does not support input_type_rt 'yuv444' with input_layout_rt 'NCHW'")

    @property
    def march(self) -> March:
        """Target architecture."""
        return self.model_parameters.march

    @property
    def onnx_model(self) -> Path:
        """The ONNX model.

        Raises:
            ConfigError: none is given.
        """
        if self.model_parameters.onnx_model is None:
            raise ConfigError("can not find onnx_model in config yaml: model_parameters.onnx_model is missing")
        return self.model_parameters.onnx_model

    @property
    def caffe_model(self) -> Path:
        """The weights of the Caffe model, whose structure is ``model_parameters.prototxt``.

        Raises:
            ConfigError: one of the two is not given.
        """
        given = self.model_parameters
        if given.caffe_model is None or given.prototxt is None:
            missing = [key for key in ("caffe_model", "prototxt") if getattr(given, key) is None]
            keys = f"keys: {', '.join(map(repr, missing))}" if len(missing) > 1 else f"key: {missing[0]!r}"
            raise ConfigError(f"Key 'model_parameters' error: Missing {keys}")
        return given.caffe_model

    @property
    def float_model(self) -> Path:
        """The model to convert: :attr:`caffe_model` where any file of one is given, else :attr:`onnx_model`."""
        given = self.model_parameters
        return self.onnx_model if given.caffe_model is None and given.prototxt is None else self.caffe_model

    def input_specs(self, names: Sequence[str]) -> tuple[InputSpec, ...]:
        """The inputs, in the order of the YAML.

        Args:
            names: the model's own input names.

        Raises:
            ConfigError: ``input_name`` is missing though there are several inputs, or names an unknown one.
        """
        given, count = self.input_parameters, len(self.input_parameters.input_type_train)
        if count != len(names):
            raise ConfigError(f"input_parameters describe {count} inputs, the model has {len(names)}: {list(names)}")
        if not given.input_name and count > 1:
            raise ConfigError(f"input_parameters.input_name is needed: the model has {count} inputs, {list(names)}")
        for name in given.input_name:
            if name not in names:
                raise ConfigError(
                    f"input_parameters.input_name: {name!r} is no input of the model; allowed are {list(names)}"
                    f"{_hint(name, names)}"
                )
        return tuple(self._input_spec(index, name) for index, name in enumerate(given.input_name or names))

    def _input_spec(self, index: int, name: str) -> InputSpec:
        given = self.input_parameters
        norm = _at(given.norm_type, index, NormType.NONE)
        mean, scale = _at(given.mean_value, index, ()), _at(given.scale_value, index, ())
        for unused, key in ((mean and not norm.has_mean, "mean_value"), (scale and not norm.has_scale, "scale_value")):
            if unused:
                logger.warning("input %r: %s has no effect, norm_type is %s", name, key, norm.value)
        space = _at(given.input_space_and_range, index, SpaceAndRange.REGULAR)
        runtime = given.input_type_rt[index]
        if space is not SpaceAndRange.REGULAR and runtime is not InputType.NV12:
            logger.warning("input %r: input_space_and_range has no effect, input_type_rt is %s", name, runtime.value)
            space = SpaceAndRange.REGULAR
        return InputSpec(
            name=name,
            type_train=given.input_type_train[index],
            layout_train=given.input_layout_train[index],
            type_rt=runtime,
            layout_rt=None if runtime is InputType.NV12 else _at(given.input_layout_rt, index, None),
            space_and_range=space,
            shape=_at(given.input_shape, index, None),
            norm_type=norm,
            mean=mean if norm.has_mean else (),
            scale=scale if norm.has_scale else (),
        )


def load_config(path: str | os.PathLike[str]) -> Config:
    """Read and check a conversion's YAML file.

    Raises:
        ConfigError: the file cannot be read or is wrong; the message names file, key, value and what is allowed.
    """
    config = parse_config(read_yaml(path), path)
    for remark in remarks(config):
        logger.warning("%s: %s", path, remark)
    return config


def remarks(config: Config) -> tuple[str, ...]:
    """What is legal and has no effect, or has a newer form."""
    calibration, model = config.calibration_parameters, config.model_parameters
    found = []
    if "max_percentile" in calibration.model_fields_set and calibration.calibration_type is not CalibrationType.MAX:
        found.append(f"max_percentile has no effect, calibration_type is {calibration.calibration_type.value}")
    if config.march is not March.BERNOULLI2:
        older = {
            "set_node_data_type": model.set_node_data_type,
            "run_on_cpu": calibration.run_on_cpu,
            "run_on_bpu": calibration.run_on_bpu,
        }
        found += [f"{key} is the older form of node_info" for key, given in older.items() if given]
    return tuple(found)


def read_yaml(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Read a YAML file of parameter groups, unchecked.

    Raises:
        ConfigError: the file cannot be read or holds something else.
    """
    path = Path(path)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is no valid YAML: {error}") from error
    if not isinstance(content, Mapping):
        raise ConfigError(
            f"{path}: must hold the groups {', '.join(Config.model_fields)}, found {type(content).__name__}"
        )
    return content


def parse_config(content: Mapping[str, Any], path: str | os.PathLike[str] = "config") -> Config:
    """Check the groups of a conversion that were read from ``path``.

    Raises:
        ConfigError: as :func:`load_config`.
    """
    folder = Path(path).resolve().parent
    try:
        return Config.model_validate(content, context={"folder": folder})
    except ValidationError as error:
        raise ConfigError("\n".join(f"{path}: {_explain(detail)}" for detail in error.errors())) from error


def check_implemented(config: Config, calibration_types: Collection[str]) -> None:
    """Refuse what is documented but not built yet, so that no parameter is ignored silently.

    Args:
        config: the conversion.
        calibration_types: names of the calibration methods that are registered.

    Raises:
        UnsupportedError: names the first such parameter.
    """
    for key, is_used in _NOT_IMPLEMENTED.items():
        if is_used(config):
            raise UnsupportedError(f"{key} is not supported yet; leave it out")
    method = config.calibration_parameters.calibration_type.value
    if method not in calibration_types:
        raise UnsupportedError(
            f"calibration_parameters.calibration_type {method!r} is not supported yet; allowed are "
            f"{sorted(calibration_types)}"
        )


OWN_OPTIMIZATIONS = (
    "order_independent_kl",
    "mse_thresholds",
    "nodewise_methods",
    "adaptive_rounding",
    "cross_layer_equalization",
    "integer_bias_correction",
)
"""Options of ours, which the original does not have."""

_OPTIMIZATION = re.compile(
    r"asymmetric|bias_correction|run_fast|set_model_output_int(8|16)|set_\w+_(in|out)put_int16|"
    + "|".join(OWN_OPTIMIZATIONS)
)

_NOT_IMPLEMENTED: Mapping[str, Callable[[Config], bool]] = {
    "input_parameters.input_batch above 1": lambda config: config.input_parameters.input_batch > 1,
    "custom_op": lambda config: config.custom_op is not None,
}
"""Documented parameters that no stage takes yet, and when they are used."""

_T = TypeVar("_T")


def _at(values: Sequence[_T], index: int, default: _T) -> _T:
    return values[index] if values else default


def _hint(wrong: str, allowed: Collection[str]) -> str:
    near = difflib.get_close_matches(wrong, allowed, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _explain(error: ErrorDetails) -> str:
    """One pydantic error in the words of the original where it has some."""
    location = [str(part) for part in error["loc"]]
    where, owner, key = ".".join(location), ".".join(location[:-1]), location[-1] if location else ""
    of_owner = f"Key {owner!r} error: " if owner else ""
    match error["type"]:
        case "missing":
            return f"{of_owner}Missing key: {key!r}"
        case "extra_forbidden":
            allowed = _allowed_keys(location[:-1])
            return f"{of_owner}Wrong key {key!r} in {allowed}{_hint(key, allowed)}"
        case "value_error":
            message = str(error["ctx"]["error"])
            return f"{where}: {message}" if where else message
        case "enum" | "literal_error":
            return f"{where}: {error['input']!r} should in list [{error['ctx']['expected'].replace(' or ', ', ')}]"
        case _:
            return f"{where}: {error['input']!r}: {error['msg']}"


def _allowed_keys(owner: Sequence[str]) -> list[str]:
    """Keys of the file, of a parameter group, or of one node in ``node_info``."""
    if not owner:
        return list(Config.model_fields)
    if len(owner) > 1:
        return ["ON", "InputType", "InputType0", "InputType1", "OutputType"]
    return list(GROUPS[owner[0]].model_fields)


GROUPS: Mapping[str, type[BaseModel]] = {
    "model_parameters": ModelParameters,
    "input_parameters": InputParameters,
    "calibration_parameters": CalibrationParameters,
    "compiler_parameters": CompilerParameters,
    "custom_op": CustomOp,
}
