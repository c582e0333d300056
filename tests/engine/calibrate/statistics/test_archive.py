"""Archives of arrays: read as written, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.calibrate.statistics.archive import DAMAGED, arrays_digest, read_archive, write_archive

ARRAYS = {
    "b": np.arange(6, dtype=np.int64).reshape(2, 3),
    "a": np.asarray([0.5], np.float32),
    "names": np.asarray(["x"]),
}


@pytest.mark.parametrize("compress", [False, True])
def test_arrays_are_read_as_they_were_written(tmp_path: Path, compress: bool) -> None:
    found = read_archive(write_archive(tmp_path / "a.npz", ARRAYS, compress))
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array, strict=True)


def test_compressed_archives_are_smaller(tmp_path: Path) -> None:
    zeros = {"zeros": np.zeros(10_000)}
    small, large = (write_archive(tmp_path / f"{flag}.npz", zeros, flag).stat().st_size for flag in (True, False))
    assert small * 10 < large


def test_the_digest_tells_names_types_shapes_and_values_apart() -> None:
    one = np.ones((2, 3), np.float32)
    variants = [{"a": one}, {"b": one}, {"a": one.astype(np.int32)}, {"a": one.reshape(3, 2)}, {"a": one * 2}, {}]
    assert len({arrays_digest(variant) for variant in variants}) == len(variants)
    assert arrays_digest({"a": one, "b": one}) == arrays_digest({"b": one, "a": np.asfortranarray(one)})


def test_what_was_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, a=np.ones(2), digest=np.asarray(arrays_digest({"a": np.zeros(2)})))
    with pytest.raises(ValueError, match="its content has changed since it was written"):
        read_archive(path)
    np.savez(path, a=np.ones(2))
    with pytest.raises(KeyError):
        read_archive(path)


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.save(path.with_suffix(".npy"), np.ones(2))
    path.with_suffix(".npy").rename(path)
    with pytest.raises(ValueError, match="not an archive of arrays"):
        read_archive(path)


def test_every_damage_is_one_of_those_that_callers_catch(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "a.npz", ARRAYS, compress=True)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [content[:length] for length in rng.integers(0, len(content), 40)]
    for place in rng.integers(0, len(content), 200):
        damaged.append(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
    refused = 0
    for data in damaged:
        path.write_bytes(data)
        try:
            found = read_archive(path)
        except DAMAGED:
            refused += 1
        else:
            assert arrays_digest(found) == arrays_digest(ARRAYS)
    assert refused > len(damaged) // 2


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, a=np.asarray([{}], object), digest=np.asarray(""))
    with pytest.raises(ValueError, match="allow_pickle"):
        read_archive(path)
