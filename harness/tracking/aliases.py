"""Names for sweeps of a suite, ``@last-good`` and ``@anchor``, and the baselines that these sweeps left in MLflow."""

from __future__ import annotations

import logging
from pathlib import Path

from engine.errors import ConfigError
from engine.ir import write_atomically
from harness.tracking.mlflow_store import connect

logger = logging.getLogger(__name__)

LAST_GOOD = "last-good"
"""Alias of the last sweep of a suite that passed: experiment tag ``lab.alias.last-good``, whose value is a run id."""

ANCHOR = "anchor"
"""Alias of the sweep whose figures no later one may fall behind, however small the steps; a person sets it."""

BASELINE_FILE = "baseline.json"


_NO_ALIAS = "no_alias"
"""Empty file beside the copy of a baseline: the store had no such alias when it was last asked."""


class NoAliasError(ConfigError):
    """The store answers, and no sweep of the suite has the alias."""


def set_alias(tracking_uri: str, run: str, alias: str) -> None:
    """Let ``alias`` of the suite of sweep ``run`` mean that run."""
    client = connect(tracking_uri)
    client.set_experiment_tag(client.get_run(run).info.experiment_id, f"lab.alias.{alias}", run)


def keep_copy(baseline: Path, folder: Path) -> None:
    """Keep the baseline of the sweep that was given an alias as what ``folder`` has where the store is away."""
    write_atomically(folder / BASELINE_FILE, baseline.read_bytes())
    (folder / _NO_ALIAS).unlink(missing_ok=True)


def fetch_baseline(tracking_uri: str, suite: str, alias: str, folder: Path) -> Path:
    """The baseline that the sweep with this alias left, as a file in ``folder``, which serves where the store is away.

    Raises:
        NoAliasError: the store answers, and no sweep has the alias.
        ConfigError: the store is away, or the file that the alias stands for is gone.
    """
    from mlflow.exceptions import MlflowException

    try:
        client = connect(tracking_uri)
        experiment = client.get_experiment_by_name(suite)
        run = experiment.tags.get(f"lab.alias.{alias}") if experiment is not None else None
        folder.mkdir(parents=True, exist_ok=True)
        if run is None:
            write_atomically(folder / _NO_ALIAS, b"")
            (folder / BASELINE_FILE).unlink(missing_ok=True)
            raise NoAliasError(
                f"baseline @{alias}: no sweep of suite {suite} has this alias in {tracking_uri}; "
                f"ptqlab nightly {suite} gives @{LAST_GOOD} to a sweep that passes"
            )
        (folder / _NO_ALIAS).unlink(missing_ok=True)
        return Path(client.download_artifacts(run, BASELINE_FILE, str(folder)))
    except (MlflowException, OSError) as error:
        if (folder / BASELINE_FILE).is_file():
            logger.warning(
                "baseline @%s: %s cannot be reached; the copy from the last run is used", alias, tracking_uri
            )
            return folder / BASELINE_FILE
        if (folder / _NO_ALIAS).is_file():
            logger.warning(
                "baseline @%s: %s cannot be reached; in the last run no sweep had this alias", alias, tracking_uri
            )
            raise NoAliasError(
                f"baseline @{alias}: {tracking_uri} cannot be reached, and had no such alias in the last run"
            ) from error
        raise ConfigError(f"baseline @{alias}: {tracking_uri}: {' '.join(str(error).split())[:300]}") from error
