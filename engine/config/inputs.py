"""``input_parameters``: what the inputs of the float model expect, and what the converted model is fed with."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Annotated, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator

from engine.config.values import (
    Count,
    Group,
    Names,
    NumbersPerInput,
    ShapePerInput,
    ValuesPerInput,
    split,
    split_optional,
)
from engine.errors import ConfigError, hint
from engine.terms import SUPPORTED_CONVERSIONS, InputType, Layout, NormType, SpaceAndRange

logger = logging.getLogger("engine.config")


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


class InputParameters(Group):
    """``input_parameters``: one entry per input of the model, in the order of ``input_name``.

    Attributes:
        input_name: the inputs' names; may be empty for a model with one input.
        input_type_train: format that the float model was trained on, never ``nv12``.
        input_layout_train: layout of the float model's input.
        input_type_rt: format that the converted model is fed with.
        input_layout_rt: layout that the converted model is fed with; without effect for ``nv12``.
        input_space_and_range: range of ``nv12`` data.
        input_shape: the inputs' shapes; empty, or None for one input: those of the model file.
        input_batch: samples per inference of the ``.bin``, 1..128; the other models keep one.
        norm_type: normalisation that becomes part of the model.
        mean_value: mean to subtract, one value or one per channel, in units of the uint8 image.
        scale_value: factor to multiply by afterwards, one value or one per channel.
        fixed_inputs: inputs that are settings, such as a sampling rate, with their values (``sr=16000``, one value or
            one per element joined by commas); they are constants of the converted model and not described by the other
            parameters. An option of ptqlab.
    """

    input_name: Names = ()
    input_type_train: Annotated[tuple[InputType, ...], BeforeValidator(split), Field(min_length=1)]
    input_layout_train: Annotated[tuple[Layout, ...], BeforeValidator(split), Field(min_length=1)]
    input_type_rt: Annotated[tuple[InputType, ...], BeforeValidator(split), Field(min_length=1)]
    input_layout_rt: Annotated[tuple[Layout | None, ...], BeforeValidator(split_optional)] = ()
    input_space_and_range: Annotated[tuple[SpaceAndRange | None, ...], BeforeValidator(split_optional)] = ()
    input_shape: ShapePerInput = ()
    input_batch: Annotated[Count, Field(ge=1, le=128)] = 1
    norm_type: Annotated[tuple[NormType | None, ...], BeforeValidator(split_optional)] = ()
    mean_value: NumbersPerInput = ()
    scale_value: NumbersPerInput = ()
    fixed_inputs: ValuesPerInput = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_entry_per_input(self, info: ValidationInfo) -> Self:
        count = len(self.input_type_train)
        for key in type(self).model_fields:
            values = getattr(self, key)
            if isinstance(values, tuple) and values and len(values) != count:
                raise ValueError(f"Wrong {key} num given, {key} num {len(values)} is not equal to input num {count}")
        if len(set(self.input_name)) < len(self.input_name):
            raise ValueError(f"input_name {list(self.input_name)} contains an input twice")
        if self.input_batch > 1:
            self._takes_batches(count, several=(info.context or {}).get("batch_of_several_inputs", False))
        return self

    def _takes_batches(self, count: int, several: bool) -> None:
        """``several``: whether the dialect has batches of several inputs."""
        if count > 1 and not several:
            raise ValueError(f"input_batch {self.input_batch} needs a model with a single input, given are {count}")
        for shape in filter(None, self.input_shape):
            if shape[0] != 1:
                raise ValueError(
                    f"input_batch {self.input_batch} needs an input_shape whose first dimension is 1, given is "
                    f"{'x'.join(map(str, shape))}"
                )

    @model_validator(mode="after")
    def _consistent_entries(self) -> Self:
        for index, (train, runtime) in enumerate(zip(self.input_type_train, self.input_type_rt, strict=True)):
            if runtime not in SUPPORTED_CONVERSIONS.get(train, ()):
                allowed = [kind.value for kind in SUPPORTED_CONVERSIONS.get(train, ())]
                raise ValueError(
                    f"input_type_train {train.value!r} not supported transform to input_type_rt {runtime.value!r} for "
                    f"now. Allowed: {allowed}"
                )
            norm = _at(self.norm_type, index, None) or NormType.NONE
            if train is InputType.FEATUREMAP and norm is not NormType.NONE:
                raise ValueError(
                    f"a featuremap is not preprocessed: its norm_type must be no_preprocess, not {norm.value!r}"
                )
            for needed, key in ((norm.has_mean, "mean_value"), (norm.has_scale, "scale_value")):
                values = getattr(self, key)
                if needed and not (values and values[index]):
                    raise ValueError(f"norm_type {norm.value!r} needs {key}")
        return self

    def specs(self, names: Sequence[str]) -> tuple[InputSpec, ...]:
        """See :meth:`engine.config.Config.input_specs`."""
        count = len(self.input_type_train)
        if count != len(names):
            raise ConfigError(f"input_parameters describe {count} inputs, the model has {len(names)}: {list(names)}")
        if not self.input_name and count > 1:
            raise ConfigError(f"input_parameters.input_name is needed: the model has {count} inputs, {list(names)}")
        for name in self.input_name:
            if name not in names:
                raise ConfigError(
                    f"input_parameters.input_name: {name!r} is not an input of the model; allowed are {list(names)}"
                    f"{hint(name, names)}"
                )
        return tuple(self._spec(index, name) for index, name in enumerate(self.input_name or names))

    def _spec(self, index: int, name: str) -> InputSpec:
        norm = _at(self.norm_type, index, None) or NormType.NONE
        mean, scale = _at(self.mean_value, index, ()), _at(self.scale_value, index, ())
        for unused, key in ((mean and not norm.has_mean, "mean_value"), (scale and not norm.has_scale, "scale_value")):
            if unused:
                logger.warning("input %r: %s has no effect, norm_type is %s", name, key, norm.value)
        space = _at(self.input_space_and_range, index, None) or SpaceAndRange.REGULAR
        runtime = self.input_type_rt[index]
        if space is not SpaceAndRange.REGULAR and runtime is InputType.YUV444:
            raise ConfigError(
                f"input {name!r}: input_space_and_range {space.value!r} and input_type_rt 'yuv444' exclude each other, "
                "as in the original; write regular"
            )
        if space is not SpaceAndRange.REGULAR and runtime is not InputType.NV12:
            logger.warning("input %r: input_space_and_range has no effect, input_type_rt is %s", name, runtime.value)
            space = SpaceAndRange.REGULAR
        return InputSpec(
            name=name,
            type_train=self.input_type_train[index],
            layout_train=self.input_layout_train[index],
            type_rt=runtime,
            layout_rt=None if runtime is InputType.NV12 else _at(self.input_layout_rt, index, None),
            space_and_range=space,
            shape=_at(self.input_shape, index, None),
            norm_type=norm,
            mean=mean if norm.has_mean else (),
            scale=scale if norm.has_scale else (),
        )


_T = TypeVar("_T")


def _at(values: Sequence[_T], index: int, default: _T) -> _T:
    return values[index] if values else default
