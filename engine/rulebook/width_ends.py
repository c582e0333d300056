"""The types of results that nothing quantised reads."""

from __future__ import annotations

import onnx_ir as ir

from engine.facts.devices import is_quantised, on_bpu
from engine.facts.moves import (
    ends_behind,
    is_computed_with,
    is_exact_sum,
    is_passive,
    keeps_scale,
    moved_from,
    reaches_output,
)
from engine.ops.registry import rule_for
from engine.rulebook.calibrated import INT8, INT16
from engine.rulebook.rule import BAYES, Pattern, Rule, Table
from engine.rulebook.width_sites import (
    Chained,
    Width,
    is_table,
    moves_all_on_bpu,
    moves_on_bpu,
    readers_of_result,
)


def _is_moved_from_other(site: Chained) -> bool:
    """Whether the last node moves what the BPU computes with as well, or what it does not give."""
    if not keeps_scale(site.chain[-1]):
        return False
    source = moved_from(site.result, moves_on_bpu)
    producer = source.producer()
    return producer is None or not on_bpu(producer) or _is_computed_with(source)


def _is_computed_with(value: ir.Value) -> bool:
    """Whether a quantised node reads ``value``, or what it is moved to, that does more than move it."""
    return is_computed_with(value, _has_operator, lambda node: is_passive(node) or keeps_scale(node))


def _has_operator(node: ir.Node) -> bool:
    return is_quantised(node) and rule_for(node) is not None


def _is_moved_sum(site: Chained) -> bool:
    head = site.heads.get(moved_from(site.result, moves_all_on_bpu))
    before = None if head is None else rule_for(head)
    return is_exact_sum(site.result) or (before is not None and before.int32_output)


def _is_asked_int8(site: Chained) -> bool:
    return any(value in site.asked_int8 for node in site.chain for value in (*node.inputs, *node.outputs))


def _is_asked_on_bpu(site: Chained) -> bool:
    giver = moved_from(site.result, moves_on_bpu).producer()
    return any(str(node.name) in site.asked_on_bpu for node in (*site.chain, *(() if giver is None else (giver,))))


def _is_of_table(site: Chained) -> bool:
    giver = moved_from(site.result, moves_on_bpu).producer()
    return giver is not None and is_table(giver)


def _gives_int16(site: Chained) -> bool:
    """Whether the last operator has int16, and the one that computes what it may move: a ConvTranspose has none.

    30 ConvTransposes with and without Relu, sum and movement, on bayes-e and bayes.
    """
    head = site.heads.get(moved_from(site.result, moves_all_on_bpu))
    rules = [rule_for(node) for node in (site.chain[-1], *(() if head is None else (head,)))]
    return all(rule is not None and rule.int16_outputs for rule in rules)


def _follows_int16(site: Chained) -> bool:
    head = site.heads.get(moved_from(site.result, moves_all_on_bpu), site.chain[0])
    added = any(node.op_type == "Add" for node in site.chain) or head.op_type == "Add"
    is_other = not added and not is_exact_sum(site.result)
    return site.follows_int16 and _gives_int16(site) and is_other and reaches_output(site.result)


ASKED_ON_BPU = "width.asked-on-bpu"
"""The rule of results at the end that are asked for on the BPU."""
OUTPUTS_IN_INT16 = Pattern[Chained]("is asked for int16 as all outputs are", lambda site: site.output_type == INT16)

TAILS: Table[Chained, Width] = Table(
    "width",
    [
        Rule(
            "width.outputs-int8",
            "The option set_model_output_int8 leaves no result in int16.",
            Pattern("is asked for int8 as all outputs are", lambda site: site.output_type == INT8),
            Width.LEFT,
            BAYES,
            over=("width.end-in-int8",),
        ),
        Rule(
            "width.end-in-int8",
            "A result at the end that would be int16 is int8 where int8 is asked of it, or of what it is computed of.",
            Pattern("is asked for int8, or computed of what is", _is_asked_int8),
            Width.LEFT,
            BAYES,
            over=("width.asked-on-bpu",),
        ),
        Rule(
            ASKED_ON_BPU,
            "What gives a result at the end, moved or not, and is asked for on the BPU without a type gives int8, also "
            "where it could stay an int32 sum of one scale.",
            Pattern("is asked for on the BPU, and no type of its result", _is_asked_on_bpu),
            Width.LEFT,
            BAYES,
            over=("width.table-within",),
        ),
        Rule(
            "width.table-within",
            "The result of a table, moved or not, is int16 only at the end: not where the BPU computes behind the CPU "
            "again, wherever it goes.",
            Pattern[Chained]("is given by a table, moved or not", _is_of_table)
            & Pattern("reaches no output but by the BPU", lambda site: not reaches_output(site.result)),
            Width.LEFT,
            BAYES,
            over=("width.moved-from-other",),
        ),
        Rule(
            "width.moved-from-other",
            "What is moved to the end from a tensor that the BPU computes with as well, or does not give, has the type "
            "of that.",
            Pattern("is moved from what the BPU computes with too, or does not give", _is_moved_from_other),
            Width.LEFT,
            BAYES,
            over=("width.clip",),
        ),
        Rule(
            "width.clip",
            "A Clip at the end is int16, and so is what Clips that share a constant limit with it give.",
            Pattern("ends in a Clip", lambda site: site.chain[-1].op_type == "Clip"),
            Width.ALIKE,
            BAYES,
            over=("width.accumulator",),
        ),
        Rule(
            "width.joined-behind",
            "The result of a convolution or product at the end is int16 where it is joined, on either device, with an "
            "int16 result that comes before it in the graph, and an output is made of it without the BPU; a sum that a "
            "convolution computes is not.",
            Pattern("is joined with an int16 result before it", _follows_int16),
            Width.INT16,
            BAYES,
            over=("width.accumulator", "width.moved-accumulator"),
        ),
        Rule(
            "width.accumulator",
            "The result of a convolution or product at the end is no int16, as it can stay in int32, unless int16 is "
            "asked of all outputs and nothing that follows is quantised.",
            Pattern[Chained]("is computed in int32", lambda site: site.head is not None and site.head.int32_output)
            & ~(OUTPUTS_IN_INT16 & Pattern("ends there", lambda site: ends_behind(readers_of_result(site.chain)))),
            Width.LEFT,
            BAYES,
            over=("width.moved-accumulator",),
        ),
        Rule(
            "width.moved-accumulator",
            "What is only moved at the end from a convolution or an int32 sum is no int16, unless int16 is asked of "
            "all outputs.",
            Pattern[Chained]("is an int32 sum, or only moved from a convolution", _is_moved_sum) & ~OUTPUTS_IN_INT16,
            Width.LEFT,
            BAYES,
            over=("width.result",),
        ),
        Rule(
            "width.result",
            "A result of the BPU that only the CPU reads is int16.",
            Pattern("is given by an operator that has int16", _gives_int16),
            Width.INT16,
            BAYES,
        ),
    ],
)
"""Results that nothing quantised reads (operators.csv: Sigmoid, Mul and Div of two and three dimensions; one part of
the uneven Split there is an output; the Gather of one channel, but not ReduceMax)."""
