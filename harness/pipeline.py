"""From a trial's spec to its figures: the engine's stages, each result computed once and kept by content.

Two pure functions run in workers. :func:`prepare` does what all trials of one model on one march share: optimisation,
one pass over the calibration data for all their settings, the float model's outputs. :func:`run_trial` does the rest.
All they exchange is in the cache, so that either may run anywhere that sees the working directory.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache as memoize
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate import (
    ArrayData,
    CalibrationOptions,
    Kernels,
    Statistics,
    StatisticsOptions,
    calibration_tensors,
    collect,
    needs_data,
    run_calibration,
)
from engine.calibrate.compare import compare
from engine.calibrate.data import as_fed
from engine.calibrate.search import candidates_of
from engine.calibrate.sensitivity import sensitivities
from engine.compile import CompiledModel, compile_model
from engine.config import InputSpec
from engine.convert import node_rows
from engine.errors import ConfigError, PtqlabError
from engine.frontend import preprocess
from engine.frontend.onnx import load
from engine.ir import MARK_REASON, load_model, save_model, to_bytes
from engine.optimize import optimize
from engine.perf import estimate
from engine.place import NodeTypes, Placement, PlacementOptions, place
from engine.quantize import quantize
from engine.simulate import Session
from engine.terms import DataType, InputType
from harness.cache import Cache, Codec, content_key, load_arrays, save_arrays
from harness.cards import ModelCard, load_card
from harness.comparison import FidelityMeter
from harness.datasets import Dataset
from harness.engines import convert_with_hb_mapper, quantize_with_onnxruntime, run_float_file
from harness.float_baseline import float_outputs
from harness.metrics import Score
from harness.peak_memory import current_peak, reset_peak
from harness.strict_yaml import StrictModel, unknown
from harness.suites import Engine, Int16Kind, Int16Policy, Settings
from harness.trials import (
    Accuracy,
    Failure,
    Fidelity,
    Footprint,
    NodeRow,
    Outcome,
    Symptom,
    TrialResult,
    TrialSpec,
    TrialStore,
    UnmetRequest,
    card_key,
    delta_stderr,
)

Array = NDArray[Any]

IMAGES_AT_ONCE = 32
"""Evaluation images simulated and compared at a time."""

MODEL = Codec(".onnx", save_model, load_model)
STATISTICS = Codec(".npz", lambda statistics, path: statistics.save(path), Statistics.load)
ARRAYS = Codec(".npz", save_arrays, load_arrays)


SHARED_SETTINGS = ("input_type_rt", "calibration_seed")
"""Settings in which the trials of a preparation must not differ."""

SENSITIVITY_SAMPLES = 8
"""Calibration samples that nodes are ranked on for ``int16: {top_k: …}``."""


@dataclass(frozen=True)
class Bench:
    """Where a worker works.

    Attributes:
        workdir: holds ``cache`` and ``trials``.
        threads: CPU threads that a worker may use.
    """

    workdir: Path
    threads: int = 1

    @property
    def cache(self) -> Cache:
        """Results of stages."""
        return Cache(self.workdir / "cache")

    @property
    def store(self) -> TrialStore:
        """Finished trials."""
        return TrialStore(self.workdir / "trials")

    def journal(self, key: str) -> Path:
        """File that names the stage that task ``key`` is in; it outlives the worker should that die."""
        return self.workdir / "running" / key


class Preparation(StrictModel):
    """What all trials of one model, march and data share.

    Attributes:
        specs: the trials; they differ in their settings only, and not in :data:`SHARED_SETTINGS`.
    """

    specs: tuple[TrialSpec, ...]

    @property
    def key(self) -> str:
        """Names the task."""
        return content_key("preparation", self)

    @property
    def settings(self) -> list[Settings]:
        """Of all trials."""
        return [spec.settings for spec in self.specs]


class Prepared(StrictModel):
    """Result of :func:`prepare`.

    Attributes:
        statistics: key of the statistics that serve all the settings; None if :attr:`failure` is given.
        failure: why nothing could be prepared.
        seconds: wall time by stage, without stages that were there already.
    """

    statistics: str | None = None
    failure: Failure | None = None
    seconds: Mapping[str, float] = {}


class Evaluation(StrictModel):
    """Figures of one calibrated model; trials with equal thresholds share it."""

    accuracy: Accuracy
    fidelity: Fidelity
    footprint: Footprint | None
    nodes: tuple[NodeRow, ...]


def _save_evaluation(pair: tuple[Evaluation, Mapping[str, Array]], path: Path) -> None:
    evaluation, predictions = pair
    text = np.frombuffer(evaluation.model_dump_json().encode(), np.uint8)
    save_arrays({**predictions, "evaluation": text}, path)


def _load_evaluation(path: Path) -> tuple[Evaluation, Mapping[str, Array]]:
    arrays = load_arrays(path)
    return Evaluation.model_validate_json(arrays.pop("evaluation").tobytes()), arrays


EVALUATION = Codec(".npz", _save_evaluation, _load_evaluation)


def prepare(preparation: Preparation, bench: Bench) -> Prepared:
    """Compute what the trials share: optimised model, statistics for all settings, float outputs.

    Settings that the engine refuses are left out; their own trials report them.
    """
    clock = StageClock(bench.journal(preparation.key))
    network = Network(preparation.specs[0], bench, clock)
    try:
        key = network.collect_statistics(preparation.settings)
        network.float_outputs()
        prepared = Prepared(statistics=key, seconds=clock.seconds)
    except PtqlabError as error:
        prepared = Prepared(failure=clock.failure(error), seconds=clock.seconds)
    clock.close()
    return prepared


def run_trial(spec: TrialSpec, statistics: str, bench: Bench) -> TrialResult:
    """Run one trial and keep its outcome in the store.

    Args:
        spec: the trial.
        statistics: key from :func:`prepare`.
        bench: where to work.

    Returns:
        Figures, or the failure of a stage that refused.
    """
    clock = StageClock(bench.journal(spec.key))
    reset_peak()
    try:
        outcome = _outcome(spec, statistics, Network(spec, bench, clock))
    except PtqlabError as error:
        outcome = Outcome(TrialResult(spec=spec, failure=clock.failure(error), seconds=clock.seconds))
    bench.store.put(outcome)
    clock.close()
    return outcome.result


def _outcome(spec: TrialSpec, statistics: str, network: Network) -> Outcome:
    if spec.settings.engine is Engine.ONNXRUNTIME:
        evaluation, predictions = network.evaluate_onnxruntime()
        return _finished(spec, network, evaluation, predictions)
    settings = network.resolved(spec.settings, statistics)
    placement = network.place(settings)
    nodes = tuple(int16_requests(network.optimized, settings.int16))
    if spec.settings.engine is Engine.HB_MAPPER:
        evaluation, predictions = network.evaluate_hb_mapper(nodes)
        return _finished(spec, network, evaluation, predictions, int16_nodes=nodes)
    calibrated = network.calibrate(placement.model, spec.settings, statistics)
    evaluation, predictions = network.evaluate(calibrated)
    unmet = tuple(UnmetRequest(node=r.node, request=r.request, reason=r.reason) for r in placement.refusals)
    return _finished(spec, network, evaluation, predictions, int16_nodes=nodes, unmet=unmet)


def _finished(
    spec: TrialSpec, network: Network, evaluation: Evaluation, predictions: Mapping[str, Array], **more: Any
) -> Outcome:
    result = TrialResult(
        spec=spec,
        accuracy=evaluation.accuracy,
        fidelity=evaluation.fidelity,
        footprint=evaluation.footprint,
        seconds=network.clock.seconds,
        peak_memory_mb=current_peak() / 1e6,
        **more,
    )
    return Outcome(result, evaluation.nodes, predictions)


@dataclass
class StageClock:
    """Times stages and writes the name of the current one to a file, where it can be found if the process dies.

    Attributes:
        journal: the file.
        seconds: wall time by stage.
        current: name of the stage that runs, or ran last.
    """

    journal: Path
    seconds: dict[str, float] = field(default_factory=dict)
    current: str = "start"

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Stage ``name`` runs inside."""
        self.current = name
        self.journal.parent.mkdir(parents=True, exist_ok=True)
        self.journal.write_text(name, encoding="utf-8")
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def failure(self, error: PtqlabError) -> Failure:
        """``error`` as the failure of the current stage."""
        return Failure(stage=self.current, symptom=Symptom.REFUSED, message=" ".join(str(error).split()))

    def close(self) -> None:
        """Remove the file: the task has reported its outcome itself."""
        self.journal.unlink(missing_ok=True)


@dataclass(frozen=True)
class Network:
    """One model on one march with its data, and the engine's stages on it.

    Attributes:
        spec: a trial of it; of its settings, only :data:`SHARED_SETTINGS` are looked at.
        bench: where to work.
        clock: told of every stage that is computed.
    """

    spec: TrialSpec
    bench: Bench
    clock: StageClock

    @cached_property
    def card(self) -> ModelCard:
        """The model's card.

        Raises:
            ConfigError: it is not the one that the trial was planned with.
        """
        card = load_card(self.spec.model)
        if card_key(card) != self.spec.card:
            raise ConfigError(f"model {card.name}: its card was changed while the sweep ran; start the sweep again")
        return card

    @cached_property
    def input_spec(self) -> InputSpec:
        """The card's input, with the colour format at run time that the trial asks for."""
        spec, wanted = self.card.input_spec, self.spec.settings.input_type_rt
        if wanted is None or wanted is spec.type_rt:
            return spec
        layout = None if wanted is InputType.NV12 else spec.layout_rt or spec.layout_train
        return spec.model_copy(update={"type_rt": wanted, "layout_rt": layout})

    @cached_property
    def optimized(self) -> ir.Model:
        """The optimised float graph."""

        def compute() -> ir.Model:
            with self.clock.stage("load"):
                spec = self.input_spec
                shapes = {spec.name: spec.shape} if spec.shape is not None else None
                original = preprocess.insert(load(self.card.model_path(), shapes), [spec])
            with self.clock.stage("optimize"):
                return optimize(original, self.spec.march.value)

        return self.bench.cache.get(
            "optimized", self._key("optimized", self.spec.march, self.input_spec), MODEL, compute
        )

    def place(self, settings: Settings) -> Placement:
        """The optimised graph with placement and calibration nodes.

        Raises:
            ConfigError: the int16 policy names a node or type that the graph does not have.
        """
        with self.clock.stage("place"):
            requests = int16_requests(self.optimized, settings.int16)
            return place(self.optimized, self.spec.march.value, PlacementOptions(node_info=requests))

    def collect_statistics(self, settings: Sequence[Settings]) -> str:
        """One pass over the calibration data that serves all ``settings``; the key of its result."""
        tensors: dict[str, None] = {}
        servable: list[CalibrationOptions] = []
        for setting in settings:
            if setting.engine is not Engine.BUNDLED and setting.int16.kind is not Int16Kind.TOP_K:
                continue  # it calibrates on its own
            try:
                placed = self.place(_without_ranking(setting)).model
                candidates = candidates_of(calibration_options(setting))
                StatisticsOptions.covering(candidates)
            except PtqlabError:
                continue  # its own trial meets the same refusal and reports it
            tensors.update(dict.fromkeys(calibration_tensors(placed)))
            servable += candidates
        if not servable:
            return ""
        # Sums in the converter's order: a trial's thresholds are those of a conversion, bit for bit.
        options = StatisticsOptions.covering(servable, kernels=Kernels.PLAIN, threads=self.bench.threads)
        wanted = options.model_dump(mode="json", exclude={"batch", "threads"})
        key = self._key("statistics", *self._calibration_key, sorted(tensors), wanted)

        def compute() -> Statistics:
            with self.clock.stage("statistics"):
                return collect(self.optimized, tensors, self._calibration_data(), options)

        self.bench.cache.get("statistics", key, STATISTICS, compute)
        return key

    def calibrate(self, placed: ir.Model, settings: Settings, statistics: str) -> ir.Model:
        """``placed`` with thresholds."""
        options = calibration_options(settings)
        with self.clock.stage("calibrate"):
            found = STATISTICS.load(self.bench.cache.path("statistics", statistics, STATISTICS.suffix))
            return run_calibration(
                self.optimized,
                placed,
                self._calibration_data() if needs_data(options) or options.bias_correction else None,
                options,
                statistics=found,
                threads=self.bench.threads,
            )

    def resolved(self, settings: Settings, statistics: str) -> Settings:
        """``settings`` with the nodes that an int16 policy by sensitivity chooses."""
        if settings.int16.kind is not Int16Kind.TOP_K:
            return settings
        plain = _without_ranking(settings)

        def compute() -> dict[str, Array]:
            calibrated = self.calibrate(self.place(plain).model, plain, statistics)
            with self.clock.stage("sensitivity"):
                data = self._calibration_data()
                feed = data.read(0, min(SENSITIVITY_SAMPLES, len(data)))
                cosines = sensitivities(calibrated, feed, threads=self.bench.threads)
                return {"nodes": np.array(sorted(cosines, key=lambda name: cosines[name]), np.str_)}

        key = self._key("sensitivity", *self._calibration_key, plain)
        ranked = self.bench.cache.get("sensitivity", key, ARRAYS, compute)["nodes"]
        chosen = Int16Policy(kind=Int16Kind.NODES, names=tuple(str(name) for name in ranked[: settings.int16.count]))
        return settings.model_copy(update={"int16": chosen})

    def float_outputs(self) -> list[Array]:
        """Outputs of the float model on the evaluation images, one array per output."""

        def compute() -> dict[str, Array]:
            with self.clock.stage("float"):
                outputs = float_outputs(self.card, self.spec.evaluation_samples)
                return {str(index): output for index, output in enumerate(outputs)}

        key = self._key("float", self.spec.evaluation_samples)
        arrays = self.bench.cache.get("float", key, ARRAYS, compute)
        return [arrays[str(index)] for index in range(len(arrays))]

    def evaluate(self, calibrated: ir.Model) -> tuple[Evaluation, Mapping[str, Array]]:
        """Figures and predictions of the integer model that ``calibrated`` becomes."""
        digest = hashlib.sha256(to_bytes(calibrated)).hexdigest()
        key = self._key("evaluation", self.spec.march, self.spec.evaluation_samples, digest)
        return self.bench.cache.get("evaluation", key, EVALUATION, lambda: self._evaluate(calibrated))

    def _evaluate(self, calibrated: ir.Model) -> tuple[Evaluation, Mapping[str, Array]]:
        march = self.spec.march.value
        with self.clock.stage("quantize"):
            quantized = quantize(calibrated, march)
        with self.clock.stage("compile"):
            compiled = compile_model(quantized, march, name=self.spec.model)
            footprint = footprint_of(compiled)
        with self.clock.stage("compare"):
            nodes = self._nodes(compiled, calibrated)
        return self._scored(self._simulator(quantized), footprint, nodes)

    def evaluate_onnxruntime(self) -> tuple[Evaluation, Mapping[str, Array]]:
        """Figures and predictions of the model that ONNX Runtime quantises; it has no footprint on a BPU."""
        with tempfile.TemporaryDirectory() as folder:
            with self.clock.stage("quantize"):
                images, settings = self._calibration_images(), self.spec.settings
                path = quantize_with_onnxruntime(self.card, settings, images, Path(folder) / "quantized.onnx")
            return self._scored(lambda part: run_float_file(path, self.card, part, self.bench.threads), None, ())

    def evaluate_hb_mapper(self, int16_nodes: tuple[str, ...]) -> tuple[Evaluation, Mapping[str, Array]]:
        """Figures and predictions of the vendor's quantised model on our simulator and compiler."""
        folder = self.bench.workdir / "hb_mapper" / self.spec.key
        shutil.rmtree(folder, ignore_errors=True)
        with self.clock.stage("hb_mapper"):
            images = self.card.training_images(self._calibration_images())
            path = convert_with_hb_mapper(self.card, self.spec, int16_nodes, images, folder)
            quantized = load_model(path)
        with self.clock.stage("compile"):
            footprint = footprint_of(compile_model(quantized, self.spec.march.value, name=self.spec.model))
        return self._scored(self._simulator(quantized), footprint, ())

    def _simulator(self, quantized: ir.Model) -> Callable[[Array], list[Array]]:
        """Maps images, as the data set gives them, to the outputs of the integer model."""
        session = Session(quantized, threads=self.bench.threads)

        def run(images: Array) -> list[Array]:
            feed = integer_feed(session, self.card.training_images(images), self.input_spec)
            return list(session.run(feed).values())

        return run

    def _scored(
        self, run: Callable[[Array], list[Array]], footprint: Footprint | None, nodes: tuple[NodeRow, ...]
    ) -> tuple[Evaluation, Mapping[str, Array]]:
        """Figures and predictions of a model that ``run`` runs."""
        floats = self.float_outputs()
        with self.clock.stage("simulate"):
            outputs, meter = self._run(run, floats)
        with self.clock.stage("score"):
            targets = self._split(self.card.dataset.evaluation.split).targets(0, self.spec.evaluation_samples)
            metric = self.card.open_metric()
            ours, reference = metric.score(outputs, targets), metric.score(floats, targets)
        evaluation = Evaluation(
            accuracy=_accuracy(metric.name, ours, reference),
            fidelity=_fidelity(meter),
            footprint=footprint,
            nodes=nodes,
        )
        predictions = {"per_sample": ours.per_sample, "per_sample_cosine": meter.cosines.mean(axis=1)}
        if meter.agreement is not None and outputs[0].size == len(outputs[0]) * outputs[0].shape[1]:
            predictions["classes"] = outputs[0].argmax(axis=1).reshape(-1)
        return evaluation, predictions

    def _run(self, run: Callable[[Array], list[Array]], floats: Sequence[Array]) -> tuple[list[Array], FidelityMeter]:
        """Outputs on the evaluation images, compared with the float model's on the way."""
        split = self._split(self.card.dataset.evaluation.split)
        meter = FidelityMeter()
        collected: list[list[Array]] = []
        for start in range(0, self.spec.evaluation_samples, IMAGES_AT_ONCE):
            stop = min(start + IMAGES_AT_ONCE, self.spec.evaluation_samples)
            outputs = run(split.images(start, stop))
            meter.update(outputs, [output[start:stop] for output in floats])
            collected.append(outputs)
        return [np.concatenate(parts) for parts in zip(*collected, strict=True)], meter

    def _nodes(self, compiled: CompiledModel, calibrated: ir.Model) -> tuple[NodeRow, ...]:
        """The node table, with cosines on the first calibration sample."""
        feed = self._calibration_data().read(0, 1)
        similar = compare(self.optimized, calibrated, feed, threads=self.bench.threads).nodes
        producers = {str(value.name): str(node.name) for node in self.optimized.graph for value in node.outputs}
        cosines = {tensor: similar[node] for tensor, node in producers.items() if node in similar}
        reasons = {str(node.name): node.metadata_props.get(MARK_REASON, "") for node in calibrated.graph}
        return tuple(
            NodeRow(
                node=row.node,
                on=row.on,
                reason=reasons.get(row.node, ""),
                subgraph=row.subgraph,
                type=row.type,
                data_type=row.data_type,
                threshold=row.threshold,
                cosine=row.cosine,
            )
            for row in node_rows(compiled, calibrated, cosines)
        )

    def _calibration_data(self) -> ArrayData:
        return ArrayData(
            {self.input_spec.name: self.card.training_images(self._calibration_images())}, [self.input_spec]
        )

    def _calibration_images(self) -> Array:
        """As the data set gives them."""
        split = self._split(self.card.dataset.calibration.split)
        count, seed = self.spec.calibration_samples, self.spec.settings.calibration_seed
        if seed is None:
            images: Array = split.images(0, count)
            return images
        drawn = np.sort(np.random.RandomState(seed).choice(self.card.dataset.calibration.count, count, replace=False))
        return np.concatenate([split.images(index, index + 1) for index in drawn.tolist()])

    @property
    def _calibration_key(self) -> tuple[object, ...]:
        """What determines the calibration data and the graph that they run through."""
        spec = self.spec
        return (spec.march, self.input_spec, spec.calibration_samples, spec.settings.calibration_seed)

    def _split(self, name: str) -> Any:
        return _open_dataset(self.card.name, self.spec.data).split(name)

    def _key(self, *parts: object) -> str:
        return content_key(self.spec.card, self.spec.data, self.spec.engine, *parts)


@memoize
def _open_dataset(model: str, digest: str) -> Dataset:
    """The data set of a card, opened once per process.

    Raises:
        ConfigError: the data are not those that the trial was planned with.
    """
    dataset = load_card(model).open_dataset()
    if dataset.digest != digest:
        raise ConfigError(f"model {model}: its data set was changed while the sweep ran; start the sweep again")
    return dataset


def calibration_options(settings: Settings) -> CalibrationOptions:
    """The calibration part of a trial's settings."""
    return CalibrationOptions(
        calibration_type=settings.calibration_type,
        max_percentile=settings.max_percentile,
        per_channel=settings.per_channel,
        asymmetric=settings.asymmetric,
        bias_correction=settings.bias_correction,
    )


def _without_ranking(settings: Settings) -> Settings:
    """``settings``, with no int16 where the nodes are yet to be chosen by their sensitivity."""
    if settings.int16.kind is not Int16Kind.TOP_K:
        return settings
    return settings.model_copy(update={"int16": Int16Policy()})


def int16_requests(optimized: ir.Model, policy: Int16Policy) -> dict[str, NodeTypes]:
    """``node_info`` by node for an int16 policy: int16 for all inputs and the output.

    Raises:
        ConfigError: the policy names a node or operator type that the graph does not have.
    """
    names = [str(node.name) for node in optimized.graph]
    types = {str(node.name): node.op_type for node in optimized.graph}
    match policy.kind:
        case Int16Kind.NONE:
            chosen: list[str] = []
        case Int16Kind.ALL:
            chosen = names
        case Int16Kind.NODES:
            _check_known("int16 node", policy.names, names)
            chosen = list(policy.names)
        case Int16Kind.TYPES:
            _check_known("int16 operator type", policy.names, set(types.values()))
            chosen = [name for name in names if types[name] in policy.names]
        case Int16Kind.TOP_K:
            raise ConfigError(f"int16 policy {policy.label}: its nodes have not been chosen")
    int16 = DataType.INT16.value
    return {name: NodeTypes(input_type=int16, output_type=int16) for name in chosen}


def _check_known(kind: str, names: Sequence[str], allowed: Sequence[str] | set[str]) -> None:
    for name in names:
        if name not in allowed:
            raise unknown(kind, name, allowed)


def integer_feed(session: Session, images: Array, spec: InputSpec) -> dict[str, Array]:
    """Images in the training format as the quantised model's input: run-time colours minus 128, its type and layout.

    Args:
        session: of the quantised model.
        images: uint8, in ``type_train`` and ``layout_train``.
        spec: the input.
    """
    (wanted,) = session.inputs
    fed = as_fed(images, spec)
    if fed.shape[1:] != wanted.shape[1:] and fed.transpose(0, 2, 3, 1).shape[1:] == wanted.shape[1:]:
        fed = fed.transpose(0, 2, 3, 1)  # nv12 inputs are channels-last in the quantised stage (CALIBRATION.md 5)
    if np.issubdtype(wanted.dtype, np.integer):
        limits = np.iinfo(wanted.dtype)
        fed = np.clip(np.rint(fed), limits.min, limits.max)
    return {wanted.name: np.ascontiguousarray(fed, wanted.dtype)}


def footprint_of(compiled: CompiledModel) -> Footprint:
    """Estimated cost of a compiled model."""
    performance = estimate(compiled)
    return Footprint(
        latency_ms=performance.latency_us / 1e3,
        ddr_mb=performance.ddr_bytes / 1e6,
        cpu_nodes=len(compiled.cpu_nodes),
        subgraphs=len(performance.subgraphs),
    )


def _accuracy(metric: str, ours: Score, floats: Score) -> Accuracy:
    return Accuracy(
        metric=metric,
        float_value=floats.value,
        value=ours.value,
        stderr=ours.stderr,
        delta_stderr=delta_stderr(ours.per_sample, floats.per_sample),
    )


def _fidelity(meter: FidelityMeter) -> Fidelity:
    return Fidelity(
        cosine=float(meter.cosines.mean()),
        cosine_min=float(meter.cosines.min()),
        sqnr_db=meter.sqnr_db,
        max_abs=meter.peak,
        agreement=meter.agreement,
    )
