"""Content-addressed files."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import numpy as np
import pytest
from pydantic import BaseModel

from engine.errors import OutputError
from harness.files.cache import Cache, Codec, content_key, load_arrays, load_json, locked, save_arrays, save_json
from harness.files.exchange import Exchange
from tests.harness import fakes


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
    threads = [
        threading.Thread(target=lambda: found.append(cache.get("kind", "key", fakes.TEXT, compute))) for _ in range(8)
    ]
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
        cache.get("kind", "key", fakes.TEXT, lambda: str(1 / 0))
    assert cache.get("kind", "key", fakes.TEXT, lambda: "second") == "second"


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
    assert caches[0].get("kind", "key", fakes.TEXT, lambda: "result") == "result"
    assert caches[1].get("kind", "key", fakes.TEXT, lambda: str(1 / 0)) == "result"
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
    assert cache.get("kind", "key", fakes.TEXT, lambda: "first") == "first"
    cache.path("kind", "key", ".txt.sha256").unlink()
    assert cache.get("kind", "key", fakes.TEXT, lambda: "second") == "first"


def test_a_file_system_without_locks_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    words = r"a\.npz: cannot be locked \(No locks available\); put the working"
    with pytest.raises(OutputError, match=words), locked(tmp_path / "a.npz"):
        pass


def test_json_that_has_changed_is_refused_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Figure(BaseModel):
        value: float

    path = tmp_path / "figure.json"
    save_json(Figure(value=0.9), path)
    assert load_json(Figure, path).value == 0.9
    path.write_bytes(path.read_bytes().replace(b"0.9", b"0.8"))
    with pytest.raises(ValueError, match="SHA-256"):
        load_json(Figure, path)
    assert f"{path}: is damaged: its SHA-256 differs" in caplog.text


def test_a_result_whose_digest_nobody_kept_gets_one(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.get("kind", "key", fakes.TEXT, lambda: "text")
    digest = tmp_path / "kind" / "key.txt.sha256"
    kept = digest.read_bytes()
    digest.unlink()  # as a kill leaves it
    assert cache.get("kind", "key", fakes.TEXT, lambda: "other") == "text"
    assert digest.read_bytes() == kept
