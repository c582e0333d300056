"""Calibration data from arrays and folders."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import helper
from PIL import Image

from engine.calibrate.data.sources import ArrayData, open_folders
from engine.config import InputSpec
from engine.errors import CalibrationDataError
from engine.terms import InputType, Layout
from tests.engine.calibrate.models import graph

RGB = InputSpec(name="x", type_train=InputType.RGB, type_rt=InputType.RGB)
MAP = InputSpec(name="x")


def model(shape: tuple[int, ...] = (1, 3, 4, 6)) -> ir.Model:
    return graph([helper.make_node("Neg", ["x"], ["y"], name="neg")], {"x": shape}, ["y"])


def pixels(count: int, shape: tuple[int, ...] = (3, 4, 6), seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), np.uint8)


def write(folder: Path, arrays: NDArray, suffix: str = ".bin") -> Path:
    folder.mkdir()
    for index, array in enumerate(arrays):
        path = folder / f"{index:03}{suffix}"
        if suffix == ".npy":
            np.save(path, array)
        else:
            array.tofile(path)
    return folder


@pytest.mark.parametrize(
    ("folder", "dtype", "types", "suffix"),
    [
        ("images", np.uint8, (), ".bin"),
        ("images_f32", np.float32, (), ".rgb"),
        ("images_f32", np.uint8, ("uint8",), ".bin"),
        ("images", np.float32, ("float32",), ".bin"),
        ("images", np.uint8, (), ".npy"),
        ("images", np.float64, (), ".npy"),
    ],
)
def test_images_are_fed_minus_128(
    tmp_path: Path, folder: str, dtype: type, types: tuple[str, ...], suffix: str
) -> None:
    images = pixels(5)
    data = open_folders(model(), [RGB], [write(tmp_path / folder, images.astype(dtype), suffix)], types)
    assert len(data) == 5
    fed = data.read(1, 4)["x"]
    assert fed.dtype == np.float32
    np.testing.assert_array_equal(fed, images[1:4].astype(np.float32) - 128)


def test_feature_maps_are_float32_and_fed_as_they_are(tmp_path: Path) -> None:
    maps = np.random.default_rng(0).standard_normal((3, 3, 4, 6)).astype(np.float32)
    data = open_folders(model(), [MAP], [write(tmp_path / "maps", maps)])
    np.testing.assert_array_equal(data.read(0, 3)["x"], maps)


@pytest.mark.parametrize("layout", [Layout.NCHW, Layout.NHWC])
def test_colours_are_converted_to_the_run_time_format(layout: Layout) -> None:
    spec = RGB.model_copy(update={"type_rt": InputType.BGR, "layout_train": layout})
    images = pixels(2)
    trained = images if layout is Layout.NCHW else images.transpose(0, 2, 3, 1)
    fed = ArrayData({"x": trained}, [spec]).read(0, 2)["x"]
    expected = images[:, ::-1].astype(np.float32) - 128
    np.testing.assert_array_equal(fed if layout is Layout.NCHW else fed.transpose(0, 3, 1, 2), expected)


def test_files_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "maps"
    folder.mkdir()
    for number in (10, 9, 2):
        np.full(72, number, np.float32).tofile(folder / f"{number:02}.bin")
    (folder / ".hidden").write_bytes(b"x")
    (folder / "sub").mkdir()
    data = open_folders(model(), [MAP], [folder])
    assert data.read(0, 3)["x"][:, 0, 0, 0].tolist() == [2, 9, 10]
    first = folder / "02.bin"
    assert data.first_files() == {str(first): hashlib.md5(first.read_bytes()).hexdigest()}


@pytest.mark.parametrize(("kind", "mode"), [(InputType.RGB, "RGB"), (InputType.BGR, "RGB"), (InputType.GRAY, "L")])
def test_image_files_are_resized_and_converted(tmp_path: Path, kind: InputType, mode: str) -> None:
    channels = 1 if kind is InputType.GRAY else 3
    folder = tmp_path / "pictures"
    folder.mkdir()
    picture = np.full((40, 50, 3), (200, 100, 50), np.uint8)
    for index in range(2):
        Image.fromarray(picture).save(folder / f"{index}.png")
    spec = InputSpec(name="x", type_train=kind, type_rt=kind)
    fed = open_folders(model((1, channels, 4, 6)), [spec], [folder], preprocess_on=True).read(0, 2)["x"]
    expected = np.asarray(Image.fromarray(picture).convert(mode).getpixel((0, 0))).reshape(-1)
    if kind is InputType.BGR:
        expected = expected[::-1]
    assert fed.shape == (2, channels, 4, 6)
    np.testing.assert_array_equal(fed[:, :, 1, 1], np.broadcast_to(expected.astype(np.float32) - 128, (2, channels)))


@pytest.mark.parametrize("size", [(40, 64), (96, 128), (9, 7), (31, 200)])
def test_images_are_resized_as_scikit_image_does_without_smoothing(tmp_path: Path, size: tuple[int, int]) -> None:
    transform = pytest.importorskip("skimage.transform", reason="the extra images is not installed")
    picture = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
    Image.fromarray(picture).save(tmp_path / "a.png")
    found = open_folders(model((1, 3, *size)), [RGB], [tmp_path], preprocess_on=True).read(0, 1)["x"][0] + 128
    expected = transform.resize(picture, size, order=1, anti_aliasing=False) * 255
    assert np.abs(found - expected.transpose(2, 0, 1)).max() <= 0.5 + 1e-3


def test_images_of_16_bits_give_their_upper_8(tmp_path: Path) -> None:
    deep = np.random.default_rng(0).integers(0, 1 << 16, (4, 6), np.uint16)
    Image.fromarray(deep).save(tmp_path / "a.png")
    samples = open_folders(model(), [RGB], [tmp_path], preprocess_on=True).read(0, 1)["x"]
    np.testing.assert_array_equal(samples + 128, np.broadcast_to(deep >> 8, (1, 3, 4, 6)))


def test_images_of_floats_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((4, 6), np.float32)).save(tmp_path / "a.tiff")
    with pytest.raises(CalibrationDataError, match=r"a\.tiff: its pixels are of mode F; 8 or 16 bits"):
        open_folders(model(), [RGB], [tmp_path], preprocess_on=True).read(0, 1)


def test_images_that_would_fill_the_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    Image.new("RGB", (6, 4)).save(tmp_path / "a.png")
    with pytest.raises(CalibrationDataError, match=r"a\.png: not a readable image .*exceeds limit"):
        open_folders(model(), [RGB], [tmp_path], preprocess_on=True).read(0, 1)


def test_inputs_of_a_model_are_paired(tmp_path: Path) -> None:
    two = graph([helper.make_node("Sub", ["a", "b"], ["y"], name="sub")], {"a": (1, 2), "b": (1, 2)}, ["y"])
    specs = [InputSpec(name="b"), InputSpec(name="a")]
    maps = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    folders = [write(tmp_path / name, maps[index]) for index, name in enumerate(("b", "a"))]
    fed = open_folders(two, specs, folders).read(1, 3)
    np.testing.assert_array_equal(fed["b"], maps[0, 1:])
    np.testing.assert_array_equal(fed["a"], maps[1, 1:])
    (folders[0] / "002.bin").unlink()
    with pytest.raises(CalibrationDataError, match="same number of calibration files"):
        open_folders(two, specs, folders)


def folder_with(tmp_path: Path, name: str, content: bytes) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / name).write_bytes(content)
    return folder


def test_missing_and_empty_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CalibrationDataError, match=r"Cal_data_dir does not exist: .*absent; .*ptqlab prepare"):
        open_folders(model(), [MAP], [tmp_path / "absent"])
    with pytest.raises(CalibrationDataError, match=r"is empty, please check calibration pics$"):
        open_folders(model(), [MAP], [tmp_path])
    with pytest.raises(CalibrationDataError, match=r"Cal_data_dir is not a directory: .*a\.bin"):
        open_folders(model(), [MAP], [folder_with(tmp_path, "a.bin", b"") / "a.bin"])
    with pytest.raises(CalibrationDataError, match=r"is empty, please .*: it holds 1 directories and no file"):
        open_folders(model(), [MAP], [tmp_path])


def test_links_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "maps", np.zeros((2, 72), np.float32))
    (folder / "002.bin").symlink_to("000.bin")
    assert len(open_folders(model(), [MAP], [folder])) == 3
    (folder / "003.bin").symlink_to("absent")
    with pytest.raises(CalibrationDataError, match=r"003\.bin: not a readable file, or a broken link"):
        open_folders(model(), [MAP], [folder])


def test_files_that_fail_while_they_are_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "000.bin").symlink_to("/proc/self/mem")
    with pytest.raises(CalibrationDataError, match=r"000\.bin: cannot be read"):
        open_folders(model(), [MAP], [tmp_path]).read(0, 1)


@pytest.mark.parametrize("shape", [(72,), (3, 4, 6), (1, 3, 4, 6), (3, 4, 1, 6)])
def test_arrays_may_lack_dimensions_of_one(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "a.NPY", np.arange(72).reshape(shape))
    (tmp_path / "a.NPY.npy").rename(tmp_path / "a.NPY")
    samples = open_folders(model(), [MAP], [tmp_path]).read(0, 1)["x"]
    np.testing.assert_array_equal(samples, np.arange(72, dtype=np.float32).reshape(1, 3, 4, 6))


def test_arrays_of_another_layout_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((1, 4, 6, 3), np.float32))
    with pytest.raises(CalibrationDataError, match=r"a\.npy: .*\(1, 3, 4, 6\).* has the shape \(1, 4, 6, 3\)"):
        open_folders(model(), [MAP], [tmp_path]).read(0, 1)


@pytest.mark.parametrize(
    ("shape", "axes"), [((1, 4, 6, 3), (0, 3, 1, 2)), ((4, 6, 3), (2, 0, 1)), ((1, 4, 3, 6), None), ((6, 4, 3), None)]
)
def test_the_way_out_of_another_layout(tmp_path: Path, shape: tuple[int, ...], axes: tuple[int, ...] | None) -> None:
    array = np.zeros(shape, np.float32)
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(CalibrationDataError) as caught:
        open_folders(model(), [MAP], [tmp_path]).read(0, 1)
    if axes is None:
        assert "transpose" not in str(caught.value)
    else:
        assert str(caught.value).endswith(f"write numpy.transpose(array, {axes})")
        np.save(tmp_path / "a.npy", np.transpose(array, axes))
        open_folders(model(), [MAP], [tmp_path]).read(0, 1)


@pytest.mark.parametrize("name", [".DS_Store", "Thumbs.db", "desktop.ini"])
def test_files_of_the_system_are_no_samples(tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "a.npy", np.zeros((1, 3, 4, 6), np.float32))
    (tmp_path / name).write_bytes(b"x")
    assert len(open_folders(model(), [MAP], [tmp_path])) == 1


@pytest.mark.parametrize(
    ("name", "content", "spec", "message"),
    [
        ("a.bin", b"\0" * 40, MAP, r"a\.bin: cannot reshape array of size 10 into shape \(1, 3, 4, 6\).*float32"),
        ("a.bin", b"\0" * 290, MAP, r"a\.bin: .*expected are 72 values.* holds 72 and 2 bytes of type float32"),
        (
            "a.jpg",
            b"\0" * 288,
            RGB,
            r"a\.jpg: is an image; calibration samples .* shape .* unless preprocess_on is True",
        ),
        ("a.bin", b"\0" * 288, RGB, r"a\.bin: cannot reshape array of size 288.*uint8; is cal_data_type right"),
        ("a.npz", b"\0" * 40, MAP, r"a\.npz: is an archive of arrays; write every array by itself, with numpy\.save"),
        ("a.npy", b"\0" * 40, MAP, r"a\.npy: not a readable \.npy file"),
    ],
)
def test_files_that_do_not_fit_are_named(
    tmp_path: Path, name: str, content: bytes, spec: InputSpec, message: str
) -> None:
    data = open_folders(model(), [spec], [folder_with(tmp_path, name, content)])
    with pytest.raises(CalibrationDataError, match=message):
        data.read(0, 1)


def test_arrays_of_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asarray([{}], object), allow_pickle=True)
    with pytest.raises(CalibrationDataError, match="not a readable"):
        open_folders(model(), [MAP], [tmp_path]).read(0, 1)


def test_texts_are_no_samples(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asarray(["a"] * 72))
    with pytest.raises(CalibrationDataError, match="one array of numbers"):
        open_folders(model(), [MAP], [tmp_path]).read(0, 1)


def test_what_is_no_image_is_named(tmp_path: Path) -> None:
    data = open_folders(model(), [RGB], [folder_with(tmp_path, "labels.csv", b"a,b")], preprocess_on=True)
    with pytest.raises(CalibrationDataError, match=r"labels\.csv: not a readable image"):
        data.read(0, 1)


def test_wrong_parameters_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "maps", np.zeros((1, 72), np.float32))
    with pytest.raises(CalibrationDataError, match="cal_dir num 0 is not equal to input num 1"):
        open_folders(model(), [MAP], [])
    with pytest.raises(CalibrationDataError, match="cal_data_type num 2 is not equal to input num 1"):
        open_folders(model(), [MAP], [folder], ["uint8", "uint8"])
    with pytest.raises(CalibrationDataError, match="allowed are"):
        open_folders(model(), [MAP], [folder], ["int4"])
    with pytest.raises(CalibrationDataError, match="preprocess_on needs image inputs"):
        open_folders(model(), [MAP], [folder], preprocess_on=True)
    with pytest.raises(CalibrationDataError, match=r"takes 2 images at once.*preprocess_on reads one image per file"):
        open_folders(model((2, 3, 4, 6)), [RGB], [folder], preprocess_on=True)
    with pytest.raises(CalibrationDataError, match="the model's inputs are"):
        open_folders(model(), [InputSpec(name="z")], [folder])
    with pytest.raises(CalibrationDataError, match="different numbers"):
        ArrayData({"a": np.zeros((2, 1)), "b": np.zeros((3, 1))})


def test_digests_tell_data_and_formats_apart(tmp_path: Path) -> None:
    images = pixels(2)
    bgr = RGB.model_copy(update={"type_rt": InputType.BGR})
    arrays = [ArrayData({"x": images}, [RGB]), ArrayData({"x": images}, [bgr]), ArrayData({"x": images[::-1]}, [RGB])]
    folder = write(tmp_path / "images", images)
    folders = [open_folders(model(), [RGB], [folder]), open_folders(model(), [RGB], [folder], ["float32"])]
    digests = [data.digest() for data in (*arrays, *folders)]
    assert len(set(digests)) == 5
    assert ArrayData({"x": images.copy()}, [RGB]).digest() == digests[0]
