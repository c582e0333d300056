"""Measured compilations of whole networks in deployed forms: the cases under ``networks/cases`` of the reference, and
the networks of a few nodes under ``networks/minimal``.

The schedules are those that the compiler makes of the original's own quantised files, so that errors of the converter
do not count as errors of the performance model.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

from engine.chips.latency import marches
from engine.compile import CompileOptions, compile_model
from engine.compile.schedule import Schedule
from engine.errors import ConfigError, UnsupportedError
from engine.ir import load_model
from engine.terms import InputType, OptimizeLevel
from engine.toolchain.command import CUT_OFF

HELD_OUT = frozenset(
    {
        "convnext",
        "deeplab_aspp",
        "espcn",
        "mixer",
        "pvt",
        "shufflenet_v2",
        "tcn",
        "unet_t4_softmax",
        "yolov5_decode",
    }
)
"""Every fifth network: it takes no part in the fit, and nobody looked at it while the rules were sought."""

_FAMILIES: Mapping[str, frozenset[str]] = {
    "attention": frozenset({"detr", "min_ln", "min_rank3", "min_window", "mobilevit", "swin", "vit_sep", "vit_timm"}),
    "classifier": frozenset({"densenet", "repvgg_unfused", "resnet", "squeezenet", "vgg"}),
    "detector": frozenset(
        {"darknet", "min_c2f", "yolo11", "yolov5_raw", "yolov5_relu_bilinear", "yolov8_decode", "yolov8_nhwc"}
    ),
    "excitation": frozenset({"regnet_se", "senet_fc", "sknet"}),
    "heads": frozenset({"centernet", "fpn_retina_gn", "fpn_ssd"}),
    "map": frozenset({"bisenet", "db_text", "dncnn", "hourglass", "style"}),
    "mobile": frozenset({"blazeface", "efficientnet", "ghostnet", "mobilenet_v1", "mobilenet_v2", "mobilenet_v3"}),
    "unet": frozenset({"unet_depthwise_transpose", "unet_nearest_prelu", "unet_t2", "unet_t3_argmax"}),
}
"""Networks that share their building blocks: one left out is known by its family, a family left out is not."""

_Model = TypeVar("_Model", bound=BaseModel)

_QUANTIZED = "quantized.onnx"
_SMALL_RESULT, _SMALL_QUANTIZED = "expected.json", "expected_quantized.onnx"
_SMALL = "min_"
"""Beginning of the names of networks of a few nodes."""


class Figures(BaseModel):
    """What the original says of one BPU subgraph."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    latency: float
    ddr: int


class _Setting(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    march: str
    rt: InputType = InputType.FEATUREMAP
    level: OptimizeLevel = Field(default=OptimizeLevel.O2, alias="O")


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    net: str
    rc: int = 0
    setting: _Setting
    subgraphs_us_ddr: tuple[Figures, ...] = ()


class _Sum(BaseModel):
    """Figures of all BPU subgraphs together: microseconds, bytes, and how many there are."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    us: float
    ddr: float
    n: int


class _SmallResult(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    performance: _Sum


@dataclass(frozen=True)
class Deployed:
    """One conversion of a network.

    Attributes:
        name: of the case.
        net: of the network; a case is one of up to three conversions of it.
        march: BPU architecture.
        level: ``optimize_level``.
        subgraphs: what the original says of its BPU subgraphs, in its order.
        schedules: of our BPU subgraphs of the original's quantised file.
    """

    name: str
    net: str
    march: str
    level: OptimizeLevel
    subgraphs: tuple[Figures, ...]
    schedules: tuple[Schedule, ...]

    @property
    def latency_us(self) -> float:
        """Measured, of all subgraphs."""
        return sum(figures.latency for figures in self.subgraphs)

    @property
    def ddr_bytes(self) -> int:
        """Measured, of all subgraphs."""
        return sum(figures.ddr for figures in self.subgraphs)

    @property
    def family(self) -> str:
        """Networks of the same building blocks; the network itself where there are no others."""
        return next((family for family, nets in _FAMILIES.items() if self.net in nets), self.net)

    @property
    def small(self) -> bool:
        """Whether it is a network of a few nodes, which shows one rule."""
        return self.net.startswith(_SMALL)

    @property
    def held_out(self) -> bool:
        """Whether the network takes no part in the fit."""
        return self.net in HELD_OUT


def read_deployed(folder: Path) -> tuple[list[Deployed], list[str]]:
    """All cases that have figures, compiled anew, and why others could not be compiled.

    Raises:
        ConfigError: a case has no readable ``result.json``.
    """
    found, refused = [], []
    for case in _measured(folder):
        try:
            found.append(_compiled(*case))
        except UnsupportedError as error:
            refused.append(f"{case[0].name}: {error}")
    return found, refused


def read_small(folder: Path) -> list[Deployed]:
    """Networks of a few nodes that have figures, compiled anew; none where there is no such folder.

    Their folders are named after network, march and options; the figures are sums over subgraphs.

    Raises:
        ConfigError: a network has no readable ``expected.json``.
    """
    found = []
    for case in sorted(path for path in folder.glob(f"{_SMALL}*") if path.is_dir()):
        march = next(name for name in marches() if f"_{name}_" in case.name)
        figures = _read(case / _SMALL_RESULT, _SmallResult).performance
        if figures.n:
            net, options = case.name.partition(f"_{march}_")[0], CompileOptions()
            schedules = compile_model(load_model(case / _SMALL_QUANTIZED), march, options).schedules
            whole = Figures(latency=figures.us, ddr=round(figures.ddr))
            found.append(Deployed(case.name, net, march, options.optimize_level, (whole,), schedules))
    return found


def _measured(folder: Path) -> Iterator[tuple[Path, _Result]]:
    for case in sorted(path for path in folder.iterdir() if path.is_dir()):
        result = _read(case / "result.json", _Result)
        is_whole = result.rc != CUT_OFF  # else some subgraphs have no figures (``swin_c``)
        if result.subgraphs_us_ddr and is_whole and (case / _QUANTIZED).exists():
            yield case, result


def _compiled(case: Path, result: _Result) -> Deployed:
    march, level = result.setting.march, result.setting.level
    compiled = compile_model(load_model(case / _QUANTIZED), march, CompileOptions(optimize_level=level))
    nv12 = result.setting.rt is InputType.NV12
    images = {value.name for value in compiled.model.graph.inputs} if nv12 else set()
    schedules = tuple(_with_nv12(schedule, images) for schedule in compiled.schedules)
    return Deployed(case.name, result.net, march, level, result.subgraphs_us_ddr, schedules)


def _with_nv12(schedule: Schedule, images: Collection[str | None]) -> Schedule:
    """``schedule`` with these inputs as NV12 images: the original's files do not say so."""
    inputs = tuple(tensor.model_copy(update={"nv12": tensor.name in images}) for tensor in schedule.inputs)
    return schedule.model_copy(update={"inputs": inputs})


def _read(path: Path, kind: type[_Model]) -> _Model:
    try:
        return kind.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not the result of a conversion: {error}") from error
