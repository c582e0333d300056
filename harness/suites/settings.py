"""What a sweep varies: calibration, granularity, options, int16 nodes, input format, draws of images, engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, model_validator

from engine.config import OWN_OPTIMIZATIONS, ConversionOptions
from engine.errors import ConfigError
from engine.extensions import OwnMethod, OwnName
from engine.terms import CalibrationType, Compatibility, InputType
from harness.extensions import ENGINES, OwnEngine
from harness.files.cache import content_key
from harness.files.strict_yaml import StrictModel

_SHORT_LIST = 2
"""Largest number of names of an int16 policy that an id spells out."""


class Engine(StrEnum):
    """What quantises.

    Attributes:
        BUNDLED: the engine of this project.
        ONNXRUNTIME: static quantisation of ONNX Runtime; no BPU, no latency.
        HB_MAPPER: the vendor's command, where there is one (:mod:`harness.backends.foreign`).
    """

    BUNDLED = "bundled"
    ONNXRUNTIME = "onnxruntime"
    HB_MAPPER = "hb_mapper"


def _read_engine(value: Any) -> Engine | OwnEngine:
    if isinstance(value, Engine | OwnEngine):
        return value
    if value in {engine.value for engine in Engine}:
        return Engine(value)
    try:
        _ = ENGINES[str(value)]
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return OwnEngine(value)


AnyEngine = Annotated[Engine | OwnEngine, PlainValidator(_read_engine), PlainSerializer(str, str, "json")]
"""An engine in a YAML or JSON file."""


class Int16Kind(StrEnum):
    """Which nodes compute with 16-bit activations."""

    NONE = "none"
    ALL = "all"
    NODES = "nodes"
    TYPES = "types"
    TOP_K = "top_k"


class Int16Policy(StrictModel):
    """Which nodes are asked to take and give int16.

    Written ``none``, ``all``, ``{nodes: […]}``, ``{types: […]}`` or ``{top_k: 5}``.

    Attributes:
        kind: how nodes are chosen.
        names: of nodes, or operator types, of the optimised graph.
        count: of the nodes whose quantisation alone harms the outputs most.
    """

    kind: Int16Kind = Int16Kind.NONE
    names: tuple[str, ...] = ()
    count: int = 0

    @property
    def label(self) -> str:
        """Short form for ids: ``int16.all``, ``int16.types(Conv)``; empty for ``none``."""
        if self.kind is Int16Kind.NONE:
            return ""
        if self.kind is Int16Kind.TOP_K:
            return f"int16.top_{self.count}"
        if len(self.names) > _SHORT_LIST:
            return f"int16.{self.kind}({len(self.names)}:{content_key(self.names)[:6]})"
        return f"int16.{self.kind}({'+'.join(self.names)})" if self.names else f"int16.{self.kind}"


def _read_policy(value: Any) -> Any:
    """An int16 policy as YAML has it."""
    if isinstance(value, Int16Policy):
        return value
    if isinstance(value, str) and value in (Int16Kind.NONE, Int16Kind.ALL):
        return Int16Policy(kind=Int16Kind(value))
    if isinstance(value, Mapping) and len(value) == 1:
        ((kind, names),) = value.items()
        if kind in (Int16Kind.NODES, Int16Kind.TYPES) and _is_list_of_names(names):
            return Int16Policy(kind=Int16Kind(kind), names=tuple(names))
        if kind == Int16Kind.TOP_K and isinstance(names, int) and not isinstance(names, bool) and names > 0:
            return Int16Policy(kind=Int16Kind.TOP_K, count=names)
    raise ValueError("allowed are none, all, {nodes: [name, ...]}, {types: [operator type, ...]} and {top_k: count}")


def _write_policy(policy: Int16Policy) -> str | dict[str, Any]:
    if policy.kind is Int16Kind.TOP_K:
        return {policy.kind.value: policy.count}
    return {policy.kind.value: list(policy.names)} if policy.names else policy.kind.value


def _is_list_of_names(names: object) -> bool:
    return isinstance(names, list | tuple) and bool(names) and all(isinstance(name, str) and name for name in names)


Int16 = Annotated[Int16Policy, BeforeValidator(_read_policy), PlainSerializer(_write_policy)]
"""An int16 policy in a YAML or JSON file."""


SWITCHES = tuple(ConversionOptions.switches())
"""Settings that are words of the converter's ``optimization``."""

_BUNDLED_ONLY = (*(name for name in SWITCHES if name in OWN_OPTIMIZATIONS), "compatibility", "corrections")

_ONNXRUNTIME_TAKES: Mapping[str, tuple[Any, ...]] = {
    "calibration_type": (CalibrationType.MAX, CalibrationType.KL),
    "bias_correction": (False,),
    "int16": (Int16Kind.NONE, Int16Kind.ALL),
    "input_type_rt": (None,),
}


class Settings(ConversionOptions):
    """What a sweep varies: the engine's options under their names, and what a trial has besides.

    Attributes:
        max_percentile: of ``max`` only: share of ``|x|`` that the threshold covers, above 0 to 1.
        int16: nodes with 16-bit activations.
        input_type_rt: colour format at run time; None for the card's.
        calibration_samples: number of samples; None for the suite's number.
        calibration_seed: draw them at random from the card's calibration samples; None for the first ones.
        engine: what quantises; a registered one too (:data:`harness.extensions.ENGINES`).
    """

    max_percentile: float = Field(default=1.0, gt=0, le=1)
    int16: Int16 = Int16Policy()
    input_type_rt: InputType | None = None
    calibration_samples: int | None = Field(default=None, ge=1)
    calibration_seed: int | None = Field(default=None, ge=0, lt=2**32)
    engine: AnyEngine = Engine.BUNDLED

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        """Stricter than the options themselves: settings that change nothing are refused."""
        if self.calibration_type is not CalibrationType.MAX and self.max_percentile != 1.0:
            raise ValueError(
                f"max_percentile {self.max_percentile} has no meaning with calibration_type "
                f"{self.calibration_type.value!r}; it belongs to 'max'"
            )
        for name, beside in self._without_effect().items():
            raise ValueError(f"{name} has no meaning with {beside}")
        if self.engine is not Engine.BUNDLED:
            if isinstance(self.calibration_type, OwnMethod):
                raise ValueError(
                    f"calibration_type {self.calibration_type.value!r} is registered for engine bundled; it has no "
                    f"meaning with engine {self.engine.value}"
                )
            for name in _BUNDLED_ONLY:
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"{name} has no meaning with engine {self.engine.value}; it belongs to 'bundled'")
        for name, allowed in self._taken_by_engine().items():
            value = self.int16.kind if name == "int16" else getattr(self, name)
            if value not in allowed:
                words = ", ".join(str(choice) for choice in allowed)
                raise ValueError(f"{name} {value!s} has no meaning with engine {self.engine.value}; allowed: {words}")
        return self

    def _taken_by_engine(self) -> Mapping[str, Collection[Any]]:
        """Values by setting that the engine can do something with; it takes all of those that are not listed."""
        if self.engine is Engine.ONNXRUNTIME:
            return _ONNXRUNTIME_TAKES
        if not isinstance(self.engine, OwnEngine):
            return {}
        fields = type(self).model_fields
        nothing = {name: (fields[name].default,) for name in ConversionOptions.model_fields}
        nothing |= {"int16": (Int16Kind.NONE,), "input_type_rt": (None,)}
        return nothing | dict(ENGINES[self.engine].takes)

    def _without_effect(self) -> dict[str, str]:
        """Switches that are on and change nothing, and beside which setting."""
        return {name: beside for name, beside in self._idle().items() if getattr(self, name)}

    def _idle(self) -> dict[str, str]:
        """Switches that would change nothing, and beside which setting."""
        method = self.calibration_type
        elementary = method in (CalibrationType.MAX, CalibrationType.KL)
        means_something = dict.fromkeys(SWITCHES, method.needs_data) | {
            "per_channel": method.gives_thresholds,
            "corrections": method.needs_data,
            "order_independent_kl": method.needs_histogram or self.nodewise_methods,
            "mse_thresholds": elementary,
            "nodewise_methods": elementary,
            "cross_layer_equalization": method is not CalibrationType.LOAD,
            "integer_bias_correction": method is not CalibrationType.SKIP,
        }
        idle = {name: f"calibration_type {method.value!r}" for name, means in means_something.items() if not means}
        if self.mean_bias_correction:
            idle.setdefault("bias_correction", "mean_bias_correction")
        return idle

    def applies(self, name: str) -> bool:
        """Whether another value of the setting ``name`` could change anything beside the other settings."""
        if name == "max_percentile":
            return self.calibration_type is CalibrationType.MAX
        if self.engine is not Engine.BUNDLED and name in _BUNDLED_ONLY:
            return False
        return name not in self._idle()

    @property
    def own_names(self) -> tuple[OwnName, ...]:
        """What the user registered that takes part."""
        chosen = (self.calibration_type, self.engine)
        return (*(name for name in chosen if isinstance(name, OwnName)), *self.corrections)

    @property
    def method(self) -> str:
        """Calibration method for tables: ``max-0.9999``."""
        kind = self.calibration_type.value
        return kind if self.max_percentile == 1.0 else f"{kind}-{self.max_percentile!r}"

    @property
    def label(self) -> str:
        """Short form for ids: ``max-0.9999-per_channel-int16.all``."""
        return "-".join(part for part in (self.variant, self.per_channel and "per_channel", self.int16.label) if part)

    @property
    def variant(self) -> str:
        """All but granularity and int16: ``max-0.9999-asymmetric-nv12``."""
        parts = [
            self.method,
            "" if self.engine is Engine.BUNDLED else self.engine.value,
            "" if self.compatibility is Compatibility.ORIGINAL else self.compatibility.value,
            *(name for name in SWITCHES if getattr(self, name)),
            *self.corrections,
            self.input_type_rt.value if self.input_type_rt else "",
            f"n{self.calibration_samples}" if self.calibration_samples else "",
            "" if self.calibration_seed is None else f"seed{self.calibration_seed}",
        ]
        return "-".join(part for part in parts if part)
