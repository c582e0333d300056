"""Views and links for MLflow's pages."""

from __future__ import annotations

import json

import pytest

from harness.tracking.views import compare_link, how_to_open, table_link, view_key, view_tag


def test_a_servers_address_is_printed_as_such_and_a_file_with_the_command_that_serves_it() -> None:
    assert how_to_open("http://mlflow.lab:5000") == "http://mlflow.lab:5000"
    assert how_to_open("sqlite:////x/mlflow.db") == "mlflow ui --backend-store-uri sqlite:////x/mlflow.db"


def test_links_lead_to_the_server_or_to_where_mlflow_ui_serves() -> None:
    assert compare_link("https://lab/", "7", "net").startswith("https://lab/#/experiments/7/runs?viewStateShareKey=")
    assert table_link("sqlite:///x", "7").startswith("http://127.0.0.1:5000/#/experiments/7/runs?viewStateShareKey=")
    assert view_key("net") in compare_link("sqlite:///x", "7", "net")


def test_the_address_of_the_pages_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Links and the command that serves the store agree on it."""
    monkeypatch.setenv("PTQLAB_MLFLOW_URL", "http://127.0.0.1:5001/")
    assert table_link("sqlite:///x", "7").startswith("http://127.0.0.1:5001/#/experiments/7/runs")
    assert how_to_open("sqlite:///x") == "mlflow ui --backend-store-uri sqlite:///x --port 5001"


def test_a_view_that_is_there_is_not_written_again() -> None:
    first = view_tag("net", ["int16"], None, 1.0)
    assert view_tag("net", ["int16"], first, 2.0) == first
    changed = view_tag("net", ["int16", "per_channel"], first, 2.0)
    assert json.loads(changed)["updatedAt"] == 2000
    assert len(view_tag("net", [f"a_setting_with_a_long_name_{i}" for i in range(20)], None, 1.0)) < 5000
