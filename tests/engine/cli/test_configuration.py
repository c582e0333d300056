"""Template and reference page of the configuration: they follow the model, and the template loads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from engine.chips import March
from engine.cli.configuration import group_parameters, reference_page, template
from engine.cli.lab import COMMANDS
from engine.config import GROUPS, load_config
from tests.conftest import ROOT


@pytest.mark.parametrize("march", list(March))
def test_the_template_loads(tmp_path: Path, march: March) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(template(march))
    config = load_config(path)
    assert config.march is march
    assert config.input_specs(["data"])[0].mean == (123.675, 116.28, 103.53)


@pytest.mark.parametrize("march", list(March))
def test_what_is_commented_out_is_the_default(tmp_path: Path, march: March) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(template(march))
    before = load_config(path)
    path.write_text(re.sub(r"^  # (\w+): (\S+)$", r"  \1: \2", template(march), flags=re.MULTILINE))
    assert load_config(path) == before
    assert len(yaml.safe_load(path.read_text())["compiler_parameters"]) > 3


def test_every_parameter_is_described() -> None:
    for group in GROUPS:
        for march in March:
            for parameter in group_parameters(group, march):
                assert parameter.description.endswith("."), parameter.name
    assert "core_num" not in template(March("bayes-e"))
    assert "core_num" in template(March("bernoulli2"))


def test_the_reference_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert page == reference_page(), "run: ptqlab config --reference > docs/configuration.md"
    page = (ROOT / "docs" / "configuration_s100.md").read_text()
    command = "ptqlab config --reference --command hb_compile > docs/configuration_s100.md"
    assert page == reference_page("hb_compile"), f"run: {command}"


def test_a_template_of_the_s100_is_in_the_dialect_of_hb_compile() -> None:
    text = template(March("nash-p"))
    assert text.startswith(
        "# Conversion for march nash-p (extrapolated from bayes-e; nothing measured), by hb_compile."
    )
    for key in ("quant_config:", "std_value:", "optimize_level: 'O2'"):
        assert key in text
    for key in ("input_layout_rt:", "norm_type:", "cal_data_type:", "core_num:"):
        assert key not in text


def test_the_command() -> None:
    import typer

    app = typer.Typer()
    app.command()(COMMANDS["config"])
    runner = CliRunner()
    assert runner.invoke(app, ["--template", "bayes"]).output == template(March("bayes"))
    assert runner.invoke(app, ["--reference"]).output == reference_page()
    assert runner.invoke(app, []).exit_code == 2
