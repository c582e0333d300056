"""HTML pages that show names of strangers: a content security policy that lets the page's own scripts run and no other.

Names are escaped where they are put in; the policy holds should that ever fail. Every page is a file that is opened
from a disk, loads nothing from elsewhere and has the same bytes every time.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2

_NONCE_DIGITS = 32


def rendered(template: jinja2.Template, **values: Any) -> str:
    """The page of ``template``, which puts ``policy`` into its head and ``nonce`` into each of its scripts.

    The nonce is the digest of the page without it, so that equal pages are equal bytes, and no text within the page can
    hold it. Until it is known a random one stands for it.
    """
    unknown = secrets.token_hex(_NONCE_DIGITS)
    page = template.render(policy=policy(unknown), nonce=unknown, **values)
    digest = hashlib.sha256(page.replace(unknown, "").encode(errors="surrogatepass")).hexdigest()[:_NONCE_DIGITS]
    return page.replace(unknown, digest)


def policy(nonce: str) -> str:
    """The policy: scripts of this nonce, styles of the page, pictures of the page or beside it, nothing else."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; img-src 'self' file: data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
