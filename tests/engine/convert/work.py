"""Single stages of a conversion, run on items that a test gives."""

from __future__ import annotations

from typing import Any

from engine.config import Config, parse_config
from engine.convert.items import DATA, STATISTICS, THREADS
from engine.convert.runner import Item, Stage, Work
from tests.configurations import FEATUREMAP


def configured(**parameters: Any) -> Config:
    """The configuration of a feature map, ``<group>__<key>`` changed; ``None`` takes a key out."""
    content = {group: dict(values) for group, values in FEATUREMAP.items()} | {"compiler_parameters": {}}
    for name, value in parameters.items():
        group, _, key = name.partition("__")
        content[f"{group}_parameters"][key] = value
    return parse_config(content)


def ran(stage: Stage, config: Config, **items: Any) -> dict[str, Any]:
    """What ``stage`` gives, by name, of items given by name; no data and all threads where nothing is said."""
    known: dict[Item[Any], Any] = {DATA: None, STATISTICS: None, THREADS: None}
    values = {item.name: value for item, value in known.items()} | items
    work = Work(stage, config, lambda item: values[item.name])
    stage.run(work)
    return {item.name: value for item, value in work.given().items()}
