"""What is deployed reads as its readers read it, and names only what there is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from ontarget.cli import app
from ontarget.service.contracts import read_contracts
from ontarget.service.web._metrics import Metrics
from ontarget.service.webhooks import read_hooks

DEPLOY = Path(__file__).parents[2] / "deploy"
METRIC = re.compile(r"\bontarget_\w+")


def metrics() -> set[str]:
    families = Metrics().registry.collect()
    made = {name for one in families for name in (one.name, f"{one.name}_total")}
    return made | {f"{one.name}_bucket" for one in Metrics().registry.collect()}


def test_alert_rules_are_rules_about_metrics_that_there_are() -> None:
    groups = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 3
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["annotations"]["summary"]
        assert rule["expr"].count("(") == rule["expr"].count(")")
        assert set(METRIC.findall(rule["expr"])) <= metrics()


def test_the_dashboard_shows_metrics_that_there_are() -> None:
    text = (DEPLOY / "grafana.json").read_text()
    asked = [one["expr"] for panel in json.loads(text)["panels"] for one in panel["targets"]]
    assert asked
    assert set(METRIC.findall(" ".join(asked))) <= metrics()


def test_the_example_of_contracts_and_hooks_can_be_read() -> None:
    assert [one.name for one in read_contracts(DEPLOY / "service.toml")] == ["river"]
    assert [one.name for one in read_hooks(DEPLOY / "service.toml")] == ["ops", "alertmanager"]


@pytest.mark.parametrize("name", ["Containerfile", "ontarget.service"])
def test_commands_use_options_that_there_are(name: str) -> None:
    known = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).output
    lines = (DEPLOY / name).read_text().splitlines()
    commands = [line for line in lines if line.startswith(("CMD", "ENTRYPOINT", "ExecStart"))]
    asked = re.findall(r"--[\w-]+", " ".join(commands))
    assert {"--contracts", "--database"} <= set(asked)
    for option in asked:
        assert option in known


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    unit = tmp_path / "ontarget.service"
    said = (DEPLOY / "ontarget.service").read_text()
    unit.write_text(said.replace("/opt/ontarget/bin/ontarget", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
