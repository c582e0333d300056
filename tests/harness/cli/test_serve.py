"""``ptqlab serve`` listens on the loopback address and answers."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from engine.errors import ConfigError
from harness.cli.serve import ADDRESS, serve
from tests.conftest import ROOT


def test_it_says_where_it_is_and_answers(tmp_path: Path) -> None:
    code = "from harness.cli.start import ptqlab; ptqlab()"
    command = [sys.executable, "-c", code, "serve", "--workdir", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[0]
            assert address.startswith(f"http://{ADDRESS}:")
            with urllib.request.urlopen(address, timeout=60) as answer:
                assert "No sweep yet" in answer.read().decode()
        finally:
            process.terminate()


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((ADDRESS, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"--port {port}: Address already in use; choose another, or 0 for any"):
            serve(tmp_path, port)
