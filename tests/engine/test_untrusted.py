"""Arrays and images of strangers: one ValueError for whatever is wrong, before anything large is allocated."""

from __future__ import annotations

import contextlib
import io
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.untrusted import NUMBERS, opened_image, read_npy


def npy(header: str, content: bytes = b"") -> bytes:
    """A ``.npy`` file of version 1.0 with this header."""
    text = header.encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


def npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, a=np.zeros(3))
    return stream.getvalue()


def of(shape: str, kind: str = "'|u1'") -> str:
    return f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}"


@pytest.mark.parametrize(
    "array",
    [np.arange(6.0).reshape(2, 3), np.array([True, False]), np.array(7, np.int16), np.zeros((0, 4), np.float32)],
)
def test_arrays_of_numbers_are_read(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", array)
    found = read_npy(tmp_path / "a.npy")
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ""),
        (b"1234", "magic string"),
        (npz(), "magic string"),
        (npy(of("(1000000000000,)"), b"123"), r"less than its shape \(1000000000000,\) of uint8 needs"),
        (npy(of("(4,)"), b"123"), r"less than its shape \(4,\)"),
        (npy(of("(-3,)"), b"123"), r"less than its shape \(-3,\)"),
        (npy(of("(3,)", "'|O'"), b"123"), "holds object, not one array of numbers"),
        (npy(of("(3,)", "[('a', '|u1')]"), b"123"), "not one array of numbers"),
        (npy(of("(1,)", "'<U1'"), b"abcd"), "not one array of numbers"),
        (npy("{'descr': '|u1', 'fort"), ""),
        (npy("(" * 3000), ""),
    ],
)
def test_anything_else_is_one_error(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(ValueError, match=rf"^not a readable \.npy file \(.*{message}"):
        read_npy(tmp_path / "a.npy")


def test_texts_where_they_are_expected(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array(["cat", "dog"]))
    assert read_npy(tmp_path / "a.npy", NUMBERS + "U").tolist() == ["cat", "dog"]


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        read_npy(tmp_path / "a.npy")


def bomb() -> bytes:
    """A PNG of 60000 x 60000 pixels in a hundred bytes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"0")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "cannot identify"), (b"no image", "cannot identify"), (bomb(), "decompression bomb")]
)
def test_files_that_are_no_images(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(ValueError, match=rf"^not a readable image \(.*{message}"), opened_image(tmp_path / "a.png"):
        pass


def test_an_image_whose_pixels_are_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(np.random.RandomState(0).randint(0, 256, (32, 32, 3)).astype(np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="truncated"), opened_image(path):
        pass


def test_warnings_of_metadata_are_not_shown(tmp_path: Path) -> None:
    """A directory of tags that ends early: Pillow warns of it, the pixels are there."""
    path = tmp_path / "a.tiff"
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(path)
    content = bytearray(path.read_bytes())
    tags = int.from_bytes(content[4:8], "little")
    content[tags : tags + 2] = (int.from_bytes(content[tags : tags + 2], "little") + 1).to_bytes(2, "little")
    path.write_bytes(content[:-3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(ValueError), opened_image(path):
            pass
        with pytest.raises(UserWarning, match="own"):
            warnings.warn("own", UserWarning, stacklevel=1)
        warnings.warn_explicit("Truncated File Read", UserWarning, "TiffImagePlugin.py", 1, "PIL.TiffImagePlugin")


def test_warnings_of_sizes_are_not_shown(tmp_path: Path) -> None:
    """Pillow warns of half the pixels that it refuses; ``PTQLAB_MAX_IMAGE_PIXELS`` is the limit here."""
    path = tmp_path / "a.png"
    Image.new("1", (12000, 12000)).save(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with opened_image(path) as image:
            assert image.size == (12000, 12000)


def test_a_fault_of_the_program_is_no_bad_image(tmp_path: Path) -> None:
    Image.new("L", (1, 1)).save(tmp_path / "a.png")
    with pytest.raises(TypeError, match="own"), opened_image(tmp_path / "a.png"):
        raise TypeError("own")


def test_a_reader_of_pillow_that_fails(tmp_path: Path) -> None:
    """A TIFF whose offset of the pixels is a fraction: Pillow 12 raises a TypeError."""
    path = tmp_path / "a.tiff"
    Image.new("RGB", (4, 4)).save(path)
    content = bytearray(path.read_bytes())
    tags = int.from_bytes(content[4:8], "little")
    for entry in range(tags + 2, tags + 2 + 12 * int.from_bytes(content[tags : tags + 2], "little"), 12):
        if int.from_bytes(content[entry : entry + 2], "little") == 273:  # StripOffsets
            content[entry + 2 : entry + 4] = (5).to_bytes(2, "little")  # RATIONAL
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a readable image"), opened_image(path):
        pass


def test_rare_formats_are_not_read(tmp_path: Path) -> None:
    Image.new("L", (1, 1)).save(tmp_path / "a.png", "PCX")
    with pytest.raises(ValueError, match="cannot identify"), opened_image(tmp_path / "a.png"):
        pass


def test_the_number_of_pixels_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    Image.new("L", (10, 10)).save(path)
    monkeypatch.setenv("PTQLAB_MAX_IMAGE_PIXELS", "100")
    with opened_image(path) as image:
        assert image.size == (10, 10)
    monkeypatch.setenv("PTQLAB_MAX_IMAGE_PIXELS", "99")
    with pytest.raises(ValueError, match="10 x 10: more than 99 pixels"), opened_image(path):
        pass


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "GIF", "TIFF"])
def test_damaged_chunks(tmp_path: Path, kind: str) -> None:
    """One flipped byte anywhere: an image or a ValueError."""
    stream = io.BytesIO()
    Image.fromarray(np.random.RandomState(0).randint(0, 256, (24, 24, 3)).astype(np.uint8)).save(stream, kind)
    whole, path = stream.getvalue(), tmp_path / "a.img"
    for place in range(0, len(whole), max(1, len(whole) // 120)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x80]) + whole[place + 1 :])
        with contextlib.suppress(ValueError), opened_image(path) as image:
            assert image.convert("RGB").mode == "RGB"
