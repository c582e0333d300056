"""Estimated CPU times: every node outside the subgraphs, more work takes longer."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.compile import compile_model
from engine.ir import load_model
from engine.perf import estimate
from engine.perf.cpu import COPY_START_US, OPERATOR_START_US, _microseconds, layout_costs
from tests.golden_cases import BUNDLED


def test_all_that_the_cpu_runs_is_listed() -> None:
    result = estimate(compile_model(load_model(BUNDLED / "conversions" / "b2_gemm.quant.onnx"), "bernoulli2"))
    assert [cost.op_type for cost in result.cpu_costs] == ["Transpose", "HzQuantize", "HzDequantize", "Reshape"]
    assert result.cpu_us == pytest.approx(sum(cost.us for cost in result.cpu_costs))
    assert result.cpu_us > 2 * (COPY_START_US + OPERATOR_START_US)


def value(name: str, *shape: int) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.FLOAT))


@pytest.mark.parametrize(
    ("op_type", "inputs", "output", "macs"),
    [
        ("Conv", [(1, 8, 16, 16), (4, 8, 3, 3)], (1, 4, 16, 16), 4 * 16 * 16 * 8 * 9),
        ("ConvTranspose", [(1, 8, 4, 4), (8, 4, 2, 2)], (1, 4, 8, 8), 8 * 4 * 4 * 4 * 4),
        ("MatMul", [(2, 3, 64), (64, 5)], (2, 3, 5), 2 * 3 * 5 * 64),
        ("Gemm", [(3, 64), (64, 5)], (3, 5), 3 * 5 * 64),
        ("Relu", [(1, 8, 16, 16)], (1, 8, 16, 16), 0),
    ],
)
def test_products_cost_by_their_multiply_accumulates(
    op_type: str, inputs: list[tuple[int, ...]], output: tuple[int, ...], macs: int
) -> None:
    values = [value(f"x{index}", *shape) for index, shape in enumerate(inputs)]
    node = ir.node(op_type, values, outputs=[value("y", *output)])
    elements = max(int(np.prod(shape)) for shape in (*inputs, output))
    assert _microseconds(node) == pytest.approx(OPERATOR_START_US + (2 * elements + 0.5 * macs) / 1e3)


def test_a_function_costs_more_than_a_copy() -> None:
    def cost(op_type: str) -> float:
        return _microseconds(ir.node(op_type, [value("x", 1, 8, 16, 16)], outputs=[value("y", 1, 8, 16, 16)]))

    assert cost("Transpose") < cost("HzQuantize") <= cost("Add") < cost("Softmax")


def test_what_the_board_does_around_subgraphs_is_told_apart() -> None:
    compiled = compile_model(load_model(BUNDLED / "conversions" / "b2_gemm.quant.onnx"), "bernoulli2")
    found = {cost.name: cost.us for cost in layout_costs(compiled)}
    (schedule,) = compiled.schedules
    moved = {f"{schedule.name}_input_layout_convert", f"{schedule.name}_output_layout_convert"}
    assert set(found) == moved  # the input is quantised by the CPU first
    assert all(us > COPY_START_US for us in found.values())
