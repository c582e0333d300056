"""Workers that do not see the coordinator's files: where they work, and what they must have that the sweep has."""

from __future__ import annotations

import socket
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import MissingError, PtqlabError
from engine.fingerprint import fingerprint_of
from harness.files import paths
from harness.files.workdir import scratch_workdir
from harness.trials.tasks import Bench
from harness.trials.trial import TrialSpec, card_key
from harness.zoo.cards import load_card

if TYPE_CHECKING:
    from harness.execution.task import Task


def placed_here(task: Task) -> Task:
    """``task`` with a folder of this machine where the sweep has a store, and with its worker's name."""
    place = {"workdir": str(scratch_workdir(task.store_url))} if task.store_url else {}
    name = {"worker": worker_name()} if task.luggage is not None else {}
    return task.model_copy(update={**place, **name})


def worker_name() -> str:
    """This machine's name, and the address under which a Dask cluster knows this worker."""
    host = socket.gethostname()
    distributed = sys.modules.get("distributed")
    try:
        address = distributed.get_worker().address if distributed is not None else ""
    except ValueError:  # not in one of its tasks
        address = ""
    return f"{address} on {host}" if address else host


def refuse_other_sources(task: Task) -> None:
    """Compare sources and tools of this worker with the sweep's, where it is no child of the sweep's process.

    Raises:
        MissingError: they are others here.
    """
    for module, digest in task.fingerprints.items() if task.store_url or task.luggage else ():
        if fingerprint_of(module).digest != digest:
            raise MissingError(
                f"this worker and the sweep have different versions of ptqlab or of a tool that {module} uses; "
                "install the same ones"
            )


def refuse_other_inputs(spec: TrialSpec, bench: Bench) -> None:
    """Compare card, model file and data of this worker with the sweep's, where it is no child of the sweep's process.

    Raises:
        MissingError: they are others here.
    """
    if not bench.store_url and not bench.worker:
        return
    planned = {"card": spec.card, "model file": spec.file, "data": spec.data}
    folders = (*paths.suites(), *paths.datasets())
    for (what, digest), here in zip(planned.items(), _identity(spec.model, folders), strict=True):
        if digest != here:
            raise MissingError(f"model {spec.model}: its {what} on this worker is not the sweep's; copy it there")


@cache
def _identity(model: str, folders: tuple[Path, ...]) -> tuple[str, str, str]:
    """Digests of the card, the model file and the data of ``model`` as found in ``folders``; once per process."""
    try:
        card = load_card(model)
        return card_key(card), card.file_digest(), card.open_dataset().digest
    except PtqlabError as error:
        raise MissingError(f"this worker lacks what the sweep needs: {error}") from error
