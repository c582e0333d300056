"""``ptqlab serve``: all suites and nights of a working directory in a browser, live while a sweep runs."""

from __future__ import annotations

import socket
from typing import Annotated

import typer

from engine.cli.console import say
from engine.errors import ConfigError
from harness.cli.options import Workdir
from harness.files import workdir as workdirs

ADDRESS = "127.0.0.1"
"""The loopback address only, because the server has no authentication."""


def serve(
    workdir: Workdir = workdirs.DEFAULT,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free port.")] = 8765,
) -> None:
    """Show all suites and nights of a working directory in a browser, live while a sweep runs.

    Only programs on this machine can connect.
    """
    import uvicorn

    from harness.serving.application import application

    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((ADDRESS, port))
        except OSError as error:
            raise ConfigError(f"--port {port}: {error.strerror}; choose another, or 0 for any") from error
        listener.listen()  # whoever reads the address may ask at once
        say(f"http://{ADDRESS}:{listener.getsockname()[1]}/  (Ctrl-C ends it)")
        config = uvicorn.Config(application(workdir.resolve()), log_level="warning")
        uvicorn.Server(config).run(sockets=[listener])
