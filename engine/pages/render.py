"""HTML pages that show names from others' files: a content security policy runs the page's own scripts and no other.

Names are escaped where they are put in, and characters that turn the order of letters round are written out; the policy
still holds if that fails. Every page is a file that is opened
from a disk, loads nothing from elsewhere and has the same bytes every time.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import secrets
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from engine.visible import visible

if TYPE_CHECKING:
    import jinja2

_NONCE_DIGITS = 32


def rendered(template: jinja2.Template, *, connects: bool = False, **values: Any) -> str:
    """The page of ``template``, which puts ``policy`` into its head and ``nonce`` into each of its scripts.

    The nonce is the digest of the page without it, so that equal pages are equal bytes, and no text within the page can
    hold it. Until it is known a random one stands for it.

    Args:
        template: of the page.
        connects: whether its scripts may ask the server that it came from for more.
        values: for the template.
    """
    unknown = secrets.token_hex(_NONCE_DIGITS)
    page = template.render(policy=policy(unknown, connects=connects), nonce=unknown, **values)
    digest = hashlib.sha256(page.replace(unknown, "").encode(errors="surrogatepass")).hexdigest()[:_NONCE_DIGITS]
    return page.replace(unknown, digest)


def page_templates(loader: jinja2.BaseLoader) -> jinja2.Environment:
    """Where templates of a room are found, and behind them those that all pages share; what is put in is escaped,
    and shown as :func:`engine.visible.visible` does.

    A page extends ``base.html.j2``; ``plots.html.j2`` draws its plots and graphs.

    Args:
        loader: of the room's own templates.
    """
    import jinja2

    shared = jinja2.FunctionLoader(_shared_template)
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([loader, shared]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_put_in,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _put_in(value: Any) -> Any:
    """What a page shows of ``value``: numbers as they are, and of anything else its text as people are to see it."""
    shown = _shown(value)
    is_plain = shown is None or isinstance(shown, str | int | float | list | dict) or hasattr(shown, "__html__")
    return shown if is_plain else visible(str(shown))


def _shown(value: Any) -> Any:
    """``value`` with the texts in it as people are to see them."""
    from markupsafe import Markup  # jinja2 brings it

    if isinstance(value, str):
        return Markup(visible(value)) if isinstance(value, Markup) else visible(value)  # noqa: S704 - it was markup
    if isinstance(value, dict):
        return {_shown(key): _shown(each) for key, each in value.items()}
    return [_shown(each) for each in value] if isinstance(value, list | tuple) else value


def package_loader(package: str) -> jinja2.BaseLoader:
    """Finds the templates in the folder ``templates`` of ``package``."""
    import jinja2

    return jinja2.FunctionLoader(lambda name: _template_of(package, name))


def _shared_template(name: str) -> str | None:
    return _template_of("engine.pages", name)


def _template_of(package: str, name: str) -> str | None:
    file = files(package) / "templates" / name
    return file.read_text("utf-8") if file.is_file() else None


def packed(text: str) -> str:
    """``text`` compressed (gzip), as base64; the same text gives the same result."""
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()


@cache
def packed_plotly() -> str:
    """The script of plotly.js, :func:`packed`: compressing it takes 0.3 CPU seconds, so once per process."""
    from plotly.offline import get_plotlyjs

    return packed(get_plotlyjs())


def figures_data(figures: dict[str, Any], **more: Any) -> str:
    """What ``plots.html.j2`` takes as ``data``: plotly figures by the id of their place, and ``more``, packed."""
    return packed(json.dumps(_shown({"figures": {name: figure_data(each) for name, each in figures.items()}, **more})))


def figure_data(figure: Any) -> dict[str, Any]:
    """A plotly figure as plain values; colours and grid of the page's style stand for its template."""
    found: dict[str, Any] = json.loads(figure.to_json())
    found["layout"].pop("template", None)
    return found


def policy(nonce: str, *, connects: bool = False) -> str:
    """The policy: scripts of this nonce, styles of the page, pictures of the page or beside it, nothing else.

    ``connects``: see :func:`rendered`.
    """
    asks = "connect-src 'self'; " if connects else ""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; img-src 'self' file: data: blob:; "
        f"{asks}base-uri 'none'; form-action 'none'"
    )
