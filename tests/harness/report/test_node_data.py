"""Nodes on the page of a sweep."""

from __future__ import annotations

from pathlib import Path

from harness.report.names import ShortNames
from harness.report.node_data import _merged, chosen_trials, cosines_by_depth, profiles, table_as_graph
from harness.report.results import Sweep
from harness.trials.artefacts import Artefact
from harness.trials.figures import TrialNode
from harness.trials.trial import Outcome, TrialStore

NODES = (
    TrialNode(node="first", on="BPU", subgraph=0, type="Conv", data_type="int8", cosine=0.99, time_us=2.0, ddr_bytes=5),
    TrialNode(node="second", on="CPU", reason="no rule", type="Foo", data_type="float", cosine=1.0, reads="0"),
    TrialNode(node="third", on="BPU", subgraph=1, type="Add", data_type="int8", reads="0 1"),
)


def test_a_node_table_is_a_graph() -> None:
    first, second, third = table_as_graph(NODES)
    assert (first["detail"], first["cost"], first["cosine"]) == ("2.0 us, cos 0.9900", 2.0, 0.99)
    assert (second["note"], second["reads"]) == ("no rule", [0])
    assert (third["reads"], third["place"]) == ([0, 1], (0, 2))


def test_rows_by_depth_are_those_of_different_models(sweep: Sweep, tmp_path: Path) -> None:
    same = {Artefact.QUANTIZED: "digest"}
    results = tuple(
        result.model_copy(update={"artefacts": same}) if result.spec.model == "one" else result
        for result in sweep.results
    )
    store = TrialStore(tmp_path / "trials")
    for result in results:
        store.put(Outcome(result, NODES if result.ok else ()))
    one, two = cosines_by_depth(Sweep(sweep.summary, results), store, ShortNames())
    assert (one["model"], one["nodes"]) == ("one, bayes-e", ["first", "second"])
    assert one["rows"] == [{"label": "max", "more": 1, "values": [-2.0, -7.0]}]
    assert [row["label"] for row in two["rows"]] == ["max", "max-int16.all"]
    assert [each["trial"] for each in profiles(chosen_trials(sweep), store)] == [
        result.spec.id for result in chosen_trials(sweep)
    ]
    assert all(result.ok for result in chosen_trials(sweep))


def test_nodes_that_only_some_have_stand_behind_what_they_follow() -> None:
    assert _merged([["a", "b", "c"], ["a", "x", "y", "c"], ["z"]]) == ["z", "a", "x", "y", "b", "c"]
    assert _merged([]) == []
