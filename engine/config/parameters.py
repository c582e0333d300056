"""The four parameter groups of a conversion and ``custom_op``, with the rules that hold between parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from engine.chips import ChipFamily, March, load_chip
from engine.config.inputs import InputParameters, InputSpec
from engine.config.options import ORIGINAL_OPTIMIZATIONS, OWN_OPTIMIZATIONS
from engine.config.values import (
    Count,
    CustomOpMethod,
    DebugMode,
    File,
    Files,
    Flag,
    Fraction,
    Group,
    Names,
    Options,
    RawType,
    RemovableType,
    check_path,
    names_as_text,
    resolve,
    split,
    split_optional,
)
from engine.errors import ConfigError, hint
from engine.extensions import Calibration, Corrections
from engine.terms import (
    DEFAULT_OPTIMIZE_LEVEL,
    CalibrationType,
    Compatibility,
    CompileMode,
    DataType,
    Device,
    InputSource,
    InputType,
    Layout,
    OptimizeLevel,
)


class NodeInfo(Group):
    """Placement and data types that ``node_info`` asks for.

    Attributes:
        on: device, ``None`` to leave it to placement.
        input_type: type of all inputs.
        input_types: type of single inputs by index; wins over ``input_type``.
        output_type: type of all outputs.
    """

    model_config = ConfigDict(populate_by_name=True, defer_build=True)

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

    def as_written(self) -> dict[str, str]:
        """The keys and values of the file."""
        numbered = {f"InputType{index}": kind.value for index, kind in self.input_types.items()}
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"input_types"}) | numbered


LONGEST_PREFIX = 160
"""Bytes of ``output_model_file_prefix``: the names of the results append to it."""


class ModelParameters(Group):
    """``model_parameters``: what to convert, for which march, where results go.

    Attributes:
        prototxt: structure of a Caffe model.
        caffe_model: weights of a Caffe model.
        onnx_model: an ONNX model.
        march: target architecture.
        output_model_file_prefix: first part of the names of all results.
        working_dir: folder of the results, created if it does not exist.
        layer_out_dump: keep every BPU activation as an output.
        output_nodes: names of the nodes that the converted model ends with; empty: the model's own outputs.
        remove_node_type: types of nodes to cut from the ends of the ``.bin``.
        remove_node_name: names of nodes to cut from the ends of the ``.bin``, in this order.
        set_node_data_type: output type by node name.
        debug_mode: ``dump_calibration_data`` keeps the calibration data as ``.npy``.
        node_info: device and data types by node name.
        compatibility: ``original`` converts as the original does; ``clean`` does the right thing where the original's
            way costs accuracy (rules.md). An option of ptqlab.
    """

    prototxt: File = None
    caffe_model: File = None
    onnx_model: File = None
    march: March
    output_model_file_prefix: str
    working_dir: Annotated[Path, BeforeValidator(resolve)] = Path("model_output")
    layer_out_dump: Flag = False
    output_nodes: Names = ()
    remove_node_type: Annotated[tuple[RemovableType, ...], BeforeValidator(split)] = ()
    remove_node_name: Names = ()
    set_node_data_type: Annotated[Mapping[str, DataType], BeforeValidator(names_as_text)] = Field(default_factory=dict)
    debug_mode: DebugMode | None = None
    node_info: Annotated[Mapping[str, NodeInfo], BeforeValidator(names_as_text)] = Field(default_factory=dict)
    compatibility: Compatibility = Compatibility.ORIGINAL

    @field_validator("march", mode="before")
    @classmethod
    def _known_march(cls, value: Any) -> Any:
        if value not in [march.value for march in March]:
            raise ValueError(
                f"User input march invalid: {value!r} . It should in list {[march.value for march in March]}"
                f"{hint(str(value), March)}"
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
        check_path(value, LONGEST_PREFIX)
        if Path(value).name != value:
            raise ValueError(f"{value!r} must be the first part of a file name, without folders")
        return value


class CalibrationParameters(Group):
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
        bias_correction_order: calibrated model of the original's; ``bias_correction`` takes convolutions in the order
            that it shows, which the original leaves to chance; not in the original.
        corrections: corrections of weights and biases that you registered; not in the original.
    """

    cal_data_dir: Files = ()
    cal_data_type: Annotated[tuple[RawType | None, ...], BeforeValidator(split_optional)] = ()
    preprocess_on: Flag = False
    calibration_type: Calibration = CalibrationType.DEFAULT
    max_percentile: Fraction = 1.0
    per_channel: Flag = False
    run_on_cpu: Names = ()
    run_on_bpu: Names = ()
    optimization: Options = ()
    bias_correction_order: File = None
    corrections: Corrections = ()

    @field_validator("max_percentile")
    @classmethod
    def _is_a_fraction(cls, value: float) -> float:
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"Invalid max_percentile: {value}, avaliable range: 0~1")
        return value


class CompilerParameters(Group):
    """``compiler_parameters``: how the ``.bin`` is made.

    Attributes:
        compile_mode: optimise for ``latency`` or for DDR ``bandwidth``.
        debug: keep what the per-layer performance page needs.
        core_num: cores that one inference uses.
        optimize_level: effort of the compiler, from least to most.
        input_source: where each input comes from, by its name; checked, changes no result or estimate.
        max_time_per_fc: longest function call in microseconds, 0 or 1000..4294967295; 0: unlimited.
        jobs: number of processes of the original's compiler; without effect, because ptqlab compiles in one process.
    """

    compile_mode: CompileMode = CompileMode.LATENCY
    debug: Flag = False
    core_num: Annotated[Count, Field(ge=1, le=2)] = 1
    optimize_level: OptimizeLevel = DEFAULT_OPTIMIZE_LEVEL
    input_source: Mapping[str, InputSource] = Field(default_factory=dict)
    max_time_per_fc: Annotated[Count, Field(ge=0, le=4294967295)] = 0
    jobs: Annotated[Count, Field(ge=1)] | None = None

    @field_validator("max_time_per_fc")
    @classmethod
    def _zero_or_a_millisecond(cls, value: int) -> int:
        if 0 < value < 1000:
            raise ValueError(f"max_time_per_fc {value} must be 0 or 1000..4294967295 (microseconds)")
        return value


class CustomOp(Group):
    """``custom_op``: operators of the user's own.

    Attributes:
        custom_op_method: how operators are made known.
        op_register_files: Python files below ``custom_op_dir`` that register them; they are executed.
        custom_op_dir: folder of these files.
    """

    custom_op_method: CustomOpMethod | None = None
    op_register_files: Names = ()
    custom_op_dir: File = None

    @model_validator(mode="after")
    def _files_in_a_folder(self) -> Self:
        if bool(self.op_register_files) != (self.custom_op_dir is not None):
            given, missing = ("op_register_files", "custom_op_dir")[:: 1 if self.op_register_files else -1]
            raise ValueError(f"{given} needs {missing}, which is missing")
        return self


class Config(Group):
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
    def _options_fit_together(self) -> Self:
        options, kind = self.calibration_parameters.optimization, self.calibration_parameters.calibration_type
        types = [option for option in options if option in _OUTPUT_TYPES]
        if len(set(types)) > 1:
            raise ValueError(f"calibration_parameters.optimization: {' and '.join(types)} exclude each other")
        for option in options:
            other = option.removesuffix("int8") + "int16"
            if option.startswith("set_") and option.endswith("int8") and other in options:
                raise ValueError(f"calibration_parameters.optimization: {option} and {other} exclude each other")
        if "cross_layer_equalization" in options and kind is CalibrationType.LOAD:
            raise ValueError(
                "calibration_parameters.optimization: cross_layer_equalization scales the tensors whose thresholds "
                "calibration_type load takes from the model"
            )
        return self

    @model_validator(mode="after")
    def _fits_the_march(self) -> Self:
        march = self.model_parameters.march
        for option in self.calibration_parameters.optimization:
            if not _OPTIMIZATION.fullmatch(option):
                raise ValueError(
                    f"The optimization parameter: {option} is not supported by BPU March:{march.value}. Please check "
                    f"it: allowed are {', '.join(_ALL_OPTIMIZATIONS)}{hint(option, _ALL_OPTIMIZATIONS)}"
                )
        if load_chip(march).family is ChipFamily.BERNOULLI:
            self._fits_bernoulli2()
        elif self.compiler_parameters.core_num > 1:
            raise ValueError(
                f"core_num {self.compiler_parameters.core_num}: march {march.value} has only one core per frame"
            )
        return self

    def _fits_bernoulli2(self) -> None:
        """Refuse what bernoulli2 does not have: int16, and yuv444 in NCHW."""
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

    def of_model(self, path: Path) -> Config:
        """This configuration for the model ``path``, an ONNX file or the ``.caffemodel`` of the ``prototxt`` given."""
        caffe = path.suffix == ".caffemodel"
        files = {"onnx_model": None if caffe else path, "caffe_model": path if caffe else None}
        files |= {} if caffe else {"prototxt": None}
        parameters = self.model_parameters.model_copy(update=files)
        return self.model_copy(update={"model_parameters": parameters})

    def with_fixed_inputs(self, fixed: Mapping[str, tuple[float, ...]]) -> Config:
        """This configuration with the inputs ``fixed`` as constants: what it says of them, and their data, left out."""
        if not fixed:
            return self
        inputs, calibration = self.input_parameters, self.calibration_parameters
        kept = [index for index, name in enumerate(inputs.input_name) if name not in fixed]
        values: dict[str, Any] = {"fixed_inputs": {**inputs.fixed_inputs, **fixed}}
        folders: dict[str, Any] = {}
        if len(kept) < len(inputs.input_name):
            values |= _entries(inputs, kept, len(inputs.input_name))
            folders = _entries(calibration, kept, len(inputs.input_name), ("cal_data_dir", "cal_data_type"))
        return self.model_copy(
            update={
                "input_parameters": inputs.model_copy(update=values),
                "calibration_parameters": calibration.model_copy(update=folders),
            }
        )

    def input_specs(self, names: Sequence[str]) -> tuple[InputSpec, ...]:
        """The inputs, in the order of the YAML.

        Args:
            names: the model's own input names.

        Raises:
            ConfigError: ``input_name`` is missing though there are several inputs, or names an unknown one.
        """
        return self.input_parameters.specs(names)


def _entries(
    group: BaseModel, kept: Sequence[int], count: int, keys: Sequence[str] | None = None
) -> dict[str, tuple[Any, ...]]:
    """The entries ``kept`` of parameters of ``group``, or of ``keys``, that have one for each of ``count`` inputs."""
    values = {key: getattr(group, key) for key in keys or type(group).model_fields}
    per_input = {key: value for key, value in values.items() if isinstance(value, tuple) and len(value) == count}
    return {key: tuple(value[index] for index in kept) for key, value in per_input.items()}


_OUTPUT_TYPES = ("set_model_output_int8", "set_model_output_int16")
_OPTIMIZATIONS = (*ORIGINAL_OPTIMIZATIONS, "run_fast", "set_all_nodes_int16", "lstm_batch_last", *_OUTPUT_TYPES)
_OF_TYPES = (
    *(f"set_<OpType>_{side}_{kind}" for side in ("input", "output") for kind in ("int8", "int16")),
    "run_<OpType>_on_bpu",
)
_ALL_OPTIMIZATIONS = (*_OPTIMIZATIONS, *OWN_OPTIMIZATIONS, *_OF_TYPES)
_OPTIMIZATION = re.compile("|".join(_ALL_OPTIMIZATIONS).replace("<OpType>", r"\w+"))

GROUPS: Mapping[str, type[BaseModel]] = {
    "model_parameters": ModelParameters,
    "input_parameters": InputParameters,
    "calibration_parameters": CalibrationParameters,
    "compiler_parameters": CompilerParameters,
    "custom_op": CustomOp,
}
