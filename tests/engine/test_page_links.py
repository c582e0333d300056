"""Pages of one network name each other; other files stay as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.cli.lab.explain import explained, page
from engine.compile import load_bin
from engine.ir import load_model
from engine.page_links import MOST_ENTRIES, PageKind, identity, write_page
from engine.pages import package_loader, page_templates, rendered
from engine.perf.report import write_report
from tests.engine.convert.conftest import Converted

LINK = re.compile(r'<a href="([^"]+)">([a-z_]+): ([^<]+)</a>')


def text(kind: PageKind, network: str = "0123456789abcdef") -> str:
    base = page_templates(package_loader("engine.pages")).get_template("base.html.j2")
    return rendered(base, identity=f"{kind.value} {network}")


def links(path: Path) -> list[tuple[str, ...]]:
    return LINK.findall(path.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_pages_of_one_network_name_each_other_with_relative_paths() -> None:
    placement, performance = Path("page & 1.html"), Path("hb_perf_result/net/net.html")
    write_page(placement, text(PageKind.PLACEMENT))
    assert links(placement) == []
    write_page(performance, text(PageKind.PERFORMANCE))
    assert links(performance) == [("../../page%20%26%201.html", "placement", "page &amp; 1.html")]
    assert links(placement) == [("hb_perf_result/net/net.html", "performance", "net.html")]
    write_page(Path("debug/accuracy_debug.html"), text(PageKind.ACCURACY))
    for path in (placement, performance, Path("debug/accuracy_debug.html")):
        assert len(links(path)) == 2
        assert all((path.parent / href.replace("%20", " ").replace("%26", "&")).is_file() for href, *_ in links(path))


def test_writing_a_page_again_changes_no_other() -> None:
    for _ in range(2):
        write_page(Path("a.html"), text(PageKind.PLACEMENT))
        write_page(Path("b/b.html"), text(PageKind.PERFORMANCE))
        once = {path: path.read_bytes() for path in (Path("a.html"), Path("b/b.html"))}
        write_page(Path("a.html"), text(PageKind.PLACEMENT))
        assert {path: path.read_bytes() for path in once} == once


def test_other_networks_and_other_files_stay_as_they_are(tmp_path: Path) -> None:
    others = {
        "other.html": text(PageKind.PERFORMANCE, "f" * 16),
        "strange.html": '<meta name="ptqlab-page" content="nothing 0123456789abcdef">',
        ".hidden/a.html": text(PageKind.PERFORMANCE),
        "1/2/3/4/deep.html": text(PageKind.PERFORMANCE),
        "readme.txt": text(PageKind.PERFORMANCE),
    }
    for name, content in others.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content, encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "1" / "2" / "3", target_is_directory=True)
    write_page(Path("own.html"), text(PageKind.PLACEMENT))
    assert links(Path("own.html")) == []
    assert {name: Path(name).read_text(encoding="utf-8") for name in others} == others


def test_a_page_without_identity_is_only_written() -> None:
    base = page_templates(package_loader("engine.pages")).get_template("base.html.j2")
    content = rendered(base)
    assert "links" not in content
    assert write_page(Path("p.html"), content).read_text(encoding="utf-8") == content


def test_a_page_outside_the_present_folder_looks_beside_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write_page(tmp_path / "there" / "a.html", text(PageKind.PLACEMENT))
    write_page(tmp_path / "there" / "b.html", text(PageKind.PERFORMANCE))
    write_page(Path("c.html"), text(PageKind.ACCURACY))
    assert links(tmp_path / "there" / "b.html") == [("a.html", "placement", "a.html")]
    assert links(Path("c.html")) == []


def test_a_large_folder_is_not_read_to_its_end() -> None:
    for number in range(MOST_ENTRIES):
        Path(f"{number:05}.txt").touch()
    write_page(Path("z.html"), text(PageKind.PLACEMENT))
    write_page(Path("a.html"), text(PageKind.PERFORMANCE))
    assert links(Path("a.html")) == []


def test_the_commands_pages_of_one_conversion_know_each_other(converted: Converted) -> None:
    result = converted.result
    write_page(Path("explain.html"), page(result, explained(result)))
    performance = write_report(load_bin(converted.folder / result.files["bin"]), Path("hb_perf_result"))
    assert [kind for _, kind, _ in links(performance)] == ["placement"]
    assert [kind for _, kind, _ in links(Path("explain.html"))] == ["performance"]


def test_the_debugger_reads_a_model_of_the_same_identity(converted: Converted) -> None:
    result = converted.result
    calibrated = load_model(converted.folder / result.files["calibrated"])
    assert identity(PageKind.ACCURACY, calibrated) == identity(PageKind.ACCURACY, result.compiled.model)
    other = load_model(converted.folder / result.files["calibrated"])
    other.graph.outputs[0].name = "another"
    assert identity(PageKind.ACCURACY, calibrated) != identity(PageKind.ACCURACY, other)
