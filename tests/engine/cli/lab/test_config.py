"""``ptqlab config``: a template or the reference, one of them."""

from __future__ import annotations

import pytest
import yaml
from typer.testing import CliRunner

from engine.chips import March
from engine.cli.configuration import reference_page, template
from engine.cli.lab.config import Dialect, config
from engine.errors import ConfigError
from harness.cli.main import app


@pytest.mark.parametrize("arguments", [[], ["--template", "bayes", "--reference"]])
def test_one_of_both_is_asked_for(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["config", *arguments])
    assert result.exit_code == 2
    assert "give either --template MARCH or --reference" in " ".join(result.output.replace("│", " ").split())


def test_a_template_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    config(template="bernoulli2")
    text = capsys.readouterr().out
    assert text == template(March("bernoulli2"))
    assert yaml.safe_load(text)["model_parameters"]["march"] == "bernoulli2"
    config(reference=True)
    assert capsys.readouterr().out == reference_page()


@pytest.mark.parametrize(("march", "command"), [("bayes-e", "hb_mapper"), ("nash-e", "hb_compile")])
def test_a_template_is_of_the_command_that_converts_for_the_march(
    march: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config(template=march)
    assert f", by {command}." in capsys.readouterr().out.splitlines()[0]
    config(reference=True, command=Dialect(command))
    assert capsys.readouterr().out == reference_page(command)


def test_a_template_is_for_one_march() -> None:
    with pytest.raises(ConfigError, match="expected one architecture"):
        config(template="bayes,bayes-e")
