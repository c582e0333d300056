"""Readers of quantised models, of the harness's files, of statistics and of what commands are fed with."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import yaml

from engine.compile import load_bin
from engine.errors import PtqlabError
from engine.perf import estimate
from engine.perf.timeline import intervals, timeline
from engine.simulate import Session
from tests.conftest import ROOT
from tests.fuzz.loader import Loader

NUMBERS = (b"0", b"-1", b"1e999", b"nan", b"4294967295", b"2147483648", b"99999999999999999999", b"0.5", b"true")
_YAML_WORDS = (
    *NUMBERS,
    b"!!python/object:os.system",
    b"&a [*a]",
    b"*a",
    b"<<: *a",
    b"null",
    b"{}",
    b"[]",
    b"\n  ",
    b"../../etc/passwd",
)
_JSON_WORDS = (*NUMBERS, b"null", b"{}", b"[]", b'""', b'"x"', b"NaN", b"Infinity", b"-Infinity", b"[" * 200)


def _stages() -> list[tuple[bytes, bytes]]:
    import onnxruntime  # here: it reads files of the system, before those are watched

    from engine.ir import to_bytes
    from tests.engine.frontend.networks import convolution
    from tests.properties.stages import Stages  # imports the whole engine

    assert onnxruntime.__version__
    calibration = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32)
    found = [Stages(convolution(), calibration, march) for march in ("bayes-e", "bernoulli2")]
    return [(to_bytes(stages.quantized), stages.compiled.to_bytes()) for stages in found]


def _quantized(content: bytes, folder: Path) -> object:
    """Open a session and run one sample of what it says that it takes."""
    path = folder / "q.onnx"
    path.write_bytes(content)
    session = Session(path, threads=1)
    small = all(int(np.prod(info.shape, dtype=object)) < 1 << 20 for info in session.inputs)
    feed = {info.name: np.zeros(info.shape, info.dtype) for info in session.inputs} if small else None
    return session.run(feed) if feed is not None else None


def _performance(content: bytes, folder: Path) -> object:
    from tests.fuzz.loaders import sealed

    path = folder / "m.bin"
    path.write_bytes(sealed(content))
    performance = estimate(load_bin(path))
    return [intervals(timeline(subgraph)) for subgraph in performance.subgraphs]


def _suite(content: bytes, folder: Path) -> object:
    from harness.suites.expansion import ModelFacts, expand
    from harness.suites.suite import open_suite

    (folder / "s.yaml").write_bytes(content)
    facts = {name: ModelFacts() for name in ("mnist_lenet", "mnist_resnet8")}
    return expand(open_suite(str(folder / "s.yaml")), facts)


def _card(content: bytes, folder: Path) -> object:
    from harness.files.strict_yaml import load_typed
    from harness.zoo.cards import ModelCard

    (folder / "c.yaml").write_bytes(content)
    card = load_typed(folder / "c.yaml", ModelCard)
    return card.input_specs, card.converter_yaml()


def _dataset_card(content: bytes, folder: Path) -> object:
    from harness.datasets.registry import DatasetCard
    from harness.files.strict_yaml import load_typed

    (folder / "d.yaml").write_bytes(content)
    return load_typed(folder / "d.yaml", DatasetCard)


def _labels(content: bytes, folder: Path) -> object:
    from harness.datasets.labelled_folder import read_labels

    (folder / "a.png").write_bytes(b"")
    (folder / "labels.csv").write_bytes(content)
    return read_labels(folder, 10)


def _baseline(content: bytes, folder: Path) -> object:
    from harness.gates.baseline import read_baseline

    (folder / "b.json").write_bytes(content)
    return read_baseline(folder / "b.json")


def _small_baseline() -> bytes:
    """The bundled one with a trial alone."""
    content = json.loads((ROOT / "reports" / "baselines" / "smoke.json").read_bytes())
    first, *_ = content["trials"]
    return json.dumps({**content, "trials": {first: content["trials"][first]}}).encode()


def _nights(content: bytes, folder: Path) -> object:
    from harness.gates.nights import NIGHTS_FILE, read_nights

    (folder / NIGHTS_FILE).write_bytes(content)
    return read_nights(folder)


def _statistics(content: bytes, folder: Path) -> object:
    from engine.calibrate import CalibrationOptions
    from engine.calibrate.statistics.statistics import Statistics

    (folder / "s.npz").write_bytes(content)
    found = Statistics.load(folder / "s.npz")
    return [tensor.thresholds(CalibrationOptions()) for tensor in found.tensors.values()]


def _statistics_seed() -> bytes:
    import tempfile

    from engine.calibrate import StatisticsOptions, calibration_tensors, collect
    from engine.calibrate.data.sources import as_data
    from tests.engine.frontend.networks import convolution
    from tests.properties.stages import Stages

    calibration = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32)
    stages = Stages(convolution(), calibration, "bayes-e")
    tensors = calibration_tensors(stages.placed)
    statistics = collect(stages.optimized, tensors, as_data({"x": calibration}), StatisticsOptions())
    with tempfile.TemporaryDirectory() as folder:
        return statistics.save(Path(folder) / "s.npz").read_bytes()


def _cache(content: bytes, folder: Path) -> object:
    """A damaged result of a stage is computed anew."""
    from harness.files.cache import Cache, Codec, load_arrays, save_arrays

    codec = Codec(".npz", save_arrays, load_arrays)
    cache, right = Cache(folder), {"a": np.arange(3)}
    cache.get("stage", "key", codec, lambda: right)
    cache.path("stage", "key", ".npz").write_bytes(content)
    found = cache.get("stage", "key", codec, lambda: right)
    if list(found) != ["a"] or not np.array_equal(found["a"], right["a"]):
        raise AssertionError(f"a damaged file was taken: {found}")
    return found


def _npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, a=np.arange(3))
    return stream.getvalue()


def _image(content: bytes, folder: Path) -> object:
    from engine.untrusted import opened_image

    (folder / "a.img").write_bytes(content)
    try:
        with opened_image(folder / "a.img") as image:
            return np.asarray(image.convert("RGB").resize((8, 8)))
    except ValueError as error:
        raise PtqlabError(str(error)) from error


def _images() -> tuple[bytes, ...]:
    from PIL import Image

    pixels = Image.fromarray(np.random.default_rng(0).integers(0, 256, (16, 16, 3)).astype(np.uint8))
    files = []
    for kind in ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM"):
        stream = io.BytesIO()
        pixels.save(stream, kind)
        files.append(stream.getvalue())
    return tuple(files)


def _dump(content: bytes, folder: Path) -> object:
    """As ``vec_diff`` reads dumps, by their suffix."""
    from engine.cli.vendor.vec_diff import read_dump

    suffix = {b"\x93N": ".npy", b"PK": ".npy"}.get(content[:2], ".txt")
    (folder / f"d{suffix}").write_bytes(content)
    return read_dump(folder / f"d{suffix}", "float32")


def _dumps() -> tuple[bytes, ...]:
    stream = io.BytesIO()
    np.save(stream, np.zeros((3, 8), np.float32))
    return stream.getvalue(), _npz(), b"1.5, 2.5 3 nan\n"


def _bundled(pattern: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted(ROOT.glob(pattern)) if path.stat().st_size < 1 << 16)


_NIGHT = (
    b'{"sweep": "1", "started_at": "2026-11-22T00:00:00", "version": 1, "verdict": "PASS", "engine": "e", '
    b'"anchor": {"cosine.output": {"t": 0.5}}, '
    b'"trials": {"t": {"figures": {"accuracy": 0.5}, "predictions": "0", "p": 0.1}}}\n'
)
_SUITE = {
    "name": "s",
    "version": 1,
    "description": "d",
    "models": ["mnist_lenet"],
    "march": "bayes-e",
    "sweep": {"calibration_type": ["max", "kl"], "int16": ["none", {"top_k": 2}]},
    "trials": [{"asymmetric": True}],
    "gates": {"min_ratio": 0.9},
}

MORE = (
    Loader(
        "quantized",
        lambda: tuple(model for model, _ in _stages()),
        (b"HzQuantize", b"HzDequantize", *NUMBERS),
        _quantized,
    ),
    Loader(
        "performance", lambda: tuple(binary for _, binary in _stages()), (b"\x00", b"SCHD", *_JSON_WORDS), _performance
    ),
    Loader(
        "suite",
        lambda: (*_bundled("suites/smoke.yaml"), yaml.safe_dump(_SUITE).encode()),
        _YAML_WORDS,
        _suite,
    ),
    Loader("card", lambda: _bundled("suites/zoo/*.yaml"), _YAML_WORDS, _card),
    Loader("dataset", lambda: _bundled("datasets/*.yaml"), _YAML_WORDS, _dataset_card),
    Loader(
        "labels",
        lambda: (b"file,label\na.png,3\na.png,9\n",),
        (b'"', b",", b"\n", b"../a.png", b"\x00", *NUMBERS),
        _labels,
    ),
    Loader("baseline", lambda: (_small_baseline(),), _JSON_WORDS, _baseline),
    Loader("nights", lambda: (_NIGHT,), _JSON_WORDS, _nights),
    Loader("statistics", lambda: (_statistics_seed(),), (b"'|O'", b"(99999999999,)", b"PK", b"\x00\x00"), _statistics),
    Loader("cache", lambda: (_npz(),), (b"'|O'", b"(99999999999,)", b"PK", b"\x00\x00"), _cache),
    Loader("image", _images, (b"IHDR", b"IDAT", b"PLTE", b"\xff\xd8", b"\xff\xff\xff\x7f", b"\x00\x00"), _image),
    Loader("dump", _dumps, (b"'|O'", b"'<U9'", b"(99999999999,)", b"True", b"nan", b"1e999", b"-1"), _dump),
)
