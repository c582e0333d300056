"""The pages of a working directory over HTTP, to this machine only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from engine.pages import rendered
from harness.report.templates import template
from harness.serving.overview import HEIGHT, WIDTH, overview

HOSTS = ("127.0.0.1", "localhost")
"""Names that a browser may ask under: a page of another site cannot reach this server through a name of its own."""
FRAMES = "frame-ancestors 'none'"
"""What the policy within the first page cannot say: no other page shows it in a frame."""
SECONDS, IDLE_SECONDS = 2, 15
"""Seconds after which the first page is reloaded while a sweep runs, and while none does."""


def application(workdir: Path) -> Starlette:
    """The server's application.

    ``/`` lists suites and nights; ``/sweeps/SUITE/...`` are the files that sweeps left, read only, links not followed.

    Args:
        workdir: of the sweeps; it need not exist yet.
    """

    def first(request: Request) -> Response:
        rows = overview(workdir)
        text = rendered(
            template("overview.html.j2"),
            connects=True,
            rows=rows,
            workdir=workdir,
            seconds=SECONDS,
            idle_seconds=IDLE_SECONDS,
            width=WIDTH,
            height=HEIGHT,
            live=any(row.running for row in rows),
        )
        return HTMLResponse(text, headers={"Content-Security-Policy": FRAMES, "Cache-Control": "no-store"})

    files = _Files(directory=workdir / "sweeps", check_dir=False)
    return Starlette(
        routes=[Route("/", first), Route("/favicon.ico", _no_icon), Mount("/sweeps", files)],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS))],
    )


def _no_icon(request: Request) -> Response:
    """Browsers request an icon of every site; there is none."""
    return Response(status_code=204)


class _Files(StaticFiles):
    """Files that a browser asks for anew each time, since a sweep may have written others."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers["Cache-Control"] = "no-cache"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response
