"""What ``ptqlab bench`` measures: speed of the simulator, peak memory, time of a conversion stage by stage.

Speeds are ratios against named peers that take turns in the same run (:mod:`engine.simulate.bench`); peak memory is
that of processes of their own; a conversion's stages stand beside one float pass over its calibration images.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.config import parse_config
from engine.convert import ConversionResult, convert
from engine.floats.batching import with_symbolic_batch
from engine.ir import load_model, save_model
from engine.simulate.bench import BenchOptions, BenchRow, bench, shaped_model
from engine.simulate.fast import available_cpus
from engine.simulate.profile import Profile, profile
from harness.bench.peak_memory import Contender, peak_memory
from harness.datasets import Samples
from harness.zoo.cards import ModelCard

CALIBRATION_IMAGES = 50
"""Most images that a measured conversion calibrates on."""
FLOAT_BATCH = 8
"""Images per call of the float pass that a conversion is compared with."""


@dataclass(frozen=True)
class Pair:
    """A quantised model and the float network that it was made from.

    Attributes:
        name: in the tables.
        quantized: ONNX file.
        float_model: ONNX file; ``None`` to leave float ONNX Runtime out.
    """

    name: str
    quantized: Path
    float_model: Path | None


@dataclass(frozen=True)
class MemoryRow:
    """Peak resident memory at one batch size, in bytes, of a process that does nothing else.

    Attributes:
        batch: samples per call.
        simulator_bytes: of the fast simulator.
        float_bytes: of float32 ONNX Runtime; ``None`` without a float model, or where its graph fixes another batch.
    """

    batch: int
    simulator_bytes: int
    float_bytes: int | None

    def as_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        ratio = None if self.float_bytes is None else self.simulator_bytes / self.float_bytes
        return {
            "batch": self.batch,
            "simulator_bytes": self.simulator_bytes,
            "float_bytes": self.float_bytes,
            "ratio_to_float": ratio,
        }


@dataclass(frozen=True)
class ConversionTimes:
    """Times of one conversion with ``calibration_type: max``.

    Attributes:
        images: calibration images.
        seconds: wall time by stage.
        float_pass_seconds: of float32 ONNX Runtime on the same images, in the same run.
    """

    images: int
    seconds: Mapping[str, float]
    float_pass_seconds: float

    def as_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        ratios = {stage: seconds / self.float_pass_seconds for stage, seconds in self.seconds.items()}
        return {
            "images": self.images,
            "seconds": dict(self.seconds),
            "float_pass_seconds": self.float_pass_seconds,
            "ratio_to_float_pass": ratios,
        }


@dataclass(frozen=True)
class BenchReport:
    """Figures of one model; parts that do not apply are ``None``."""

    model: str
    simulator: tuple[BenchRow, ...]
    memory: tuple[MemoryRow, ...]
    conversion: ConversionTimes | None = None
    profile: Profile | None = None


def bench_pair(pair: Pair, options: BenchOptions) -> BenchReport:
    """Speed and memory of a quantised model against its float network.

    Raises:
        ConfigError: an option is out of range.
        ModelError: a file is no model, or ``quantized`` holds no quantised operators.
    """
    rows = bench(pair.quantized, pair.float_model, options)
    memory = memory_rows(pair, options, options.batches)
    return BenchReport(pair.name, rows, memory, profile=profile(load_model(pair.quantized)))


def ratios(reports: Sequence[BenchReport], batch: int, peer: str | None = None) -> list[float]:
    """Of the simulator to float ONNX Runtime, or to a peer, at that batch size, where they were measured."""
    rows = [row for report in reports for row in report.simulator if row.batch == batch]
    found = [row.ratio_to_float if peer is None else row.ratio_to_peers.get(peer) for row in rows]
    return [ratio for ratio in found if ratio is not None]


def geometric_mean(ratios: Sequence[float]) -> float | None:
    """``None`` of nothing."""
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else None


def bench_card(card: ModelCard, march: str, options: BenchOptions) -> BenchReport:
    """Convert a model of the zoo, then as :func:`bench_pair`.

    Raises:
        PtqlabError: model or data are absent, or the march cannot run the model.
    """
    with TemporaryDirectory(prefix="ptqlab-bench-") as folder:
        result = _convert(card, march, Path(folder))
        pair = Pair(card.name, result.files["quantized"], card.model_path())
        conversion = ConversionTimes(
            images=_images(card),
            seconds={stage.value: seconds for stage, seconds in result.timings.items()},
            float_pass_seconds=_float_pass(card),
        )
        report = bench_pair(pair, options)
    return replace(report, conversion=conversion)


def as_json(reports: Sequence[BenchReport]) -> dict[str, Any]:
    """Lists ``simulator``, ``memory``, ``conversion`` and ``profile``, every row with its model."""
    return {
        "simulator": [{"model": r.model, **row.as_dict()} for r in reports for row in r.simulator],
        "memory": [{"model": r.model, **row.as_dict()} for r in reports for row in r.memory],
        "conversion": [{"model": r.model, **r.conversion.as_dict()} for r in reports if r.conversion],
        "profile": [{"model": r.model, **asdict(cost)} for r in reports if r.profile for cost in r.profile.costs],
    }


def _convert(card: ModelCard, march: str, folder: Path) -> ConversionResult:
    data = folder / "calibration"
    data.mkdir()
    inputs = card.training_inputs(_calibration_samples(card))
    folders = [data / str(index) for index in range(len(inputs))]
    for place, values in zip(folders, inputs.values(), strict=True):
        place.mkdir()
        for index, value in enumerate(values):
            np.save(place / f"{index:04d}.npy", value[None])
    content = {
        "model_parameters": {
            "onnx_model": str(card.model_path()),
            "march": march,
            "working_dir": str(folder / "converted"),
            "output_model_file_prefix": card.name,
        },
        "input_parameters": card.converter_yaml(),
        "calibration_parameters": {"cal_data_dir": ";".join(map(str, folders)), "calibration_type": "max"},
    }
    return convert(parse_config(content))


def _images(card: ModelCard) -> int:
    return min(CALIBRATION_IMAGES, card.dataset.calibration.count)


def _calibration_samples(card: ModelCard) -> Samples:
    return card.open_dataset().split(card.dataset.calibration.split).take(0, _images(card))


def _float_pass(card: ModelCard) -> float:
    """Seconds of the float network over the calibration images, after a first call that does not count."""
    import onnxruntime

    model = shaped_model(load_model(card.model_path()))
    symbolic = with_symbolic_batch(model)
    batch = 1 if symbolic is None else FLOAT_BATCH
    inputs = card.float_inputs(_calibration_samples(card))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = available_cpus()
    options.log_severity_level = 3
    data = ir.to_proto(model if symbolic is None else symbolic).SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    feeds = [
        {name: values[start : start + batch] for name, values in inputs.items()}
        for start in range(0, _images(card), batch)
    ]
    session.run(None, feeds[0])
    start = time.perf_counter()
    for feed in feeds:
        session.run(None, feed)
    return time.perf_counter() - start


def memory_rows(pair: Pair, options: BenchOptions, batches: Sequence[int]) -> tuple[MemoryRow, ...]:
    """Peak memory of both models of ``pair`` at every one of ``batches``."""
    threads = options.threads or available_cpus()
    with TemporaryDirectory(prefix="ptqlab-bench-") as folder:
        one, many = (None, None) if pair.float_model is None else _float_files(pair.float_model, Path(folder))
        rows = []
        for batch in batches:
            floats = one if batch == 1 else many
            rows.append(
                MemoryRow(
                    batch=batch,
                    simulator_bytes=peak_memory(Contender.FAST, pair.quantized, batch, threads),
                    float_bytes=None if floats is None else peak_memory(Contender.FLOAT, floats, batch, threads),
                )
            )
    return tuple(rows)


def _float_files(path: Path, folder: Path) -> tuple[Path, Path | None]:
    """The float network in standard operators: as it is, and with a symbolic batch where the graph allows one."""
    standard = shaped_model(load_model(path))
    symbolic = with_symbolic_batch(standard)
    one, many = folder / "one.onnx", folder / "many.onnx"
    save_model(standard, one)
    if symbolic is None:
        return one, None
    save_model(symbolic, many)
    return one, many
