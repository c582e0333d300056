"""Which files and tools a module's results depend on, shown with a made-up package."""

from __future__ import annotations

import itertools
import json
import textwrap
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import numpy
import pytest

from engine import fingerprint
from engine.fingerprint import ABSENT, Fingerprint, digest_of, fingerprint_of, version_of
from engine.sealed import unsealed
from engine.user_cache import read_kept, write_kept

_names = (f"fingerprinted{index}" for index in itertools.count())
Package = Callable[..., set[str]]


@pytest.fixture
def files_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """Writes a package of the given files, ``PKG`` being its name; gives the files that ``module`` depends on."""

    def write(module: str, **sources: str) -> set[str]:
        return set(_written(tmp_path, monkeypatch, module, sources).files)

    return write


def _written(folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, sources: dict[str, str]) -> Fingerprint:
    package = next(_names)
    for name, text in {"__init__": "", **sources}.items():
        path = folder / package / f"{name.replace('__in__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).replace("PKG", package), encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    found = fingerprint_of(f"{package}.{module}")
    return Fingerprint({name.removeprefix(f"{package}/"): value for name, value in found.files.items()}, found.tools)


def test_what_is_imported_in_turn_counts_and_what_is_not_does_not(files_of: Package) -> None:
    found = files_of("a", a="from PKG import b", b="def f():\n    import PKG.c", c="", d="")
    assert found == {"__init__.py", "a.py", "b.py", "c.py"}  # "from PKG" reads the package itself


def test_relative_imports_are_resolved(files_of: Package) -> None:
    found = files_of(
        "sub.a", sub__in____init__="", sub__in__a="from .b import x\nfrom .. import c", sub__in__b="", c=""
    )
    assert found == {"sub/a.py", "sub/b.py", "__init__.py", "c.py"}


def test_who_enters_a_package_runs_the_top_of_its_init_only(files_of: Package) -> None:
    found = files_of(
        "a",
        a="import PKG.sub.b",
        sub__in____init__="import PKG.c\ndef f():\n    import PKG.d",
        sub__in__b="",
        c="",
        d="",
    )
    assert found == {"a.py", "sub/__init__.py", "sub/b.py", "c.py"}


def test_imports_for_type_checkers_count_for_nothing(files_of: Package) -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import PKG.b\nelse:\n    import PKG.c"
    assert files_of("a", a=text, b="", c="") == {"a.py", "c.py"}


def test_a_text_that_names_a_module_counts_but_for_the_name_of_a_logger(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("NAME = 'engine.terms'\nLOG = logging.getLogger('engine.jit')\nTEXT = 'see engine.ir'", "utf-8")
    assert fingerprint._imports(path, "m")[1] == (["engine.terms"], [])


def test_names_that_a_package_imports_on_first_use_count_as_imports_inside_functions(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("__getattr__ = lazily(__name__, {'Session': 'engine.simulate.session'})", "utf-8")
    assert fingerprint._imports(path, "m")[1] == ([], ["engine.simulate.session"])


def test_data_beside_a_module_and_in_folders_without_modules_count(tmp_path: Path, files_of: Package) -> None:
    package = tmp_path / "fingerprinted_data"
    for name in ("__init__.py", "a.py", "t.yaml", "more/deep/u.json", "code/v.yaml", "code/m.py", "__pycache__/a.pyc"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("", encoding="utf-8")
    files_of("a", a="")  # puts the folder on the path
    found = {name.removeprefix("fingerprinted_data/") for name in fingerprint_of("fingerprinted_data.a").files}
    assert found == {"a.py", "t.yaml", "more/deep/u.json"}


def test_tools_are_distributions_and_python_but_not_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _written(tmp_path, monkeypatch, "a", {"a": "import json, numpy, yaml, no_such_package"})
    assert found.tools.keys() == {"python", "numpy", "PyYAML", "no_such_package"}
    assert found.tools["numpy"] == numpy.__version__
    assert found.tools["no_such_package"] == ABSENT


def test_the_digest_follows_content_and_versions_only() -> None:
    first = Fingerprint({"a.py": "1", "b.py": "2"}, {"numpy": "2"})
    assert first.digest == Fingerprint({"b.py": "2", "a.py": "1"}, {"numpy": "2"}).digest
    others = [Fingerprint({"a.py": "1", "b.py": "3"}, {"numpy": "2"}), Fingerprint(first.files, {"numpy": "3"})]
    assert first.digest not in [other.digest for other in others]


def test_a_digest_is_96_bits_of_the_sha256_of_json() -> None:
    assert digest_of({"b": 1, "a": [2]}) == digest_of({"a": [2], "b": 1})
    assert digest_of(1) == "080a9ed428559ef602668b4c"  # of "[1]"
    assert digest_of(1) != digest_of("1")


def test_versions() -> None:
    assert version_of("numpy") == metadata.version("numpy")
    assert version_of("no-such-distribution") == "absent"


def test_a_name_that_is_no_package_is_refused() -> None:
    with pytest.raises(LookupError, match="is no package"):
        fingerprint_of("no_such_package_at_all.a")


class TestKept:
    """What was parsed is kept between processes."""

    @pytest.fixture(autouse=True)
    def fresh(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        self.forget()
        yield
        self.forget()

    def forget(self) -> None:
        """As in another process."""
        for cached in (fingerprint._kept, fingerprint._imports, fingerprint._links, fingerprint_of):
            cached.cache_clear()

    def package(self, folder: Path) -> str:
        """The name of the one that :func:`files_of` wrote."""
        return next(path.name for path in folder.glob("fingerprinted*"))

    def test_a_source_is_parsed_once(self, files_of: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        first = files_of("a", a="from PKG import b", b="")
        self.forget()
        monkeypatch.setattr(fingerprint, "_parsed", lambda *_: pytest.fail("parsed again"))
        again = fingerprint_of(f"{self.package(tmp_path)}.a")
        assert {name.partition("/")[2] for name in again.files} == first

    def test_a_changed_source_is_parsed_again(self, files_of: Package, tmp_path: Path) -> None:
        files_of("a", a="from PKG import b", b="", c="")
        package = self.package(tmp_path)
        (tmp_path / package / "a.py").write_text(f"from {package} import c", encoding="utf-8")
        self.forget()
        assert set(fingerprint_of(f"{package}.a").files) == {f"{package}/{name}.py" for name in ("__init__", "a", "c")}

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": 1}', b'{"a":1,"sha256":"' + b"0" * 64 + b'"}'])
    def test_a_damaged_file_is_done_without(self, files_of: Package, content: bytes) -> None:
        write_kept("imports.json", content)
        assert files_of("a", a="import PKG.b", b="") == {"a.py", "b.py"}

    def test_no_more_is_kept_than_some_versions_need(self, files_of: Package, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fingerprint, "_MOST", 3)
        files_of("a", a="", b="")
        files_of("a", a="import PKG.b", b="")
        assert len(json.loads(unsealed(read_kept("imports.json") or b""))) == 3
