"""The tools that read ``.bin`` files: hb_perf, hb_pack, hb_model_info, hb_model_modifier, verifiers, hrt_model_exec."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from engine.cli.vendor import hb_model_info, hb_model_modifier, hb_pack, hb_perf, hb_verifier, hrt_model_exec, vec_diff
from engine.compile import CompileOptions, compile_model, load_bin
from engine.compile.pack import open_models
from engine.compile.removal import dequantized
from engine.errors import PtqlabError
from engine.ir import load_model, save_model
from engine.simulate import Session
from engine.simulate.tensors import random_feed

GOLDEN = Path(__file__).parents[2] / "golden" / "conversions"
QUANTIZED = GOLDEN / "res.quant.onnx"
IMAGE = GOLDEN / "p_rgb.quant.onnx"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two compiled models, ``feature.bin`` (debug) and ``image.bin``; the working directory."""
    monkeypatch.chdir(tmp_path)
    compile_model(load_model(QUANTIZED), "bayes-e", CompileOptions(debug=True), "feature").save("feature.bin")
    compile_model(load_model(IMAGE), "bayes-e", None, "image").save("image.bin")
    return tmp_path


def run(app: typer.Typer, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, arguments)
    assert not isinstance(result.exception, PtqlabError)
    assert result.exit_code == code, result.output
    return result.output


def drawn(page: Path) -> str:
    """What a browser makes of ``page``, scripts run, without a network."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000", "--dump-dom"]
    command = ["chromium", *options, f"--user-data-dir={page.parent / 'browser'}", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


class TestPerf:
    def test_pages_json_and_pictures(self, folder: Path) -> None:
        run(hb_perf.app, "feature.bin")
        result = folder / "hb_perf_result" / "feature"
        assert {path.name for path in result.iterdir()} == {
            "feature",
            "feature.html",
            "feature.png",
            "feature_subgraph_0.html",
            "feature_subgraph_0.json",
        }
        summary = json.loads((result / "feature_subgraph_0.json").read_text())["summary"]
        assert summary["DDR bytes per frame"] == summary["loaded bytes per frame"] + summary["stored bytes per frame"]
        assert summary["latency (us)"] == pytest.approx(1e6 / summary["FPS"])
        assert len(summary["layer details"]) == summary["layers"]
        assert sum(summary["interval loading bandwidth (bytes)"]) == pytest.approx(
            summary["loaded bytes per frame"], rel=0.01
        )
        page = (result / "feature.html").read_text()
        for text in (
            "Model Performance Summary",
            "± ",
            "Details",
            "On the CPU",
            "BIN Model Structure",
            "feature_subgraph_0.html",
        ):
            assert text in page
        assert "Layer Details" in (result / "feature_subgraph_0.html").read_text()
        assert (result / "feature.png").read_bytes().startswith(b"\x89PNG")
        assert (result / "feature").read_text().startswith("digraph")

    @pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
    def test_a_browser_draws_the_figures(self, folder: Path) -> None:
        run(hb_perf.app, "feature.bin")
        result = folder / "hb_perf_result" / "feature"
        figures = {"feature": ["structure"], "feature_subgraph_0": ["utilisation", "timeline", "roofline"]}
        for name, expected in figures.items():
            page = drawn(result / f"{name}.html")
            shown = re.findall(r'<div id="(\w+)" class="js-plotly-plot"', page)
            assert shown == expected
            assert page.count('class="main-svg"') >= len(expected)

    def test_without_debug_it_says_so(self, folder: Path) -> None:
        assert "compiler_parameters.debug:True" in run(hb_perf.app, "image.bin")
        summary = json.loads((folder / "hb_perf_result/image/image_subgraph_0.json").read_text())["summary"]
        assert "layer details" not in summary

    def test_wrong_files(self, folder: Path) -> None:
        (folder / "broken.bin").write_bytes(b"no model")
        assert "not a ptqlab .bin file" in run(hb_perf.app, "broken.bin", code=255)
        assert not (folder / "hb_perf_result").exists()


class TestPack:
    def test_models_of_a_packed_file(self, folder: Path) -> None:
        run(hb_pack.app, "feature.bin", "image.bin", "-o", "both.bin")
        models = open_models(folder / "both.bin")
        assert [model.to_bytes() for model in models] == [Path(n).read_bytes() for n in ("feature.bin", "image.bin")]
        run(hb_perf.app, "both.bin", "-m", "image")
        assert [path.name for path in (folder / "hb_perf_result").iterdir()] == ["image"]
        shown = run(hb_model_info.app, "both.bin")
        assert "******** feature info" in shown
        assert "******** image info" in shown
        assert "feature info" not in run(hb_model_info.app, "both.bin", "-m", "image")
        assert "it holds feature, image" in run(hb_model_info.app, "both.bin", "-m", "other", code=255)

    def test_what_cannot_be_packed_or_used(self, folder: Path) -> None:
        run(hb_pack.app, "feature.bin", "image.bin", "-o", "both.bin")
        message = "is a packed model, it can not be packed again!"
        assert message in run(hb_pack.app, "both.bin", "image.bin", "-o", "more.bin", code=255)
        assert "names must differ" in run(hb_pack.app, "image.bin", "image.bin", "-o", "more.bin", code=255)
        assert not (folder / "more.bin").exists()
        assert "pack model is not supported" in run(hb_model_modifier.app, "both.bin", code=255)
        with pytest.raises(PtqlabError, match="pack model is not supported"):
            load_bin(folder / "both.bin")


class TestModifier:
    def test_removes_from_the_ends_inwards(self, folder: Path) -> None:
        listed = run(hb_model_modifier.app, "feature.bin")
        assert "Nodes that can be deleted" in listed
        shown = run(hb_model_modifier.app, "feature.bin", "-a", "Quantize", "-a", "Transpose", "-a", "Dequantize")
        assert "scale: [" in shown
        modified = load_bin(folder / "feature_modified.bin")
        kinds = {node.op_type for node in modified.model.graph}
        assert not kinds & {"HzQuantize", "HzDequantize"}
        assert all(value.dtype is not None and value.dtype.is_integer() for value in modified.model.graph.inputs)
        info = run(hb_model_info.app, "feature_modified.bin")
        for node in modified.removed:
            assert f"deleted nodes: {node.name}" in info
        lines = (folder / "deleted_nodes_info.txt").read_text().splitlines()
        assert [json.loads(line)["name"] for line in lines] == [node.name for node in modified.removed]

    def test_the_rest_computes_the_same(self, folder: Path) -> None:
        whole = load_bin(folder / "feature.bin")
        run(hb_model_modifier.app, "feature.bin", "-a", "Dequantize", "-o", "cut.bin")
        cut = load_bin(folder / "cut.bin")
        session = Session(whole.model)
        feed = random_feed(session.inputs, 1)
        expected, found = session.run(feed), Session(cut.model).run(feed)
        scaled = dequantized(cut, found)
        for first, second in zip(expected.values(), scaled.values(), strict=True):
            np.testing.assert_array_equal(first, second)

    def test_removes_a_chain_at_an_output(self, folder: Path) -> None:
        """Each node stands at the output once the one behind it is gone."""
        dense = load_model(GOLDEN / "b2_gemm.quant.onnx")
        compile_model(dense, "bernoulli2", None, "dense").save("dense.bin")
        reshape, dequantize = list(dense.graph)[:-3:-1]
        run(hb_model_modifier.app, "--model_file", "dense.bin", "-r", str(reshape.name), "-r", str(dequantize.name))
        modified = load_bin(folder / "dense_modified.bin")
        assert [node.type for node in modified.removed] == ["Reshape", "Dequantize"]
        assert [str(value.name) for value in modified.model.graph.outputs] == [str(dequantize.inputs[0].name)]

    def test_one_file_is_given(self, folder: Path) -> None:
        for arguments in ([], ["feature.bin", "--model_file", "image.bin"]):
            assert "give one .bin file" in run(hb_model_modifier.app, *arguments, code=2)

    def test_a_node_inside_is_skipped(self, folder: Path) -> None:
        inside = next(
            str(n.name) for n in load_bin(folder / "feature.bin").model.graph if n.op_type == "HzSQuantizedConv"
        )
        assert "It can not be removed! Skipped!" in run(hb_model_modifier.app, "feature.bin", "-r", inside)


class TestVerifiers:
    def test_equal_models_pass(self, folder: Path) -> None:
        run(hb_verifier.model_app, "-q", str(IMAGE), "-b", "image.bin")
        shown = run(hb_verifier.app, "-m", f"{QUANTIZED},feature.bin", "-s", "True", "-r", "True")
        assert "Strict check PASSED" in shown
        assert shown.count(": PASSED") > 3

    def test_a_changed_weight_is_counted(self, folder: Path) -> None:
        model = load_model(IMAGE)
        value = next(v for v in model.graph.initializers.values() if str(v.name).endswith("_w_quantized"))
        changed = np.asarray(value.const_value).copy()
        changed[..., 0] = -changed[..., 0]
        import onnx_ir as ir

        value.const_value = ir.tensor(changed, name=value.name)
        save_model(model, folder / "changed.onnx")
        shown = run(hb_verifier.model_app, "-q", "changed.onnx", "-b", "image.bin", code=1)
        for text in ("mismatch line num", "mismatch.line_diff num", "total line num", "mismatch rate", "check FAILED"):
            assert text in shown

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["-q", str(IMAGE), "-b", "none.bin"], "no such file"),
            (["-q", str(IMAGE), "-b", "image.bin", "-a", "10.0.0.1"], "runs no boards"),
            (["-q", str(IMAGE), "-b", "image.bin", "-i", "missing.bin"], "no such file"),
            (["-q", str(QUANTIZED), "-b", "image.bin"], "different inputs"),
        ],
    )
    def test_mistakes(self, folder: Path, arguments: Sequence[str], message: str) -> None:
        assert message in run(hb_verifier.model_app, *arguments, code=255)

    def test_counters(self) -> None:
        first, second = np.array([1.0, 2.0, np.nan, np.nan, np.inf]), np.array([1.000001, 2.1, np.nan, 3.0])
        found = hb_verifier.count_mismatches(first, second, 5)
        assert (found.miss, found.diff, found.nan, found.total) == (1, 1, 1, 5)
        assert hb_verifier.count_mismatches(first[:1], second[:1], 8).diff == 1


class TestExec:
    def test_infer_dumps_what_the_session_gives(self, folder: Path) -> None:
        session = Session(load_bin(folder / "image.bin").executable)
        feed = random_feed(session.inputs, 1)
        (array,) = feed.values()
        array.tofile("input.bin")
        run(hrt_model_exec.app, "infer", "--model_file", "image.bin", "--input_file", "input.bin", "--enable_dump", "1")
        (expected,) = session.run(feed).values()
        (dumped,) = folder.glob("model_infer_output_0_*.bin")
        np.testing.assert_array_equal(np.fromfile(dumped, expected.dtype), expected.reshape(-1))

    def test_intermediate_results_and_classes(self, folder: Path) -> None:
        shown = run(
            hrt_model_exec.app,
            *("infer", "--model_file", "image.bin", "--dump_intermediate", "2", "--enable_cls_post_process", "true"),
        )
        assert "[0]: class" in shown
        count = sum(len(node.outputs) for node in load_bin(folder / "image.bin").model.graph)
        assert len(list(folder.glob("*.txt"))) >= count

    def test_maps_are_dumped_as_the_hardware_pads_them(self, folder: Path) -> None:
        """16 x 16 pixels of 8 channels: bayes-e computes 16 channels."""
        sizes = {}
        for kind in ("2", "3"):
            run(hrt_model_exec.app, "infer", "--model_file", "feature.bin", "--dump_intermediate", kind)
            sizes[kind] = {path.name: path.stat().st_size for path in folder.glob("*.bin")}
        assert sizes["2"]["c0_quantized.bin"] == 2 * sizes["3"]["c0_quantized.bin"] == 16 * 16 * 16

    def test_perf_and_profile(self, folder: Path) -> None:
        shown = run(
            hrt_model_exec.app,
            *("perf", "--model_file", "image.bin", "--frame_count", "7", "--thread_num", "2", "--profile_path", "out"),
        )
        assert "Frame count   is: 7" in shown
        first, second = (folder / "out" / "profiler.log").read_text().split("***")
        assert json.loads(first)["running_condition"]["frame_count"] == 7
        details = json.loads(second)
        assert "BPU_image_subgraph_0" in details["model_latency"]
        cpu = [entry["avg_time"] for name, entry in details["model_latency"].items() if not name.startswith("BPU_")]
        assert details["chip_latency"]["CPU_inference_time_cost"]["avg_time"] == pytest.approx(sum(cpu))
        assert set(details["task_latency"]) == {"TaskPendingTime", "TaskRunningTime"}
        assert (folder / "out" / "profiler.csv").read_text().startswith("name,avg_time_ms")

    def test_model_info(self, folder: Path) -> None:
        shown = run(hrt_model_exec.app, "model_info", "--model_file", "image.bin")
        assert "[model name]: image" in shown
        assert "valid shape" in shown

    def test_mistakes(self, folder: Path) -> None:
        (folder / "short.bin").write_bytes(b"123")
        np.save(folder / "double.npy", np.zeros(3))
        for arguments, message in (
            (["--input_file", "short.bin"], "holds 3 values of int8, expected"),
            (["--input_file", "double.npy"], "values of float64, expected"),
            (["--input_file", "a.bin,b.bin"], "expected one per input"),
            (["--roi_infer", "true", "--roi", "1,2,3,4"], "no resizer"),
            (["--dump_txt_axis", "5"], "have up to 4 axes"),
        ):
            result = CliRunner().invoke(hrt_model_exec.app, ["infer", "--model_file", "image.bin", *arguments])
            assert message in str(result.exception)


class TestVecDiff:
    def test_figures(self, tmp_path: Path) -> None:
        np.array([1, 2, 3], np.float32).tofile(tmp_path / "a.bin")
        (tmp_path / "b.txt").write_text("1.0 2.0\n5.0")
        lines = run(vec_diff.app, str(tmp_path / "a.bin"), str(tmp_path / "b.txt")).splitlines()
        name, cosine, euclidean, mae, mse = lines[1].split(",")
        assert name == "a.bin"
        assert float(cosine) == pytest.approx(20 / np.sqrt(14 * 30))
        assert (float(euclidean), float(mae), float(mse)) == pytest.approx((2, 2 / 3, 4 / 3))

    def test_folders_and_csv(self, tmp_path: Path) -> None:
        for name in ("x", "y"):
            (tmp_path / name).mkdir()
            np.save(tmp_path / name / "t.npy", np.arange(3.0))
        target = tmp_path / "out.csv"
        run(vec_diff.app, str(tmp_path / "x"), str(tmp_path / "y"), "-o", str(target))
        assert target.read_text().splitlines()[1] == "t.npy,1,0,0,0"

    def test_mistakes(self, tmp_path: Path) -> None:
        np.zeros(2, np.float32).tofile(tmp_path / "a.bin")
        np.zeros(3, np.float32).tofile(tmp_path / "b.bin")
        (tmp_path / "c.txt").write_text("one two")
        first, second, third = (str(tmp_path / name) for name in ("a.bin", "b.bin", "c.txt"))
        assert "holds 2 values" in run(vec_diff.app, first, second, code=255)
        assert "cannot be read" in run(vec_diff.app, first, third, code=255)
        assert "two files or two folders" in run(vec_diff.app, first, str(tmp_path), code=255)
