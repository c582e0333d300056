"""One model on one march with its data, and the engine's stages on it; results are computed once, kept by content."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    HistogramRule,
    Kernels,
    Statistics,
    StatisticsOptions,
    calibration_tensors,
    collect_into,
    needs_data,
    run_calibration,
    to_signed,
)
from engine.calibrate.forward.compare import compare
from engine.calibrate.methods.search import candidates_of
from engine.calibrate.methods.sensitivity import sensitivities
from engine.compile import CompiledModel, compile_model
from engine.config import InputSpec
from engine.convert import node_rows
from engine.errors import ConfigError, PtqlabError
from engine.frontend import preprocess
from engine.frontend.onnx import load_onnx
from engine.ir import load_model, save_model, to_bytes
from engine.ops.core.reasons import sentence_of
from engine.optimize import optimize
from engine.place import Placement, PlacementOptions, place
from engine.quantize import quantize
from engine.simulate import Session
from engine.terms import InputType
from harness.backends.foreign import convert_with_hb_mapper, quantize_with_onnxruntime, run_float_file
from harness.cache import Codec, content_key, load_arrays, locked, save_arrays
from harness.datasets import Dataset
from harness.suites.settings import Engine, Int16Kind, Int16Policy, Settings
from harness.trials.scoring import (
    EVALUATION,
    Evaluation,
    fidelity_of,
    footprint_of,
    integer_feed,
    paired_accuracy,
    predictions_of,
    run_compared,
)
from harness.trials.stage_options import calibration_options, int16_requests, without_ranking
from harness.trials.tasks import Bench, StageClock
from harness.trials.trial import (
    Footprint,
    NodeRow,
    TrialSpec,
    card_key,
)
from harness.zoo.cards import ModelCard, load_card
from harness.zoo.float_baseline import float_outputs

Array = NDArray[Any]

MODEL = Codec(".onnx", save_model, load_model)
ARRAYS = Codec(".npz", save_arrays, load_arrays)

SENSITIVITY_SAMPLES = 8
"""Calibration samples that nodes are ranked on for ``int16: {top_k: …}``."""


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
                original = preprocess.insert(load_onnx(self.card.model_path(), shapes), [spec])
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
                placed = self.place(without_ranking(setting)).model
                candidates = candidates_of(calibration_options(setting))
                StatisticsOptions.covering(candidates)
            except PtqlabError:
                continue  # its own trial meets the same refusal and reports it
            tensors.update(dict.fromkeys(calibration_tensors(placed)))
            servable += candidates
        if not servable:
            return ""
        # Sums in the converter's order: a trial's thresholds are those of a conversion, bit for bit.
        independent = self.spec.settings.order_independent_kl
        rule = HistogramRule.ORDER_INDEPENDENT if independent else HistogramRule.REFERENCE
        options = StatisticsOptions.covering(servable, rule, kernels=Kernels.PLAIN, threads=self.bench.threads)
        wanted = options.model_dump(mode="json", exclude={"batch", "threads"})
        names = sorted(tensors)
        key = self._key("statistics", *self._calibration_key, names, wanted)
        path = self._statistics_path(key)
        with locked(path):
            if not path.is_file():
                with self.clock.stage("statistics"):
                    collect_into(path, self.optimized, names, self._calibration_data(), options)
        return key

    def calibrate(self, placed: ir.Model, settings: Settings, statistics: str) -> ir.Model:
        """``placed`` with thresholds."""
        options = calibration_options(settings)
        with self.clock.stage("calibrate"):
            found = Statistics.load(self._statistics_path(statistics))
            return run_calibration(
                self.optimized,
                placed,
                self._calibration_data() if needs_data(options) else None,
                options,
                statistics=found,
                threads=self.bench.threads,
            )

    def resolved(self, settings: Settings, statistics: str) -> Settings:
        """``settings`` with the nodes that an int16 policy by sensitivity chooses."""
        if settings.int16.kind is not Int16Kind.TOP_K:
            return settings
        plain = without_ranking(settings)

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
            quantized = quantize(to_signed(calibrated), march)
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
        floats, count = self.float_outputs(), self.spec.evaluation_samples
        split = self._split(self.card.dataset.evaluation.split)
        with self.clock.stage("simulate"):
            outputs, meter = run_compared(run, split, count, floats)
        with self.clock.stage("score"):
            accuracy, per_sample = paired_accuracy(self.card.open_metric(), outputs, floats, split.targets(0, count))
        evaluation = Evaluation(accuracy=accuracy, fidelity=fidelity_of(meter), footprint=footprint, nodes=nodes)
        return evaluation, predictions_of(outputs, per_sample, meter)

    def _nodes(self, compiled: CompiledModel, calibrated: ir.Model) -> tuple[NodeRow, ...]:
        """The node table, with cosines on the first calibration sample."""
        feed = self._calibration_data().read(0, 1)
        similar = compare(self.optimized, calibrated, feed, threads=self.bench.threads).nodes
        producers = {str(value.name): str(node.name) for node in self.optimized.graph for value in node.outputs}
        cosines = {tensor: similar[node] for tensor, node in producers.items() if node in similar}
        reasons = {str(node.name): sentence_of(node) for node in calibrated.graph}
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

    def _statistics_path(self, key: str) -> Path:
        return self.bench.cache.path("statistics", key, ".npz")

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
