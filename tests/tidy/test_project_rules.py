"""Check rules of the project that no linter knows, and claims of its documentation."""

import ast
import configparser
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.client.consumer.consumer_settings import ConsumerSettings
from headwater.client.producer.producer_settings import ProducerSettings
from headwater.common.settings.broker_properties import known_settings
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.common.settings.declared_settings import settings_in
from headwater.common.settings.group_settings import GroupSettings
from headwater.common.settings.oauth_settings import ListenerOAuthSettings
from headwater.common.settings.quorum_settings import QuorumSettings
from headwater.common.settings.sasl_settings import ListenerSaslSettings
from headwater.common.settings.ssl_settings import ListenerSslSettings
from headwater.common.settings.storage_settings import StorageSettings
from headwater.common.settings.topic_settings import TopicSettings, Value, kafka_name
from headwater.testing import EmbeddedBroker

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/headwater"
SOURCES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BENCHES = sorted((ROOT / "bench").rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def module_path(name: str) -> Path:
    """Return the file of a module below the package, such as `storage.io.disk`."""
    return PACKAGE.joinpath(*name.split(".")).with_suffix(".py")


@pytest.mark.parametrize("path", SOURCES + TESTS + BENCHES, ids=named)
def test_module_has_a_docstring(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_no_module_imports_a_star() -> None:
    stars = [
        named(path)
        for path in SOURCES + TESTS + BENCHES
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
    ]
    assert stars == []


def test_no_test_sleeps() -> None:
    """A test that sleeps is slow on a fast machine and fails on a busy one."""
    sleeps = [
        f"{named(path)}:{node.lineno}"
        for path in TESTS
        for node in nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "sleep")
    ]
    assert sleeps == []


def shells_of_storage() -> set[Path]:
    """Return the modules that the import contract exempts by name."""
    config = configparser.ConfigParser()
    config.read(ROOT / ".importlinter", encoding="utf-8")
    exempt = config["importlinter:contract:storage-shells"]["ignore_imports"]
    return {module_path(name) for name in re.findall(r"headwater\.(storage\S+) ->", exempt)}


def test_pure_packages_use_neither_files_nor_the_terminal() -> None:
    """Import contracts cannot detect `open` and `print`, nor tell `Path` from `PurePath`."""
    packages = ("common", "records", "schemas", "protocol", "storage")
    pure = [path for path in SOURCES if path.relative_to(PACKAGE).parts[0] in packages]
    found = []
    for path in set(pure) - shells_of_storage():
        for node in nodes(path):
            match node:
                case ast.Call(func=ast.Name(id="open" | "print" | "input")):
                    found.append(f"{named(path)}:{node.lineno}")
                case ast.ImportFrom(module="pathlib", names=names):
                    found += [named(path) for alias in names if alias.name != "PurePath"]
                case ast.Import(names=names):
                    found += [named(path) for alias in names if alias.name == "pathlib"]
    assert found == []


def test_make_help_lists_exactly_the_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    helped = set(re.findall(r'@echo "make ([a-z-]+) ', makefile))
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony
    assert helped | {"help"} == targets
    assert set(phony[1].split()) == targets


# Properties of the settings that stand for a field.
_SHORTHANDS = {
    "cleanup_policy": "cleanup_policy|is_compacted|is_deleted",
    "segment_ms": "segment_ms|max_segment_ms",
    "headwater_record_validation_enable": "headwater_record_validation_enable|validates_records",
}


def documented_settings() -> dict[str, tuple[str, str]]:
    """Return default and last column of each setting in docs/reference/settings.md."""
    text = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z0-9.]+)` \| `([^`]*)` \| .* \| (.*) \|$", text, re.MULTILINE)
    return {name: (default, used_by) for name, default, used_by in rows}


def kafka_text(value: Value | None) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def test_every_broker_and_topic_setting_is_documented_with_its_default() -> None:
    assert {name: default for name, (default, _) in documented_settings().items()} == {
        kafka_name(field.name): kafka_text(getattr(defaults, field.name))
        for defaults in (
            TopicSettings(),
            GroupSettings.of(BrokerSettings()),
            StorageSettings(),
            BrokerSettings(),
            ListenerSaslSettings(),
            ListenerOAuthSettings(),
            ListenerSslSettings(),
        )
        for field in fields(defaults)
        # These are what the settings of single listeners are read from.
        if field.name != "listener_texts"
    }


def test_every_quorum_setting_is_documented_with_its_default() -> None:
    text = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z.]+)` \| `([^`]*)` \| [^|]* \|$", text, re.MULTILINE)
    assert dict(rows) == {
        name: kafka_text(each.default) for name, each in settings_in(QuorumSettings).items()
    }


_USERS_IN_COMMON = {module_path("common.settings.group_settings")}
"""Unlike the rest of `common`, which only declares settings, this module uses some."""


def test_modules_named_in_the_settings_page_use_the_setting() -> None:
    """A named module must use the setting; without one, no module may use it."""
    wrong = []
    for name, (_, used_by) in documented_settings().items():
        field = name.replace(".", "_")
        use = re.compile(rf"settings(?:_for\([^()]*\))?\.({_SHORTHANDS.get(field, field)})\b")
        users = {path for path in SOURCES if use.search(path.read_text(encoding="utf-8"))}
        # Clients have settings of their own, some under the same names.
        others = (PACKAGE / "common", PACKAGE / "client")
        users -= {
            path for path in users if any(package in path.parents for package in others)
        } - _USERS_IN_COMMON
        claimed = {module_path(module) for module in re.findall(r"`([a-z_.]+)`", used_by)}
        if not claimed <= users or (users and not claimed):
            wrong.append(f"{name}: used in {sorted(map(named, users))}, written: {used_by}")
    assert not wrong, "docs/reference/settings.md is behind:\n" + "\n".join(wrong)


def test_settings_without_effect_are_marked() -> None:
    marked = {
        name for name, (_, used_by) in documented_settings().items() if used_by == "no effect"
    }
    assert marked == {name for name, each in known_settings().items() if not each.has_effect}


PRODUCER_PLUGINS = {
    "partitioner_class",
    "key_serializer",
    "value_serializer",
    "interceptor_classes",
    "oauth_cb",
}
CONSUMER_PLUGINS = {
    "partition_assignment_strategy",
    "key_deserializer",
    "value_deserializer",
    "interceptor_classes",
    "oauth_cb",
}


@pytest.mark.parametrize(
    ("chapter", "settings", "plugins"),
    [
        ("Producer", ProducerSettings(), PRODUCER_PLUGINS),
        ("Consumer", ConsumerSettings(), CONSUMER_PLUGINS),
    ],
)
def test_every_client_setting_is_documented_with_its_default(
    chapter: str, settings: ProducerSettings | ConsumerSettings, plugins: set[str]
) -> None:
    page = (ROOT / "docs/guides/clients.md").read_text(encoding="utf-8")
    text = page.partition(f"\n## {chapter}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z0-9.]+)` \| `([^`]*)` \| .* \|$", text, re.MULTILINE)
    assert all(f"`{kafka_name(name)}`" in text for name in plugins)
    assert {name: default.strip() for name, default in rows} == {
        kafka_name(field.name): kafka_text(getattr(settings, field.name))
        for field in fields(settings)
        if field.name not in plugins
    }


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_between_pages_resolve(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", text)
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


ARCHITECTURE = (ROOT / "docs/internals/architecture.md").read_text(encoding="utf-8")


def test_paths_in_the_architecture_page_exist() -> None:
    """Below the package, such as `storage/io/disk.py`, or below the repository."""
    paths = re.findall(r"`([a-z_]+(?:/[a-z_]+)+(?:\.py)?)`", ARCHITECTURE)
    assert len(paths) >= 40
    missing = [path for path in paths if not any((top / path).exists() for top in (PACKAGE, ROOT))]
    assert missing == []


def test_architecture_page_lists_all_layers_in_order() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / ".importlinter", encoding="utf-8")
    layers = config["importlinter:contract:layers"]["layers"].strip()
    assert "".join(f"    {line}\n" for line in layers.splitlines()) in ARCHITECTURE
    packages = re.findall(r"\w+", layers)
    assert [name for name in packages if f"| `{name}` |" not in ARCHITECTURE] == []


def test_architecture_page_shows_every_diagram() -> None:
    diagrams = [path.name for path in (ROOT / "docs/diagrams").glob("*.svg")]
    assert [name for name in diagrams if f"(../diagrams/{name})" not in ARCHITECTURE] == []


@pytest.mark.parametrize(
    ("page", "programs", "topic"),
    [("README.md", 2, "tea"), ("docs/tutorials/first-five-minutes.md", 1, "five-minutes-tea")],
)
def test_programs_of_the_front_pages_run(
    page: str, programs: int, topic: str, tmp_path: Path
) -> None:
    """Each program runs, and prints what the block after it says, if there is one."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert [kind for kind, _ in blocks].count("python") == programs
    with EmbeddedBroker(data_directory=tmp_path / "data") as broker:
        for (kind, code), (next_kind, shown) in itertools.pairwise([*blocks, ("python", "")]):
            if kind == "python":
                printed = run_program(code.replace("127.0.0.1:9092", broker.bootstrap_servers))
                assert next_kind or printed == shown, code
    dump = CliRunner().invoke(app, ["log", "dump", str(tmp_path / f"data/{topic}-0")])
    assert dump.exit_code == 0
    assert "no damage found" in dump.stdout


def run_program(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs/decisions"
    listed = re.findall(r"\]\((\d{4}-[^)]+)\)", (folder / "README.md").read_text(encoding="utf-8"))
    assert listed == sorted(path.name for path in folder.glob("[0-9]*.md"))
