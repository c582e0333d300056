"""Specs, results and the folders that keep them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.errors import MissingError
from engine.rulebook.known import Known
from harness.files.exchange import Exchange
from harness.trials.trial import RESULT_FILE, Outcome, TrialResult, TrialStore
from tests.harness import fakes


def test_the_key_covers_every_field() -> None:
    base = fakes.spec()
    others = [
        fakes.spec(settings=fakes.KL),
        fakes.spec(model="other", card=base.card),
        *(fakes.spec(**{name: "x"}) for name in ("card", "file", "data", "engine")),
        *(fakes.spec(**{name: 7}) for name in ("calibration_samples", "evaluation_samples")),
    ]
    assert len({trial.key for trial in (base, *others)}) == 1 + len(others)


def test_an_outcome_survives_in_its_folder(tmp_path: Path) -> None:
    store, trial = TrialStore(tmp_path / "trials"), fakes.spec()
    assert store.get(trial) is None
    assert store.predictions(trial.key) == {}
    outcome = Outcome(fakes.result(trial), fakes.NODES, {"per_sample": fakes.hits(3)})
    store.put(outcome)
    assert store.get(trial) == outcome.result
    assert store.nodes(trial.key) == list(fakes.NODES)
    np.testing.assert_array_equal(store.predictions(trial.key)["per_sample"], fakes.hits(3))


def test_what_is_known_of_a_conversion_survives_and_sentences_of_older_versions_do_not(tmp_path: Path) -> None:
    known = Known.of([("a", ""), ("b", "rule x (one network shows it)")])
    result = fakes.result(fakes.spec()).model_copy(update={"known": known})
    assert TrialResult.model_validate_json(result.model_dump_json()).known == known
    old = json.loads(result.model_dump_json()) | {"known": "all 3 nodes by rules that recorded conversions show"}
    assert TrialResult.model_validate_json(json.dumps(old)).known is None


def test_a_newer_outcome_replaces_the_older_and_leaves_no_rest(tmp_path: Path) -> None:
    store, trial = TrialStore(tmp_path), fakes.spec()
    store.put(Outcome(fakes.failed(trial)))
    store.put(Outcome(fakes.result(trial), fakes.NODES))
    found = store.get(trial)
    assert found is not None
    assert found.ok
    store.put(Outcome(fakes.failed(trial)))
    assert store.nodes(trial.key) == []
    assert [path.name for path in tmp_path.iterdir()] == [trial.key]


@pytest.mark.parametrize("content", ["", "{", '{"format": 99}', "[]"])
def test_what_cannot_be_read_is_no_result(tmp_path: Path, content: str) -> None:
    store, trial = TrialStore(tmp_path), fakes.spec()
    store.put(Outcome(fakes.result(trial)))
    (store.folder(trial.key) / RESULT_FILE).write_text(content)
    assert store.get(trial) is None


def test_metrics_have_the_names_of_the_record_and_no_holes() -> None:
    metrics = fakes.result(fakes.spec(), value=0.9, latency=2.5).metrics()
    assert metrics["accuracy.delta"] == pytest.approx(-0.05)
    assert metrics["accuracy.ratio"] == pytest.approx(0.9 / 0.95)
    assert metrics["latency.ms"] == 2.5
    assert set(metrics) == {
        *(f"accuracy.{name}" for name in ("float", "quantized", "delta", "ratio", "stderr", "delta_stderr")),
        *("agreement", "cosine.output", "cosine.min", "sqnr", "max_abs"),
        *("latency.ms", "latency.cpu_ms", "latency.total_ms", "ddr.mb", "cpu_nodes", "subgraphs"),
    }
    assert fakes.failed(fakes.spec()).metrics() == {}


def test_a_changed_copy_of_a_spec_has_a_key_of_its_own() -> None:
    spec = fakes.spec("net")
    assert spec.key != spec.model_copy(update={"model": "other"}).key


def test_a_trial_that_was_left_elsewhere_is_brought_whole(tmp_path: Path) -> None:
    exchange, trial = Exchange((tmp_path / "shared").as_uri()), fakes.spec()
    there, here = TrialStore(tmp_path / "there", exchange), TrialStore(tmp_path / "here", exchange)
    assert (here.elsewhere(), here.bring(trial.key)) == (set(), False)
    here.keep(Outcome(fakes.failed(trial)))
    assert here.elsewhere() == set()
    there.put(Outcome(fakes.result(trial), fakes.NODES, {"per_sample": fakes.hits(3)}, {"page.html": b"page"}))
    assert here.elsewhere() == {trial.key}
    assert here.bring(trial.key)
    assert here.get(trial) == there.get(trial)
    files = [{path.name: path.read_bytes() for path in store.folder(trial.key).iterdir()} for store in (here, there)]
    assert files[0] == files[1]
    assert [path.name for path in (tmp_path / "here").iterdir()] == [trial.key]
    assert not TrialStore(tmp_path / "here").bring(trial.key)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half of"])
def test_what_is_no_trial_is_not_brought(tmp_path: Path, content: bytes) -> None:
    exchange, trial = Exchange((tmp_path / "shared").as_uri()), fakes.spec()
    (tmp_path / "damaged").write_bytes(content)
    exchange.push(tmp_path / "damaged", f"trials/{trial.key}.zip")
    store = TrialStore(tmp_path / "here", exchange)
    with pytest.raises(MissingError, match=rf"trials/{trial.key}\.zip: is not a trial that this version can read"):
        store.bring(trial.key)
    assert list((tmp_path / "here").iterdir()) == []
