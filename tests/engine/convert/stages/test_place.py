"""The stages that place nodes: what cannot be converted is refused, and by whom."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from onnx import helper

from engine.convert.stages.place import ADMIT, ADMIT_DRAFT, DECOMPOSE, PLACE, REQUEST, refuse_without_bpu
from engine.errors import UnsupportedError
from engine.ir import MARK_ON
from engine.place import PlacementOptions, place
from tests.engine.calibrate.models import graph, residual
from tests.engine.convert.work import configured, ran


def on_cpu(count: int) -> ir.Model:
    """A placed model of ``count`` nodes, none of which the BPU computes."""
    names = ["x", *(f"t{index}" for index in range(1, count)), "y"]
    nodes = [helper.make_node("Hardmax", [names[i]], [names[i + 1]], name=f"s{i}") for i in range(count)]
    return place(graph(nodes, {"x": (1, 4)}, ["y"]), "bayes-e").model


@pytest.mark.parametrize(("count", "named", "more"), [(5, 5, ""), (6, 5, " …")])
def test_a_model_without_a_node_on_the_bpu_is_refused_with_reasons(count: int, named: int, more: str) -> None:
    with pytest.raises(UnsupportedError, match="There is no node can execute on BPU in this model") as caught:
        refuse_without_bpu(on_cpu(count))
    message = str(caught.value)
    assert message.count("(Hardmax): ") == named
    assert message.endswith(more)


def test_one_node_on_the_bpu_is_enough() -> None:
    model = on_cpu(2)
    model.graph[0].metadata_props[MARK_ON] = "BPU"
    refuse_without_bpu(model)
    assert model.graph[0].metadata_props[MARK_ON] == "BPU"


def test_a_draft_leaves_cpu_operators_to_whoever_shows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = place(residual(), "bayes-e")
    refused = []
    monkeypatch.setattr("engine.convert.stages.place.refuse_cpu_operators", refused.append)
    assert ran(ADMIT_DRAFT, configured(), placed=placed) == {"placement": placed}
    assert refused == []
    assert ran(ADMIT, configured(), placed=placed) == {"placement": placed}
    assert refused == [placed.model]


def test_every_calibrated_tensor_is_an_output_on_request() -> None:
    given = {"equalized": residual(), "requests": PlacementOptions()}
    (plain,) = ran(DECOMPOSE, configured(), **given)["optimized_float"].graph.outputs
    dumped = ran(DECOMPOSE, configured(model__layer_out_dump=True), **given)["optimized_float"]
    names = {value.name for value in dumped.graph.outputs}
    assert plain.name == "y"
    assert names >= {"y", "c0", "a"}
    assert "r0" not in names, "it takes the threshold of c0"


def test_requests_reach_the_placement() -> None:
    config = configured(model__node_info={"conv1": {"ON": "CPU"}})
    requests = ran(REQUEST, config, equalized=residual())["requests"]
    placed = ran(PLACE, config, optimized_float=residual(), requests=requests)["placed"]
    devices = {node.name: node.metadata_props.get(MARK_ON) for node in placed.model.graph}
    assert (devices["conv0"], devices["conv1"]) == ("BPU", "CPU")
