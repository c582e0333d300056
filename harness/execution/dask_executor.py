"""Trials on a Dask cluster (extra ``dask``). Its workers need ptqlab and, at the same path, the working directory.

Without that path they need a store; cards and code of the user's own travel with the tasks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from engine.errors import ConfigError, MissingError
from harness.extras import how_to_install

T = TypeVar("T")

CONNECT_SECONDS = 20
CAPACITY_SECONDS = 1.0


class DaskExecutor(Executor):
    """The executor of a Dask client of its own.

    Args:
        address: of the scheduler, ``host:port``.

    Raises:
        ConfigError: the extra is not installed, or there is no cluster with workers at ``address``.
    """

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise MissingError(f"--executor dask://… needs more packages: {how_to_install('dask')}") from error
        try:
            self._client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
            self._client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except (OSError, TimeoutError, ValueError) as error:
            raise ConfigError(
                f"--executor dask://{address}: no cluster with workers at this address: {error}"
            ) from error
        self._threads, self._counted_at = 0, -math.inf
        self._executor = self._client.get_executor(pure=False)

    @property
    def capacity(self) -> int:
        """Threads of all workers, at most :data:`CAPACITY_SECONDS` ago: asking costs as much as submitting a task."""
        now = time.monotonic()
        if now > self._counted_at + CAPACITY_SECONDS:
            self._threads, self._counted_at = sum(self._client.nthreads().values()), now
        return self._threads

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run ``fn`` on a worker."""
        future: Future[T] = self._executor.submit(fn, *args, **kwargs)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster, which goes on; tasks that it has not started are cancelled."""
        self._executor.shutdown(wait=wait and not cancel_futures)
        self._client.close()
