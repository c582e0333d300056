"""Random graphs through all stages: ``python -m tests.fuzz.graphs --graphs 5000 --seed 1``.

Graphs share weights, list initializers as inputs, have outputs inside and dead branches, use a tensor twice, chain
Identity and Cast, leave names and optional inputs empty, have prime sizes and maps of one element, dilations and uneven
pads; one in fifty is 2,000 nodes deep or 500 wide. Each is converted three times, with 1, 2 and 4 threads. The source
and the original_float model must give the same bits, the optimised model what ONNX Runtime makes of the file up to
float32's rounding; the fast simulator, the reference, the ``.bin`` and the standard export the same bits, for samples
together and one by one; every file the same bytes each time. Exit code 1: one did not; its folder is kept.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from engine.alignment import aligned
from engine.chips import MEASURED_MARCHES
from engine.config import Config
from engine.convert import ConversionResult, convert, pipeline
from engine.convert.items import THREADS
from engine.convert.runner import Given
from engine.errors import PtqlabError
from engine.frontend.onnx import load_onnx
from engine.ir import to_bytes
from engine.simulate import Session
from engine.simulate.portable import to_standard
from tests.fuzz.graph_maker import Maker, MisfitError
from tests.fuzz.graph_steps import PRIMES, STEPS, conv

Array = NDArray[Any]
Feed = dict[str, Array]

SECONDS = 600
"""CPU time for one graph."""
SAMPLES = 3
DEEP, WIDE = 2000, 500
LARGE_EVERY = 100
"""Graphs of which one is deep and one is wide."""
OPSETS = (10, 11, 12, 13, 15, 17, 18, 19)
UNIT_ROUNDOFF = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class Case:
    """A graph with the data to calibrate it and to run it.

    Attributes:
        model: float32 inputs of batch 1.
        march: that it is converted for.
        calibration: what else the conversion is asked for, parameters of ``calibration_parameters``.
        data: calibration data by input, shape (samples, ...).
        feed: other data.
    """

    model: onnx.ModelProto
    march: str
    calibration: Mapping[str, Any]
    data: Feed
    feed: Feed


@dataclass
class Tally:
    """What came of all graphs."""

    converted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def total(self) -> int:
        """How many were tried."""
        return self.converted + self.refused.total() + len(self.faults)


def case(seed: int, index: int) -> Case:
    """The graph number ``index`` of campaign ``seed``."""
    rng, data = random.Random(f"{seed}-{index}"), np.random.default_rng([seed, index])
    maker = Maker(rng.choice(OPSETS), rng, data)
    if index % LARGE_EVERY == LARGE_EVERY // 2:
        outputs = _deep(maker)
    elif index % LARGE_EVERY == LARGE_EVERY - 1:
        outputs = _wide(maker)
    else:
        outputs = _grown(maker)
    shapes = {name: maker.shape(name) for name in maker.inputs}
    calibration = {name: data.normal(size=(SAMPLES, *shape[1:])).astype(np.float32) for name, shape in shapes.items()}
    feed = {name: data.normal(size=(SAMPLES, *shape[1:])).astype(np.float32) for name, shape in shapes.items()}
    for values in feed.values():
        values[1] *= 30  # beyond all thresholds
    march = rng.choice(MEASURED_MARCHES)
    return Case(maker.finish(outputs), march, _options(rng, march), calibration, feed)


def _options(rng: random.Random, march: str) -> dict[str, Any]:
    """Parameters of a calibration; int16 where the march has it."""
    options: dict[str, Any] = {"calibration_type": rng.choice(("max", "max", "max", "kl", "mix"))}
    if options["calibration_type"] == "max" and rng.random() < 0.3:
        options["max_percentile"] = 0.99
    if options["calibration_type"] != "mix" and rng.random() < 0.2:
        options["per_channel"] = True
    if rng.random() < 0.15:
        wide = () if march == "bernoulli2" else ("set_Conv_input_int16",)
        options["optimization"] = rng.choice(("asymmetric", "set_model_output_int8", *wide))
    return options


def _grown(maker: Maker) -> list[str]:
    rng = maker.rng
    for _ in range(rng.choice((1, 1, 1, 2))):
        maker.input(1, rng.choice(PRIMES), rng.choice(PRIMES), rng.choice(PRIMES))
    last = "x0"
    for step in (conv, *rng.choices(STEPS, k=rng.randint(1, 14))):
        x = rng.choice(maker.maps) if rng.random() < 0.35 else maker.maps[-1]
        try:
            last = str(step(maker, x))
        except MisfitError:
            continue  # what it appended before is a dead branch
    made = [name for node in maker.nodes if node.op_type not in ("Constant", "Shape") for name in node.output if name]
    named = [name for name in made if name in {*maker.maps, *maker.rest, last}]
    return _unique([*rng.sample(named, rng.choice((0, 0, 0, 1, 2)) % (len(named) + 1)), named[-1] if named else last])


def _first_map(maker: Maker, *shape: int) -> str:
    """A convolution of a new input of ``shape``; one whose window is too large for it is drawn again."""
    x = maker.input(*shape)
    while True:
        try:
            return conv(maker, x)
        except MisfitError:
            continue


def _deep(maker: Maker) -> list[str]:
    """A chain with residual branches."""
    rng = maker.rng
    x = _first_map(maker, 1, rng.choice((2, 3)), 5, 5)
    while len(maker.nodes) < DEEP:
        channels = maker.shape(x)[1]
        match rng.randrange(6):
            case 0:
                x = maker.op("Conv", x, maker.weight(channels, channels, 1, 1), offered=False)
            case 1:
                x = maker.op("Identity", x, offered=False)
            case 2:
                x = maker.op("Add", x, maker.op("Tanh", x, offered=False), offered=False)
            case 3:
                x = maker.op("Mul", x, maker.constant(rng.uniform(0.7, 1.1)), offered=False)
            case 4:
                x = maker.op("Add", x, maker.constant(maker.data.normal(size=(channels, 1, 1)) * 0.1), offered=False)
            case _:
                x = maker.op("Tanh", x, offered=False)
    return [x]


def _wide(maker: Maker) -> list[str]:
    """Branches of one map that share a few weights, joined by Concat or Sum, some of them outputs."""
    rng = maker.rng
    x = _first_map(maker, 1, 3, 5, 7)
    channels = maker.shape(x)[1]
    weights = [maker.constant(maker.data.normal(size=(2, channels, 1, 1))) for _ in range(40)]
    branches = [maker.op("Conv", x, rng.choice(weights), offered=False) for _ in range(WIDE)]
    branches = [maker.op("Relu", name, offered=False) if rng.random() < 0.5 else name for name in branches]
    kind = rng.choice(("Concat", "Sum", "Add"))
    if kind == "Add":
        joined = branches[0]
        for name in branches[1:]:
            joined = maker.op("Add", joined, name, offered=False)
    else:
        joined = maker.op(kind, *branches, offered=False, **({"axis": 1} if kind == "Concat" else {}))
    return _unique([*rng.sample(branches, 5), joined])


def _unique(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))


def verify(item: Case, folder: Path) -> None:
    """Convert ``item`` in ``folder``, an empty one, and compare everything.

    Raises:
        PtqlabError: it is refused.
        AssertionError: something differs.
    """
    source = folder / "m.onnx"
    source.write_bytes(item.model.SerializeToString())
    for name, values in item.data.items():
        (folder / name).mkdir()
        for index, sample in enumerate(values):
            (folder / name / f"{index}.bin").write_bytes(sample.tobytes())
    config, written = Config.model_validate(_config(item, folder)), {}
    for threads in (1, 2, 4):
        result = _converted(config, threads)
        files = {stage: path.read_bytes() for stage, path in result.files.items()}
        written = written or files
        assert list(files) == list(written)
        for stage, content in files.items():
            assert content == written[stage], f"{stage} has other bytes with {threads} threads"
        if threads < 4:
            shutil.rmtree(folder / "out")
    _compare_floats(item, source, result)
    _compare_integers(item, result)


def _config(item: Case, folder: Path) -> dict[str, Any]:
    count = len(item.data)
    return {
        "model_parameters": {
            "onnx_model": str(folder / "m.onnx"),
            "march": item.march,
            "output_model_file_prefix": "m",
            "working_dir": str(folder / "out"),
        },
        "input_parameters": {
            "input_name": ";".join(item.data),
            "input_type_train": ";".join(["featuremap"] * count),
            "input_layout_train": ";".join(["NCHW"] * count),
            "input_type_rt": ";".join(["featuremap"] * count),
        },
        "calibration_parameters": {
            "cal_data_dir": ";".join(str(folder / name) for name in item.data),
            "cal_data_type": ";".join(["float32"] * count),
            **item.calibration,
        },
    }


def _converted(config: Config, threads: int) -> ConversionResult:
    defaults = {**pipeline.DEFAULTS, THREADS: Given(threads, "any")}
    with patch.object(pipeline, "DEFAULTS", defaults):
        return convert(config)


def _compare_floats(item: Case, path: Path, result: ConversionResult) -> None:
    stock = _stock(item.model.SerializeToString(), item.feed)
    source = load_onnx(path)
    first, original = Session(source).run(item.feed), Session(result.models["original_float"]).run(item.feed)
    _same(original, first, "original_float differs from the source")
    nodes, off = len(item.model.graph.node), None
    exact: Feed = {}
    optimized = Session(result.models["optimized_float"]).run(item.feed)
    for name, values in zip(first, optimized.values(), strict=True):  # a pass may rename an output, as the original's
        for other, kind in ((first[name], "the source"), (stock[name], "ONNX Runtime on the file")):
            bound = 64 * nodes * UNIT_ROUNDOFF * max(float(np.abs(other).max(initial=0)), 1e-6)
            if np.allclose(values, other, rtol=1e-4, atol=bound, equal_nan=True):
                continue
            exact = exact or _by_definition(item)
            if name in exact and np.allclose(values, exact[name], rtol=1e-4, atol=bound, equal_nan=True):
                continue  # ONNX Runtime itself rounds: a normalisation of one element cancels large products
            off = _sensitivity(item) if off is None else off
            error = float(np.abs(values.astype(np.float64) - other).max())
            assert error <= off[name] * 100, f"optimized_float differs from {kind} by {error} in {name}"


def _by_definition(item: Case) -> Feed:
    """Outputs as ONNX's reference evaluator has them, sample by sample; none where it cannot compute the graph."""
    session = ReferenceEvaluator(item.model)
    feeds = ({name: values[index : index + 1] for name, values in item.feed.items()} for index in range(SAMPLES))
    try:
        found = [session.run(None, feed) for feed in feeds]
    except ValueError:  # onnx 1.23: its Mean adds to the first operand, whatever the shape of the others
        return {}
    return {name: np.concatenate([run[at] for run in found]) for at, name in enumerate(session.output_names)}


def _sensitivity(item: Case) -> dict[str, float]:
    """How far the outputs move when the inputs move by their own rounding."""
    content = item.model.SerializeToString()
    nudged = {name: values * np.float32(1 + 2 * UNIT_ROUNDOFF) for name, values in item.feed.items()}
    before, after = _stock(content, item.feed), _stock(content, nudged)
    return {name: float(np.abs(after[name].astype(np.float64) - values).max()) for name, values in before.items()}


def _compare_integers(item: Case, result: ConversionResult) -> None:
    quantized = result.models["quantized"]
    expected = Session(quantized, mode="reference").run(item.feed)
    fast = Session(quantized)
    _same(fast.run(item.feed), expected, "the fast simulator differs from the reference")
    for index in range(SAMPLES):
        alone = fast.run({name: values[index : index + 1] for name, values in item.feed.items()})
        for name, values in alone.items():
            rows = len(expected[name]) // SAMPLES
            part = expected[name][index * rows : (index + 1) * rows]
            assert values.tobytes() == part.tobytes(), f"sample {index} alone differs from the batch in {name}"
    _same(Session(result.files["bin"]).run(item.feed), expected, "the .bin differs from the reference")
    _same(_stock(to_bytes(to_standard(quantized)), item.feed), expected, "the standard export differs")


def _stock(content: bytes, feed: Feed) -> Feed:
    """Outputs of a model in ONNX Runtime as it is written, sample by sample: its optimiser joins nodes of float."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = [
        session.run(names, {name: aligned(values[index : index + 1]) for name, values in feed.items()})
        for index in range(SAMPLES)
    ]
    return {name: np.concatenate([np.atleast_1d(run[at]) for run in found]) for at, name in enumerate(names)}


def _same(actual: Feed, expected: Feed, message: str) -> None:
    assert list(actual) == list(expected), f"{message}: other outputs"
    for name, values in expected.items():
        assert actual[name].dtype == values.dtype, f"{message}: {name} is {actual[name].dtype}"
        assert actual[name].shape == values.shape, f"{message}: {name} is {actual[name].shape}, not {values.shape}"
        assert actual[name].tobytes() == values.tobytes(), f"{message} in {name}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.graphs", description=__doc__)
    parser.add_argument("--graphs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first graph")
    chosen = parser.parse_args(arguments)
    logging.disable()
    signal.signal(signal.SIGPROF, _hang)
    tally, begin = Tally(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for index in range(chosen.first, chosen.first + chosen.graphs):
            try:
                _one(chosen.seed, index, tally)
            except KeyboardInterrupt:
                break  # what was tried is reported
    for message, count in tally.refused.most_common():
        sys.stdout.write(f"{count} refused: {message}\n")
    sys.stdout.write(
        f"seed {chosen.seed}: graphs {chosen.first} to {chosen.first + tally.total() - 1}, "
        f"{tally.converted} converted, {tally.refused.total()} refused, {len(tally.faults)} faults, "
        f"{(time.process_time() - begin) / 60:.1f} CPU minutes\n"
    )
    return 1 if tally.faults else 0


def _one(seed: int, index: int, tally: Tally) -> None:
    folder = Path(tempfile.mkdtemp(prefix=f"graph-{seed}-{index}-"))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        verify(case(seed, index), folder)
        tally.converted += 1
    except PtqlabError as error:
        tally.refused[_kind(str(error))] += 1
    except Exception:  # noqa: BLE001 - whatever is raised beside PtqlabError is a finding
        signal.setitimer(signal.ITIMER_PROF, 0)
        tally.faults.append(folder.name)
        report = {"seed": seed, "index": index, "fault": traceback.format_exc(limit=-3)}
        sys.stdout.write(json.dumps({**report, "folder": str(folder)}) + "\n")
        sys.stdout.flush()
        return
    signal.setitimer(signal.ITIMER_PROF, 0)
    shutil.rmtree(folder)


def _kind(message: str) -> str:
    """A message without the names and figures of one graph."""
    return re.sub(r"\d+", "#", message.splitlines()[0])[:160]


def _hang(*_: object) -> None:
    raise AssertionError(f"no result after {SECONDS} s of CPU time")


if __name__ == "__main__":
    sys.exit(main())
