"""Views of an experiment that one link opens: trials with the right columns, and parallel coordinates of a model.

MLflow's pages keep a view that somebody saved in a tag of the experiment, as JSON; they list it under "Views" and find
it by the key in a link. The same tags are written here, in the form of MLflow 3 (checked with 3.17 in a browser);
a version that does not know it shows the experiment as usual.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from harness.files.cache import content_key
from harness.tracking.trial_run import FIRST

TAG = "mlflow.sharedViewState."

LOCAL_SERVER = "http://127.0.0.1:5000"
"""Where ``mlflow ui`` serves unless told otherwise."""

SERVER_VARIABLE = "PTQLAB_MLFLOW_URL"
"""Environment variable with the address at which a browser finds the pages of the store."""

_WIDE, _OTHERS = "parallel", "scatter"
"""Sections of the charts; the page shows them in the order of their names."""


def view_key(model: str) -> str:
    """Key of the view of the trials of ``model``; empty for those of all models."""
    return content_key("view", model)[:16]


def view_state(model: str, params: Sequence[str]) -> str:
    """The view of the trials of ``model`` (empty: of all), which were swept over ``params``, as MLflow keeps it."""
    columns = [f"params.`{name}`" for name in params] + [f"metrics.`{name}`" for name in FIRST]
    which = f" and params.model = '{model}'" if model else ""
    axes = [name for name in params if not (model and name == "model")]
    state: dict[str, Any] = {
        "searchFilter": f"tags.lab.kind = 'trial'{which}",
        "orderByKey": "metrics.`accuracy`",
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "selectedColumns": columns,
        "columnOrder": columns,
        "runsHiddenMode": "SHOWALL",
        "compareRunSections": [
            {
                "uuid": _WIDE,
                "name": "All settings",
                "display": True,
                "isReordered": False,
                "columns": 1,
                "cardHeight": 420,
            },
            {"uuid": _OTHERS, "name": "Figures over latency", "display": True, "isReordered": False, "columns": 2},
        ],
        "compareRunCharts": [
            {
                "uuid": "parallel",
                "type": "PARALLEL",
                "runsCountToCompare": 10,
                "metricSectionId": _WIDE,
                "deleted": False,
                "isGenerated": False,
                "selectedParams": axes,
                "selectedMetrics": list(FIRST),
                "showAllRuns": True,
            },
            *(_scatter(name) for name in ("accuracy", "cosine")),
        ],
        "isAccordionReordered": False,
        "autoRefreshEnabled": False,
    }
    return json.dumps(state, separators=(",", ":"))


def view_tag(model: str, params: Sequence[str], before: str | None, at: float) -> str:
    """:func:`view_state` as a tag holds it, under the name that "Views" lists; ``before`` where it says that already.

    Args:
        model, params: as of :func:`view_state`.
        before: what the tag holds now; None where there is none.
        at: time, seconds since 1970.
    """
    state, name = view_state(model, params), f"Trials of {model}" if model else "All trials"
    if before is not None:
        with contextlib.suppress(ValueError):
            held = json.loads(before)
            if (held.get("name"), held.get("state")) == (name, state):
                return before
    return json.dumps({"name": name, "createdAt": int(at * 1000), "updatedAt": int(at * 1000), "state": state})


def _scatter(metric: str) -> dict[str, Any]:
    """A figure over the latency."""
    axes = {"xaxis": "latency_ms", "yaxis": metric}
    return {
        "uuid": metric,
        "type": "SCATTER",
        "runsCountToCompare": 10,
        "metricSectionId": _OTHERS,
        "deleted": False,
        "isGenerated": False,
        **{axis: {"key": key, "type": "METRIC", "dataAccessKey": key} for axis, key in axes.items()},
    }


def server_of(tracking_uri: str) -> str:
    """Address of the pages of the store: that of ``PTQLAB_MLFLOW_URL``, a server's own, else that of ``mlflow ui``."""
    own = tracking_uri if tracking_uri.startswith(("http:", "https:")) else LOCAL_SERVER
    return (os.environ.get(SERVER_VARIABLE) or own).rstrip("/")


def compare_link(tracking_uri: str, experiment: str, model: str) -> str:
    """Opens parallel coordinates and the trials of ``model`` (empty: all) in the experiment with this id."""
    key = quote(view_key(model))
    return f"{server_of(tracking_uri)}/#/experiments/{experiment}/runs?viewStateShareKey={key}&compareRunsMode=CHART"


def table_link(tracking_uri: str, experiment: str, model: str = "") -> str:
    """Opens the table of the trials of ``model`` (empty: all), swept settings and first figures as columns."""
    return f"{server_of(tracking_uri)}/#/experiments/{experiment}/runs?viewStateShareKey={quote(view_key(model))}"


def how_to_open(tracking_uri: str) -> str:
    """How to open the record: the server's address, or the command that serves the store."""
    if tracking_uri.startswith(("http:", "https:")):
        return tracking_uri
    place = urlsplit(server_of(tracking_uri))
    port = "" if place.port in (None, urlsplit(LOCAL_SERVER).port) else f" --port {place.port}"
    return f"mlflow ui --backend-store-uri {tracking_uri}{port}"
