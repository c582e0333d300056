"""Hook of mkdocs that writes the page of all commands from the commands themselves."""

from importlib import import_module
from typing import Any

import typer
from typer.cli import get_docs_for_click

COMMANDS = {
    "ptqlab": "harness.cli.main:app",
    "hb_mapper": "engine.cli.vendor.hb_mapper:app",
    "hb_compile": "engine.cli.vendor.hb_compile:app",
    "hmct-debugger": "engine.cli.vendor.hmct_debugger:app",
    "hb_perf": "engine.cli.vendor.hb_perf:app",
    "hb_pack": "engine.cli.vendor.hb_pack:app",
    "hb_eval_preprocess": "harness.cli.eval_preprocess:app",
    "hb_model_info": "engine.cli.vendor.hb_model_info:app",
    "hb_model_modifier": "engine.cli.vendor.hb_model_modifier:app",
    "hb_model_verifier": "engine.cli.vendor.hb_verifier:model_app",
    "hb_verifier": "engine.cli.vendor.hb_verifier:app",
    "hrt_model_exec": "engine.cli.vendor.hrt_model_exec:app",
    "vec_diff": "engine.cli.vendor.vec_diff:app",
}


def commands() -> str:
    """Markdown of all commands with their options."""
    parts = ["# Commands\n\nWritten from the commands' own help.\n"]
    for name, target in COMMANDS.items():
        module, _, app = target.partition(":")
        command = typer.main.get_command(getattr(import_module(module), app))
        text = get_docs_for_click(obj=command, ctx=typer.Context(command, info_name=name), name=name)
        parts.append("\n".join(f"#{line}" if line.startswith("#") else line for line in text.splitlines()))
    return "\n".join(parts)


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """The text of a page of the site."""
    return commands() if page.file.src_uri == "reference/cli.md" else markdown
