"""The stages that say what a compiled model costs and where its nodes run."""

from __future__ import annotations

from engine.convert.items import CALIBRATED, COMPARISON, COMPILED, OPTIMIZED, ORIGINAL
from engine.convert.runner import Stage, Work
from engine.convert.tables import cosines, node_rows
from engine.convert.unmeasured import mark_unmeasured
from engine.ops.core.reasons import sentence_of
from engine.perf import estimate
from harness.backends.items import BOARD, FOOTPRINT, NODES
from harness.trials.figures import Footprint, TrialNode


def _measure(work: Work) -> None:
    compiled = work[COMPILED]
    performance = estimate(compiled, work[BOARD])
    footprint = Footprint(
        latency_ms=performance.latency_us / 1e3,
        cpu_ms=performance.cpu_us / 1e3,
        ddr_mb=performance.ddr_bytes / 1e6,
        cpu_nodes=len(compiled.cpu_nodes),
        subgraphs=len(performance.subgraphs),
        cpu_measured_ms=performance.cpu_measured_us / 1e3,
    )
    work.give(FOOTPRINT, footprint)


def _tabulate(work: Work) -> None:
    calibrated = work[CALIBRATED]
    reasons = {str(node.name): sentence_of(node) for node in calibrated.graph}
    compiled = work[COMPILED]
    rows = node_rows(compiled, calibrated, cosines(work[OPTIMIZED], work[COMPARISON]))
    rows = mark_unmeasured(rows, work[ORIGINAL], compiled.march)
    layers = {layer.name: layer for layer in estimate(compiled).layers}
    places = {row.node: place for place, row in enumerate(rows)}
    found = []
    for row in rows:
        layer = layers.get(row.node)
        found.append(
            TrialNode(
                node=row.node,
                on=row.on,
                reason=reasons.get(row.node, ""),
                subgraph=row.subgraph,
                type=row.type,
                data_type=row.data_type,
                threshold=row.threshold,
                cosine=row.cosine,
                time_us=None if layer is None else round(layer.latency_us, 3),
                ddr_bytes=None if layer is None else layer.loaded_bytes + layer.stored_bytes,
                reads=" ".join(str(places[name]) for name in row.reads),
                doubt=row.doubt,
            )
        )
    work.give(NODES, tuple(found))


MEASURE_FOOTPRINT = Stage(name="footprint", run=_measure, reads=(COMPILED, BOARD), gives=(FOOTPRINT,))
TABULATE = Stage(
    name="nodes", run=_tabulate, reads=(COMPILED, CALIBRATED, OPTIMIZED, ORIGINAL, COMPARISON), gives=(NODES,)
)
