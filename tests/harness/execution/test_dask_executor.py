"""The executor on a Dask cluster, with a stand-in for the package."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import ConfigError, MissingError
from harness.execution import dask_executor
from harness.execution.dask_executor import DaskExecutor


class Client:
    """Remembers what it is told; an address of ``refuses`` has no cluster, one of ``idle`` no workers."""

    def __init__(self, address: str, **options: Any) -> None:
        self.asked, self.log = 0, [("client", address, options)]
        if address == "refuses":
            raise OSError("Connection refused")

    def wait_for_workers(self, count: int, timeout: float) -> None:
        self.log.append(("wait", count, {"timeout": timeout}))
        if self.log[0][1] == "idle":
            raise TimeoutError("Only 0/1 workers arrived")

    def nthreads(self) -> dict[str, int]:
        self.asked += 1
        return {"a": 2, "b": self.asked}

    def get_executor(self, **options: Any) -> Any:
        self.log.append(("executor", "", options))
        return SimpleNamespace(
            submit=lambda fn, *args, **kwargs: fn(*args, **kwargs),
            shutdown=lambda wait: self.log.append(("shutdown", str(wait), {})),
        )

    def close(self) -> None:
        self.log.append(("close", "", {}))


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=Client))


def log_of(executor: DaskExecutor) -> list[tuple[str, str, dict[str, Any]]]:
    log: list[tuple[str, str, dict[str, Any]]] = executor._client.log
    return log


def test_a_client_of_its_own_whose_calls_are_never_merged() -> None:
    executor = DaskExecutor("host:1")
    assert log_of(executor) == [
        ("client", "host:1", {"timeout": 20, "set_as_default": False}),
        ("wait", 1, {"timeout": 20}),
        ("executor", "", {"pure": False}),
    ]
    assert executor.submit(lambda a, b: (a, b), 1, b=2) == (1, 2)


@pytest.mark.parametrize(("address", "words"), [("refuses", "Connection refused"), ("idle", "Only 0/1 workers")])
def test_no_cluster_or_no_workers(address: str, words: str) -> None:
    with pytest.raises(
        ConfigError, match=f"--executor dask://{address}: no cluster with workers at this address: {words}"
    ):
        DaskExecutor(address)


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingError, match=r"needs more packages: pip install 'distributed"):
        DaskExecutor("host:1")


def test_the_capacity_is_asked_for_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(dask_executor.time, "monotonic", lambda: now[0])
    executor = DaskExecutor("host:1")
    found = []
    for now[0] in (100.0, 100.5, 101.0, 101.1):
        found.append(executor.capacity)
    assert found == [3, 3, 3, 4]


@pytest.mark.parametrize(
    ("wait", "cancel", "waited"), [(True, False, "True"), (True, True, "False"), (False, False, "False")]
)
def test_leaving_waits_only_for_what_is_wanted(wait: bool, cancel: bool, waited: str) -> None:
    executor = DaskExecutor("host:1")
    executor.shutdown(wait, cancel_futures=cancel)
    assert log_of(executor)[-2:] == [("shutdown", waited, {}), ("close", "", {})]
