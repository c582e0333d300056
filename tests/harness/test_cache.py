"""Content-addressed files."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from harness.cache import Cache, Codec, content_key, load_arrays, save_arrays
from harness.exchange import Exchange
from tests.harness import fakes

TEXT = Codec(".txt", lambda text, path: path.write_text(text), lambda path: path.read_text())


def test_keys_depend_on_content_only() -> None:
    assert content_key("a", {"x": 1, "y": 2}) == content_key("a", {"y": 2, "x": 1})
    assert content_key("a", 1) != content_key("a", 2)
    assert content_key("ab") != content_key("a", "b")
    assert content_key(fakes.spec()) == content_key(fakes.spec())


def test_a_spec_has_the_same_key_after_its_key_was_asked_for() -> None:
    first, second = fakes.spec(), fakes.spec()
    assert first.key == second.key
    assert first == second
    assert content_key(first) == content_key(fakes.spec())


def test_a_result_is_computed_once_even_by_many_at_a_time(tmp_path: Path) -> None:
    calls = []

    def compute() -> str:
        calls.append(1)
        return "result"

    cache, found = Cache(tmp_path), []
    threads = [threading.Thread(target=lambda: found.append(cache.get("kind", "key", TEXT, compute))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["result"] * 8
    assert len(calls) == 1
    assert cache.path("kind", "key", ".txt").read_text() == "result"


def test_a_computation_that_fails_leaves_nothing(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    with pytest.raises(ZeroDivisionError):
        cache.get("kind", "key", TEXT, lambda: str(1 / 0))
    assert cache.get("kind", "key", TEXT, lambda: "second") == "second"


def test_arrays_survive(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([True, False])}
    save_arrays(arrays, tmp_path / "deep" / "x.npz")
    found = load_arrays(tmp_path / "deep" / "x.npz")
    assert set(found) == {"a", "b"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["x.npz"]


def test_objects_are_never_pickled(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"[Oo]bject arrays"):
        save_arrays({"a": np.array([object()])}, tmp_path / "x.npz")


def test_what_another_machine_computed_is_fetched(tmp_path: Path) -> None:
    exchange = Exchange((tmp_path / "shared").as_uri())
    caches = [Cache(tmp_path / name / "cache", exchange) for name in ("first", "second")]
    assert caches[0].get("kind", "key", TEXT, lambda: "result") == "result"
    assert caches[1].get("kind", "key", TEXT, lambda: str(1 / 0)) == "result"
    path = caches[1].path("kind", "other", ".txt")
    assert not caches[1].has(path)
    path.write_text("other")
    caches[1].share(path)
    assert caches[0].has(caches[0].path("kind", "other", ".txt"))
    assert not Cache(tmp_path / "third").has(tmp_path / "third" / "kind" / "other.txt")


@pytest.mark.parametrize("kind", ["result", "digest"])
def test_one_flipped_bit_anywhere_is_found_reported_and_computed_anew(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache, calls, arrays = Cache(tmp_path), [], {"a": np.arange(6.0), "b": np.array([True])}
    codec = Codec(".npz", save_arrays, load_arrays)

    def compute() -> dict[str, np.ndarray]:
        calls.append(1)
        return arrays

    cache.get("stage", "key", codec, compute)
    path = cache.path("stage", "key", ".npz")
    flipped = path if kind == "result" else path.with_name("key.npz.sha256")
    whole = flipped.read_bytes()
    places = range(0, len(whole), max(1, len(whole) // 40))
    for count, place in enumerate(places, 2):
        flipped.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        caplog.clear()
        found = cache.get("stage", "key", codec, compute)
        np.testing.assert_array_equal(found["a"], arrays["a"])
        assert len(calls) == count
        assert "is damaged (its SHA-256 differs) and is recomputed" in caplog.text
        assert cache.get("stage", "key", codec, compute)
        assert len(calls) == count
        assert path.read_bytes() == (whole if kind == "result" else path.read_bytes())


def test_a_result_without_a_digest_is_taken(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.get("kind", "key", TEXT, lambda: "first") == "first"
    cache.path("kind", "key", ".txt.sha256").unlink()
    assert cache.get("kind", "key", TEXT, lambda: "second") == "first"
