"""The stages that place nodes: what is asked for, nodes that run as several, devices, and what cannot be converted."""

from __future__ import annotations

import onnx_ir as ir

from engine.calibrate.methods.thresholds import calibration_tensors
from engine.chips import load_chip
from engine.convert.items import EQUALIZED, OPTIMIZED, PLACED, PLACEMENT, REQUESTS
from engine.convert.refusals import refuse_bare_rectifiers, refuse_cpu_operators, refuse_unknown_shapes
from engine.convert.requests import placement_options
from engine.convert.runner import Stage, Work
from engine.errors import UnsupportedError
from engine.facts.devices import on_bpu
from engine.frontend.outputs import with_outputs
from engine.ir import CALIBRATION_OP
from engine.ops.core.reasons import reason_of, sentence_of
from engine.ops.foreign.composite import PREPROCESS
from engine.place import decomposed, place
from engine.place.hints import hint_for


def refuse_without_bpu(placed: ir.Model) -> None:
    """Refuse a model none of whose own nodes runs on the BPU (reference/operators.md, "Model-level errors").

    Raises:
        UnsupportedError: there is none.
    """
    own = [node for node in placed.graph if node.op_type not in (PREPROCESS, CALIBRATION_OP)]
    if not any(map(on_bpu, own)):
        reasons = "; ".join(map(_reason_and_remedy, own[:_MOST_REASONS]))
        raise UnsupportedError(
            "There is no node can execute on BPU in this model, please make sure the model has at least one "
            f"(Conv/Gemm/MatMul) node. On the CPU are: {reasons}{' …' if len(own) > _MOST_REASONS else ''}"
        )


def _reason_and_remedy(node: ir.Node) -> str:
    reason = reason_of(node)
    remedy = "" if reason is None else f" ({hint_for(node.op_type, reason)})"
    return f"{node.name} ({node.op_type}): {sentence_of(node)}{remedy}"


_MOST_REASONS = 5
"""How many CPU nodes a message names."""


def _request(work: Work) -> None:
    refuse_unknown_shapes(work[EQUALIZED])
    work.give(REQUESTS, placement_options(work.config, work[EQUALIZED]))


def _decompose(work: Work) -> None:
    march, requests = work.config.march.value, work[REQUESTS]
    optimized = decomposed(work[EQUALIZED], march, requests)
    if work.config.model_parameters.layer_out_dump:
        optimized = with_outputs(optimized, calibration_tensors(place(optimized, march, requests).model))
    work.give(OPTIMIZED, optimized)


def _place(work: Work) -> None:
    work.give(PLACED, place(work[OPTIMIZED], work.config.march.value, work[REQUESTS]))


def _admit(work: Work) -> None:
    _admit_draft(work)
    refuse_bare_rectifiers(work[PLACED].model, load_chip(work.config.march.value))
    refuse_cpu_operators(work[PLACED].model)


def _admit_draft(work: Work) -> None:
    refuse_without_bpu(work[PLACED].model)
    work.give(PLACEMENT, work[PLACED])


_MARCH = "model_parameters.march"

REQUEST = Stage(
    name="request",
    run=_request,
    reads=(EQUALIZED,),
    gives=(REQUESTS,),
    parameters=(
        _MARCH,
        "model_parameters.node_info",
        "model_parameters.set_node_data_type",
        "model_parameters.compatibility",
        "calibration_parameters.run_on_cpu",
        "calibration_parameters.run_on_bpu",
        "calibration_parameters.optimization:set_*",
        "calibration_parameters.optimization:run_*",
        "calibration_parameters.calibration_type",
    ),
)
DECOMPOSE = Stage(
    name="decompose",
    run=_decompose,
    reads=(EQUALIZED, REQUESTS),
    gives=(OPTIMIZED,),
    parameters=(_MARCH, "model_parameters.layer_out_dump"),
)
PLACE = Stage(name="place", run=_place, reads=(OPTIMIZED, REQUESTS), gives=(PLACED,), parameters=(_MARCH,))
ADMIT = Stage(name="admit", run=_admit, reads=(PLACED,), gives=(PLACEMENT,), parameters=(_MARCH,))
ADMIT_DRAFT = Stage(name="admit", run=_admit_draft, reads=(PLACED,), gives=(PLACEMENT,))
"""For a check without data: CPU operators that the board's runtime does not have are left to whoever shows it."""
