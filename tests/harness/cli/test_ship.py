"""``ptqlab ship``: folder, build, proof, and everything that can be wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from engine.errors import ConfigError, PtqlabError, ShipError, ToolchainError
from engine.toolchain.tool import VARIABLE
from harness.cli import ship as shipping
from harness.cli.main import app
from harness.cli.ship import EXIT_DIFFERENT
from harness.suites.settings import Int16Kind
from harness.trials.sums import write_sums
from tests import toolchains
from tests.engine.conformance.models import write_network
from tests.harness.files.test_user_code import own, own_folder, sweep, write

__all__ = ["own"]


@pytest.fixture(autouse=True)
def _no_toolchain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def swept(own: Path) -> str:
    """Id of the only trial of a sweep of a tiny network, below ``own``."""
    suite = write(own, {"adapter": "own_pictures:Noise"}, {"name": "own_pictures:closeness", "labels": "float"})
    return sweep(own, suite)["trial"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder and the trial of a sweep below it, which no test changes."""
    with pytest.MonkeyPatch.context() as patch:
        folder = own_folder(tmp_path_factory.mktemp("kept"), patch)
        yield folder, swept(folder)


@pytest.fixture
def work(kept: tuple[Path, str]) -> Path:
    return kept[0] / "work"


@pytest.fixture
def trial(kept: tuple[Path, str]) -> str:
    return kept[1]


def ship(*words: object) -> Result:
    return CliRunner().invoke(app, ["ship", *map(str, words)])


def refusal(done: Result, kind: type[PtqlabError] = ConfigError) -> str:
    assert isinstance(done.exception, kind), done.output
    return str(done.exception)


def test_a_trial_is_shipped_built_and_proved(tmp_path: Path, work: Path, trial: str) -> None:
    command = toolchains.words(tmp_path, toolchains.EQUAL)
    done = ship(trial, "-o", tmp_path / "out", "--workdir", work, "--toolchain", command)
    assert done.exit_code == 0, done.output
    written, board, line = done.stdout.splitlines()
    assert written.startswith(f"{tmp_path / 'out'}: ")
    assert board == f"{tmp_path / 'out/model_output/tiny.bin'}: for the board, toolchain 1.24.3"
    assert line.startswith("EQUAL: ")
    assert line.endswith("outputs of 6 images equal")
    assert (tmp_path / "out/model_output/tiny.bin").read_bytes() == b"for the board"
    assert done.stderr.splitlines() == [
        "ship: converts",
        "toolchain: compiles",
        "toolchain: compares node by node",
        "toolchain: runs what was built on the simulator",
    ]
    origin = json.loads((tmp_path / "out/ship.json").read_text())["origin"]
    assert origin["trial"]["trial"] == trial


def test_what_differs_is_named_with_the_score_of_what_was_built(tmp_path: Path, work: Path, trial: str) -> None:
    command = toolchains.words(tmp_path, toolchains.DIFFERENT)
    done = ship(trial, "-o", tmp_path / "out", "--workdir", work, "--toolchain", command, "--images", 3)
    assert done.exit_code == EXIT_DIFFERENT
    line = done.stdout.splitlines()[-1]
    assert line.startswith("DIFFERENT: ")
    assert "of 3 images equal; first at " in line
    assert " built, " in line
    assert " measured, " in line


def test_without_a_toolchain_the_line_says_how_to_build(tmp_path: Path, work: Path, trial: str) -> None:
    done = ship(trial, "-o", tmp_path / "out", "--workdir", work)
    assert done.exit_code == 0, done.output
    line = done.stdout.splitlines()[-1]
    assert f'build the file for the board in {tmp_path / "out"} with "hb_mapper makertbin --config net.yaml' in line
    assert f"ptqlab ship --verify {tmp_path / 'out'} {tmp_path / 'out'}/model_output/tiny_quantized_model.onnx" in line
    built = ship("--verify", tmp_path / "out", tmp_path / "out/expected_quantized.onnx", "--workdir", work)
    assert built.exit_code == 0, built.output
    assert built.stdout.startswith("EQUAL: ")
    assert built.stdout.endswith("outputs of 6 images equal\n")
    elsewhere = ship(
        "--verify", tmp_path / "out", tmp_path / "out/expected_quantized.onnx", "--workdir", tmp_path / "other"
    )
    assert elsewhere.exit_code == 0
    assert "outputs" not in elsewhere.stdout
    assert "not run" in elsewhere.stderr


@pytest.mark.parametrize("code", [toolchains.FAILS, toolchains.HANGS, toolchains.WRITES_NOTHING])
def test_a_toolchain_that_gives_nothing_leaves_the_folder(tmp_path: Path, work: Path, trial: str, code: str) -> None:
    words = [trial, "-o", tmp_path / "out", "--workdir", work, "--toolchain", toolchains.words(tmp_path, code)]
    done = ship(*words, "--time-limit", 1 if code == toolchains.HANGS else 60)
    text = refusal(done, ToolchainError)
    assert "\n" not in text
    assert "toolchain.log" in text
    assert {"net.onnx", "net.yaml", "ship.json"} <= {path.name for path in (tmp_path / "out").iterdir()}
    assert "ship folder already; --force" in refusal(ship(*words))
    again = ship(*words[:-1], toolchains.words(tmp_path, toolchains.EQUAL), "--force")
    assert again.exit_code == 0, again.output


def test_the_recommended_setting_of_a_suite(tmp_path: Path, work: Path, trial: str) -> None:
    options = ["-o", tmp_path / "out", "--workdir", work]
    done = ship("--best", "mine/tiny", *options)
    assert done.exit_code == 0, done.output
    assert f"{trial}: recommended by mine" in done.stderr
    assert "expected SUITE/MODEL" in refusal(ship("--best", "tiny", *options, "--force"))
    assert "tiny" in refusal(ship("--best", "mine/tini", *options, "--force"))
    assert "nothing for march bayes" in refusal(ship("--best", "mine/tiny", "--march", "bayes", *options, "--force"))


def test_what_fails_a_gate_is_not_recommended(own: Path) -> None:
    trial = swept(own)
    suite = write(own, {"adapter": "own_pictures:Noise"}, {"name": "own_pictures:closeness", "labels": "float"})
    suite.write_text(suite.read_text() + "\ngates: {min_cosine: 1.0}\n")
    for words in (["digest", "mine", "--write"], ["digest", "tiny", "--write", "--score"]):
        CliRunner().invoke(app, words)
    words = ["run", str(suite), "--executor", "serial", "--no-mlflow", "--workdir", str(own / "work")]
    done = CliRunner().invoke(app, words)
    assert "No setting passes the gates. Nearest: max" in " ".join(done.output.split()), (trial, done.output)
    refused = refusal(ship("--best", "mine/tiny", "-o", own / "out", "--workdir", own / "work"))
    assert "no setting passes the gates, so that none is recommended" in refused


def test_beside_a_recommended_setting_that_cannot_be_shipped_one_that_can_is_named(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept(own)
    suite = own / "suites/mine.yaml"
    text = suite.read_text()
    suite.write_text(text.replace("calibration_type: max", "calibration_type: max\n  int16: [none, all]"))
    words = ["run", str(suite), "--executor", "serial", "--no-mlflow", "--workdir", str(own / "work")]
    assert CliRunner().invoke(app, words).exit_code == 0
    summary, choice = shipping._choice("mine/tiny", None, own / "work")
    wide = next(spec for spec in summary.trials if spec.settings.int16.kind is Int16Kind.ALL)
    chosen = choice.model_copy(update={"best": wide.key})
    monkeypatch.setattr(shipping, "_choice", lambda *_: (summary, chosen))
    options = ["-o", own / "out", "--workdir", own / "work"]
    assert ship("--best", "mine/tiny", *options).exit_code == 0  # its pixels are int8
    monkeypatch.setattr("engine.ship.refusals.carries_pair", lambda _: False)
    refused = refusal(ship("--best", "mine/tiny", *options, "--force"), ShipError)
    assert refused.startswith("no activation is int8 with one threshold")
    assert refused.endswith("as good as the best within noise: tiny/bayes-e/max")
    chosen = choice.model_copy(update={"best": wide.key, "alike": (wide.key,)})
    assert "as good as" not in refusal(ship("--best", "mine/tiny", *options, "--force"), ShipError)


def test_a_trial_whose_model_data_or_engine_has_changed_is_refused(own: Path) -> None:
    trial = swept(own)
    options = [trial, "-o", own / "out", "--workdir", own / "work"]
    network = own / "suites/zoo/tiny.onnx"
    content = network.read_bytes()
    network.write_bytes(content + b"\x00")
    text = refusal(ship(*options))
    assert "has changed since it ran" in text
    assert "model file: SHA-256" in text
    network.unlink()
    assert "it is gone" in refusal(ship(*options))
    network.write_bytes(content)
    card = own / "suites/zoo/tiny.yaml"
    text = card.read_text()
    card.write_text(text.replace("scale_value: 0.01", "scale_value: 0.02"))
    assert "preprocessing: scale_value 0.01 → 0.02" in refusal(ship(*options))
    card.write_text(text)
    result = next((own / "work/trials").glob("*/result.json"))
    kept = result.read_text()
    spec = json.loads(kept)["spec"]
    result.write_text(kept.replace(spec["engine"], "0" * 24))
    write_sums(result.parent)
    assert "engine: " in refusal(ship(*options))
    result.write_text(kept.replace(json.loads(kept)["artefacts"]["quantized"], "0" * 24))
    write_sums(result.parent)
    assert "cannot be made again" in refusal(ship(*options))
    assert not (own / "out").exists()


def test_a_conversion_without_a_sweep(tmp_path: Path) -> None:
    config = write_network(tmp_path)
    command = toolchains.words(tmp_path, toolchains.EQUAL)
    done = ship("--config", config, "-o", tmp_path / "out", "--toolchain", command)
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith("outputs of 3 calibration samples equal\n")


def test_a_toolchain_in_a_container_must_see_the_folder(tmp_path: Path) -> None:
    config = write_network(tmp_path)
    (tmp_path / "seen").mkdir()
    words = ["--config", config, "--toolchain", "python3", "--mount", f"{tmp_path / 'seen'}=/work"]
    assert "does not see this folder" in refusal(ship(*words, "-o", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "x"], "name one thing to ship, a trial, --best SUITE/MODEL or --config; given: none"),
        (["a", "--best", "b/c", "-o", "x"], "given: TRIAL, --best"),
        (["a"], "-o DIR is missing"),
        (["a", "-o", "x", "--march", "bayes"], "--march belongs to --best"),
        (["a", "-o", "x", "--mount", "/tmp=/x"], "--mount belongs to --toolchain"),
        (["a", "--verify", "d", "q"], "stands alone"),
        (["--verify", "d", "q"], "no such file"),
        (["no-such-trial", "-o", "x"], "no-such-trial"),
        (["a", "-o", "x", "--toolchain", "no-such-program"], "no such program"),
    ],
)
def test_options_that_do_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refusal(ship(*words))
    assert not (tmp_path / "x").exists()


def test_samples_of_images_belong_to_a_trial(tmp_path: Path) -> None:
    config = write_network(tmp_path)
    assert "--images belongs to a trial" in refusal(ship("--config", config, "-o", tmp_path / "x", "--images", 3))
