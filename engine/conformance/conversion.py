"""One recorded case converted by ptqlab; errors are part of the result."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Generic, TypeVar

import onnx_ir as ir

from engine.config import parse_config
from engine.conformance.cases import RecordedCase, printed_name
from engine.convert import ConversionResult, convert
from engine.errors import PtqlabError
from engine.ir import load_model

Value = TypeVar("Value")

_STAGES = ("original_float", "optimized_float", "calibrated", "quantized")
"""Files of a conversion in the order in which they are written."""


class Ending(StrEnum):
    """How our conversion of a case ended; ``unread``: the case itself cannot be read."""

    CONVERTED = "converted"
    REFUSED = "refused"
    CRASHED = "crashed"
    UNREAD = "unread"


@dataclass(frozen=True)
class OurConversion:
    """The result of converting a case.

    Attributes:
        outcome: how it ended.
        message: why it did not convert; empty where it did.
        calibrated: our calibrated model; ``None`` where the conversion ended before it.
        quantized: our quantised model; likewise.
        devices: ``BPU`` or ``CPU`` by name of a node as the original's table prints it.
        latencies_us: predicted latency of the BPU subgraphs.
    """

    outcome: Ending
    message: str
    calibrated: ir.Model | None
    quantized: ir.Model | None
    devices: Mapping[str, str]
    latencies_us: tuple[float, ...]


@dataclass(frozen=True)
class Attempt(Generic[Value]):
    """What a call gave: its value or the exception that it ended with."""

    value: Value | None
    error: BaseException | None

    @property
    def message(self) -> str:
        """The error in one line, with the place in our sources if the engine did not raise it on purpose."""
        if self.error is None:
            return ""
        text = " ".join(str(self.error).split())
        if isinstance(self.error, PtqlabError):
            return text
        frames = [frame for frame in traceback.extract_tb(self.error.__traceback__) if "engine" in frame.filename]
        place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
        return f"{type(self.error).__name__}: {text}{place}"


def attempt(call: Callable[[], Value]) -> Attempt[Value]:
    """The value of ``call`` or whatever exception it raises: a case that fails is a finding, not the end of the run."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(call)
        error = future.exception()
        return Attempt(None if error is not None else future.result(), error)


def convert_case(case: RecordedCase, folder: Path, *, in_its_order: bool = False) -> OurConversion:
    """Convert ``case`` with its own configuration, files below ``folder``.

    Args:
        case: what to convert.
        folder: where files appear.
        in_its_order: whether ``bias_correction`` takes convolutions in the order that the recording shows.
    """

    def run() -> ConversionResult:
        content = case.parameters(folder)
        if in_its_order:
            content["calibration_parameters"]["bias_correction_order"] = str(case.calibrated.resolve())
        return convert(parse_config(content, case.config), strict=True)

    done = attempt(run)
    if done.value is not None:
        result = done.value
        return OurConversion(
            outcome=Ending.CONVERTED,
            message="",
            calibrated=result.models["calibrated"],
            quantized=result.models["quantized"],
            devices={printed_name(row.node): row.on for row in result.nodes},
            latencies_us=tuple(part.latency_us for part in result.performance.subgraphs),
        )
    written = {stage: next(iter((folder / "out").glob(f"*_{stage}_model.onnx")), None) for stage in _STAGES}
    models = {stage: load_model(path) for stage, path in written.items() if path is not None}
    return OurConversion(
        outcome=Ending.REFUSED if isinstance(done.error, PtqlabError) else Ending.CRASHED,
        message=done.message,
        calibrated=models.get("calibrated"),
        quantized=models.get("quantized"),
        devices={},
        latencies_us=(),
    )
