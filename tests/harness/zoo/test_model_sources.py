"""Where model files come from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest
from pydantic import ValidationError

from engine.errors import MissingError, ModelError, PtqlabError
from harness.zoo import model_sources
from harness.zoo.model_sources import PackageSource, TorchvisionSource, package_model, torchvision_model


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ({"distribution": "no-such-thing", "file": "a.onnx"}, MissingError, "pip install no-such-thing"),
        ({"distribution": "numpy", "file": "numpy/a.onnx"}, ModelError, "numpy has no file numpy/a.onnx"),
    ],
)
def test_a_package_that_lacks_the_model_is_named(
    source: dict[str, str], error: type[PtqlabError], message: str
) -> None:
    with pytest.raises(error, match=message):
        package_model(PackageSource(**source))


def test_a_file_of_an_installed_package_is_found() -> None:
    assert package_model(PackageSource(distribution="numpy", file="numpy/__init__.py")).is_file()


@pytest.mark.parametrize("path", ["/etc/model.onnx", "../model.onnx", "a/../../model.onnx"])
def test_files_stay_below_their_folder(path: str) -> None:
    for kind, options in ((PackageSource, {"distribution": "d", "file": path}), (TorchvisionSource, {"weights": path})):
        with pytest.raises(ValidationError, match="expected a path relative to the folder in which it is looked up"):
            kind.model_validate({"architecture": "resnet18", **options})


def test_an_architecture_is_a_plain_name() -> None:
    for name in ("ResNet", "os.system", "1net", ""):
        with pytest.raises(ValidationError, match="architecture"):
            TorchvisionSource(architecture=name)


def test_a_missing_package_says_how_to_get_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        MissingError, match=r"no-such is not installed: pip install no-such, or pip install 'efficientnet"
    ):
        package_model(PackageSource(distribution="no-such", file="a"))


class TestCache:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setattr(model_sources, "_export", lambda network, side: f"{network} {side}".encode())
        return tmp_path / "ptqlab" / "models"

    def test_a_network_is_exported_once(self, folder: Path) -> None:
        built: list[str] = []

        def build() -> Any:
            built.append("x")
            return "network"

        path = model_sources._exported("key", 32, build)
        assert path == folder / "key.onnx"
        assert path.read_bytes() == b"network 32"
        assert model_sources._exported("key", 32, build) == path
        assert built == ["x"]

    def test_the_key_covers_the_whole_source(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        keys: list[tuple[str, int]] = []
        monkeypatch.setenv("PTQLAB_MODELS", str(tmp_path))
        monkeypatch.setattr(model_sources, "_exported", lambda key, side, build: keys.append((key, side)))
        base = {"architecture": "resnet18"}
        for change in ({}, {"seed": 1}, {"classes": 10}, {"side": 64}, {"weights": "w.pt"}, {"architecture": "vgg11"}):
            torchvision_model(TorchvisionSource.model_validate({**base, **change}))
        assert len({key for key, _ in keys}) == 6
        assert [side for _, side in keys] == [224, 224, 224, 64, 224, 224]

    def test_weights_of_a_package_are_exported(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        keys: list[str] = []
        monkeypatch.setattr(model_sources, "_exported", lambda key, side, build: keys.append(key))
        file = tmp_path / "weights.pth"
        monkeypatch.setattr(model_sources, "_package_file", lambda source: file)
        for content in (b"1", b"12"):
            file.write_bytes(content)
            package_model(PackageSource(distribution="d", file="f", architecture="efficientnet-lite1"))
        assert len(set(keys)) == 2  # another size is another file
        assert package_model(PackageSource(distribution="d", file="f")) == file

    def test_without_the_variable_the_cache_is_in_the_home(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", "")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert model_sources._exported("k", 1, str).is_relative_to(tmp_path / ".cache" / "ptqlab")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("bytes", b""),
        ("bytes", b"garbage"),
        ("saved", [1]),
        ("saved", {1: 2}),
        ("saved", {"weight": 3}),
        ("none", None),
    ],
)
def test_weights_that_do_not_fit_are_one_error(tmp_path: Path, kind: str, content: Any) -> None:
    torch = pytest.importorskip("torch", reason="weights need the extra zoo")
    path = tmp_path / "weights.pt"
    if kind == "bytes":
        path.write_bytes(content)
    elif kind == "saved":
        torch.save(content, path)
    with pytest.raises(ModelError, match=r"weights\.pt: holds no weights for this network: ") as raised:
        model_sources._with_weights(torch.nn.Linear(2, 2), path)
    assert "\n" not in str(raised.value)


def test_metadata_of_a_model_and_of_none(tmp_path: Path) -> None:
    model = onnx.ModelProto(ir_version=8)
    entry = model.metadata_props.add()
    entry.key, entry.value = "characters", "ab"
    onnx.save(model, tmp_path / "m.onnx")
    assert model_sources.model_metadata(tmp_path / "m.onnx") == {"characters": "ab"}
    (tmp_path / "broken.onnx").write_bytes(b"\x08\x07:\x02")
    for name, said in (("broken.onnx", "Error parsing"), ("absent.onnx", "no such model file")):
        with pytest.raises(ModelError, match=f"{name}: {said}"):
            model_sources.model_metadata(tmp_path / name)


def test_an_unknown_architecture_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="architectures need the extra zoo")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    models = SimpleNamespace(list_models=lambda: ["resnet18"])
    monkeypatch.setattr(model_sources, "import_torchvision", lambda: SimpleNamespace(models=models))
    with pytest.raises(ModelError, match="torchvision has no architecture 'resnet19'"):
        torchvision_model(TorchvisionSource(architecture="resnet19"))
    assert not list(tmp_path.rglob("*.onnx"))


_EXPORT = """
import hashlib, torch
from harness.zoo.model_sources import _export

torch.manual_seed(0)
norms = [torch.nn.BatchNorm2d(64), torch.nn.BatchNorm2d(64, eps=1e-3, affine=False)]
for norm in norms:
    norm.running_var.copy_(torch.rand(64) * 4)
    norm.running_mean.copy_(torch.randn(64))
layers = [torch.nn.Conv2d(3, 64, 1), norms[0], torch.nn.ReLU(), norms[1], torch.nn.Conv2d(64, 8, 1)]
print(hashlib.sha256(_export(torch.nn.Sequential(*layers), 4)).hexdigest())
"""


@pytest.mark.nightly
@pytest.mark.parametrize("branch", ["COMPATIBLE", "AVX2"])
def test_an_export_does_not_depend_on_the_processor(branch: str) -> None:
    """``MKL_CBWR`` lets MKL compute as on another processor, where its square root has other last bits."""
    pytest.importorskip("torch", reason="exports need the extra zoo")
    found = [
        subprocess.run([sys.executable, "-c", _EXPORT], env=os.environ | said, capture_output=True, check=True).stdout
        for said in ({}, {"MKL_CBWR": branch})
    ]
    assert found[0] == found[1] != b""


@pytest.mark.parametrize("affine", [True, False])
def test_folded_statistics_compute_the_same(affine: bool) -> None:
    torch = pytest.importorskip("torch", reason="layers need the extra zoo")
    generator = torch.Generator().manual_seed(0)
    layer = torch.nn.BatchNorm2d(5, eps=1e-3, affine=affine)
    layer.running_var.copy_(torch.rand(5, generator=generator) * 4)
    layer.running_mean.copy_(torch.randn(5, generator=generator))
    if affine:
        with torch.no_grad():
            layer.weight.copy_(torch.randn(5, generator=generator))
            layer.bias.copy_(torch.randn(5, generator=generator))
    network, images = torch.nn.Sequential(layer).eval(), torch.randn(2, 5, 3, 3, generator=generator)
    with torch.no_grad():
        before = network(images)
        model_sources._fold_statistics(network)
        after = network(images)
    assert torch.allclose(before, after, rtol=1e-5, atol=1e-5)
    assert (layer.eps, layer.running_mean.abs().max(), layer.running_var.min()) == (0, 0, 1)
