"""Cards, code and network that travel with a task to workers that lack them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.execution.isolation import run_task
from harness.execution.luggage import Luggage, pack_luggage
from harness.execution.planning import resolve
from harness.execution.task import Reply, Task
from harness.files.cache import Cache
from harness.suites.suite import open_suite
from harness.sweeps.planning import expansion_of
from harness.trials.tasks import Preparation
from tests.harness.files.test_user_code import CODE, own, run, write

__all__ = ["own"]

HELPER = "import numpy as np\nfrom harness import open_metric\n\n\ndef median(values):\n    return np.median(values)\n"
FINDS = """
import os, sys
from pathlib import Path
from harness.files.cache import Cache
from harness.execution.luggage import Luggage, unpack_luggage
from harness.trials.trial import card_key
from harness.zoo.cards import load_card

luggage = Luggage.model_validate_json(sys.stdin.read())
unpack_luggage(luggage, Cache(Path(sys.argv[1]) / "cache"), Path(sys.argv[1]))
card = load_card("tiny")
print(card.model_path(), card.open_dataset().digest, card_key(card), card.open_metric().name, sep="\\n")
"""


@pytest.fixture
def lab(own: Path) -> Path:
    """Cards in ``lab`` with a metric and a data set of the user's own, which import a module beside them."""
    code = CODE.replace("import numpy as np", "import numpy as np\nfrom own_helper import median", 1)
    (own / "suites/zoo/own_pictures.py").write_text(code.replace("np.median(outputs", "median(outputs"))
    (own / "suites/zoo/own_helper.py").write_text(HELPER)
    write(own, {"adapter": "own_pictures:Noise"}, {"name": "own_pictures:closeness", "labels": "float"})
    sys.modules.pop("own_helper", None)
    run("digest", "mine", "--write", "--no-score")
    run("digest", "tiny", "--write")
    return own


def elsewhere(luggage: Luggage, folder: Path) -> list[str]:
    """What a process of another folder, without any of the variables, finds."""
    folder.mkdir(exist_ok=True)
    root = Path(__file__).parents[3]
    code = f"import sys; sys.path.insert(0, {str(root)!r})\n{FINDS}"
    environment = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        input=luggage.model_dump_json(),
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_all_of_a_model_travels_with_its_own_code(lab: Path, tmp_path: Path) -> None:
    luggage = pack_luggage("tiny", Cache(tmp_path / "work/cache"))
    assert {Path(path).name for path in luggage.cards} == {"tiny.yaml", "mine.yaml"}
    assert {Path(path).name for path in luggage.modules} == {"own_pictures.py", "own_helper.py"}
    assert luggage.folders.suites == (lab / "suites",)
    assert luggage.code
    assert (tmp_path / f"work/cache/networks/{luggage.digest}.onnx").read_bytes() == Path(luggage.network).read_bytes()
    assert pack_luggage("mnist_lenet", Cache(tmp_path / "c")).cards == {}, "every installation has it"
    assert pack_luggage("unknown", Cache(tmp_path / "c")).code == ""


@pytest.mark.nightly
def test_a_worker_uses_what_it_sees_and_copies_the_rest(lab: Path, tmp_path: Path) -> None:
    luggage = pack_luggage("tiny", Cache(tmp_path / "work/cache"))
    seen = elsewhere(luggage, tmp_path / "work")
    assert seen[0] == str(lab / "suites/zoo/tiny.onnx")
    assert not (tmp_path / "work/luggage").exists()
    (lab / "suites").rename(tmp_path / "hidden")
    copied = elsewhere(luggage, tmp_path / "work")
    assert copied[0].startswith(str(tmp_path / "work/luggage"))
    assert copied[1:] == seen[1:]
    changed = CODE.replace("np.median", "np.mean")
    (tmp_path / "hidden").rename(lab / "suites")
    (lab / "suites/zoo/own_pictures.py").write_text(changed)
    assert elsewhere(luggage, tmp_path / "work") == copied, "the worker's own module is another one"


@pytest.mark.nightly
def test_a_trial_runs_where_the_cards_are_not(lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = open_suite(str(lab / "suites/mine.yaml"))
    (spec,) = resolve(suite, expansion_of(suite).points)
    cache = Cache(tmp_path / "work/cache")
    task = Task(
        key="first",
        workdir=str(tmp_path / "work"),
        stages="harness.execution.pipeline",
        threads=1,
        preparation=Preparation(specs=(spec,)),
        luggage=pack_luggage("tiny", cache),
    )
    (lab / "suites").rename(tmp_path / "hidden")
    for name in ("PTQLAB_SUITES", "PTQLAB_DATASETS"):
        monkeypatch.delenv(name)
    prepared = Reply.model_validate_json(run_task(task.model_dump_json())).prepared
    assert prepared is not None
    assert prepared.failure is None, prepared.failure
    trial = task.model_copy(
        update={"key": spec.key, "preparation": None, "spec": spec, "statistics": prepared.statistics}
    )
    result = Reply.model_validate_json(run_task(trial.model_dump_json())).result
    assert result is not None
    assert result.ok, result.failure
    assert result.cards.suites == (lab / "suites",), "where the sweep found them, not the worker's copy"
    lost = trial.model_copy(update={"luggage": task.luggage and task.luggage.model_copy(update={"cards": {}})})
    failed = Reply.model_validate_json(run_task(lost.model_dump_json())).result
    assert failed is not None
    assert failed.failure is not None
    assert "(worker " in failed.failure.text
