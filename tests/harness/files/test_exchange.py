"""A store that machines share: one contract for folders, memory and a real S3 server on loopback."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import ConfigError, MissingError
from harness.files.exchange import Exchange, checked_url
from tests.harness.s3 import s3_server


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with s3_server() as (url, environment), pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield url


@pytest.fixture(params=["file", "memory", "s3"])
def exchange(request: pytest.FixtureRequest, tmp_path: Path) -> Exchange:
    if request.param == "s3":
        return Exchange(f"{request.getfixturevalue('bucket')}/sweeps")
    return Exchange({"file": (tmp_path / "shared").as_uri(), "memory": f"memory://{tmp_path.name}"}[request.param])


def test_what_is_pushed_is_pulled(exchange: Exchange, tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine.npz", tmp_path / "deep" / "theirs.npz"
    assert exchange.names("trials") == set()
    assert not exchange.pull("trials/a.npz", theirs)
    for content in (b"first", b"second, which is longer"):
        mine.write_bytes(content)
        exchange.push(mine, "trials/a.npz")
        exchange.push(mine, "cache/kind/b.npz")
        assert exchange.pull("trials/a.npz", theirs)
        assert theirs.read_bytes() == content
    assert exchange.names("trials") == {"a.npz"}
    assert [path.name for path in theirs.parent.iterdir()] == ["theirs.npz"]
    exchange.remove("cache")
    exchange.remove("cache")
    assert not exchange.pull("cache/kind/b.npz", theirs)
    assert exchange.names("trials") == {"a.npz"}


def test_a_folder_never_shows_half_an_object(tmp_path: Path) -> None:
    exchange, path = Exchange((tmp_path / "shared").as_uri()), tmp_path / "file"
    exchange.push(_filled(path, b"0"), "object")
    done = threading.Event()

    def write() -> None:
        for digit in range(40):
            exchange.push(_filled(path, str(digit % 10).encode()), "object")
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while not done.is_set():
        assert exchange.pull("object", tmp_path / "seen")
        content = (tmp_path / "seen").read_bytes()
        seen.append((len(content), len(set(content))))
    writer.join()
    assert set(seen) == {(1 << 18, 1)}
    assert [found.name for found in (tmp_path / "shared").iterdir()] == ["object"]


def _filled(path: Path, digit: bytes) -> Path:
    path.write_bytes(digit * (1 << 18))
    return path


def test_a_store_that_is_away_is_the_environment(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingError, match=r"store file://.*/file/below: cannot be written: "):
        Exchange((tmp_path / "file" / "below").as_uri()).push(tmp_path / "file", "object")


def test_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(MissingError, match="store gs://bucket/x: pip install gcsfs"):
        Exchange("gs://bucket/x").pull("object", tmp_path / "file")


@pytest.mark.parametrize(
    ("url", "expected"),
    [(None, ""), ("", ""), ("s3://bucket/x/", "s3://bucket/x"), ("/tmp/x", "file:///tmp/x")],
)
def test_urls(url: str | None, expected: str) -> None:
    assert checked_url(url) == expected


@pytest.mark.parametrize(("url", "words"), [("memory://x", "not shared"), ("nowhere://x", "no such protocol")])
def test_urls_that_nobody_can_share_are_refused(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"--store {url}: .*{words}.*; allowed are s3://"):
        checked_url(url)
