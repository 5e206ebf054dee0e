"""Alert rules and dashboard name only metrics that a real broker serves."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from headwater.testing import EmbeddedBroker
from tests.compat.brokers import scrape_text

DEPLOY = Path(__file__).parents[2] / "deploy"
# From Prometheus itself.
OWN_METRICS = {"up"}
KEYWORDS = {"and", "by", "group_left", "group_right", "ignoring", "offset", "on", "or", "unless"}


@pytest.fixture(scope="module")
def served() -> set[str]:
    """Names of all series, with or without samples."""
    with EmbeddedBroker({"headwater.metrics.listener": "127.0.0.1:0"}) as broker:
        text = scrape_text(broker)
    names: set[str] = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        names.update(name + suffix for suffix in suffixes)
    return names


def rule_expressions() -> list[str]:
    rules = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text(encoding="utf-8"))
    return [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


def dashboard_expressions() -> Iterator[str]:
    dashboard = json.loads((DEPLOY / "grafana/headwater.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", []))
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            # label_values(metric, label)
            yield variable["definition"].partition("(")[2].rpartition(",")[0]


def metrics_in(expression: str) -> set[str]:
    """The names in PromQL that are neither functions, labels, nor keywords."""
    bare = re.sub(r'"(?:\\.|[^"\\])*"', "", expression)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b(?:by|without|on|ignoring)\s*\([^)]*\)", "", bare)
    names = re.findall(r"\b[a-zA-Z_:][a-zA-Z0-9_:]*\b(?!\s*\()", bare)
    return {name for name in names if name not in KEYWORDS}


def test_names_are_found_in_promql() -> None:
    assert metrics_in(
        'sum by (le) (rate(a_bucket{x="y_z"}[5m])) > 0.1 * max(b_total) or c offset 5m'
    ) >= {"a_bucket", "b_total", "c"}
    assert "y_z" not in metrics_in('a{x="y_z"}')


@pytest.mark.parametrize("source", ["rules", "dashboard"])
def test_every_metric_exists_in_a_real_scrape(source: str, served: set[str]) -> None:
    expressions = rule_expressions() if source == "rules" else list(dashboard_expressions())
    named = {name for expression in expressions for name in metrics_in(expression)}
    assert len(named) > 10
    assert named - served - OWN_METRICS == set()


def test_rules_say_what_happened_and_what_to_do() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text(encoding="utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("critical", "warning"), rule
            assert set(rule["annotations"]) == {"summary", "description"}, rule


WORDS = [
    ("check", "rules", "alerts.yml"),
    ("check", "config", "prometheus.yml"),
    ("test", "rules", "alerts_test.yml"),
]


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_promtool_accepts_the_rules(words: tuple[str, ...]) -> None:
    run_promtool(*words, folder=DEPLOY / "prometheus")


def test_promtool_accepts_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    """As recording rules, with a value for Grafana's variables."""
    expressions = [each.replace("$__rate_interval", "5m") for each in dashboard_expressions()]
    rules = [{"record": f"panel:{index}", "expr": each} for index, each in enumerate(expressions)]
    document = {"groups": [{"name": "dashboard", "rules": rules}]}
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(document), encoding="utf-8")
    run_promtool("check", "rules", "rules.yml", folder=tmp_path)


def run_promtool(*words: str, folder: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt install prometheus)")
    result = subprocess.run(
        [promtool, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
