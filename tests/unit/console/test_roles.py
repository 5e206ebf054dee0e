"""Users with the role viewer read, and change nothing."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client import Admin
from headwater.testing import EmbeddedBroker
from tests.console_process import ConsoleProcess

USERS = "olga: secret-1,operator\nvera: secret-2,viewer\nanna: secret-3\n"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic("tea", partitions=1)
        yield broker


@pytest.fixture(scope="module")
def console(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    folder: Path = tmp_path_factory.mktemp("console")
    (folder / "users.properties").write_text(USERS)
    config = folder / "console.properties"
    config.write_text(
        "authentication.method=BASIC\n"
        f"headwater.authentication.users.file={folder / 'users.properties'}\n"
    )
    with ConsoleProcess(broker.bootstrap_servers, "--config", str(config)) as console:
        yield console


def login(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def test_viewer_reads_pages_without_forms(console: ConsoleProcess) -> None:
    vera = login("vera", "secret-2")
    page = console.get("/topics/tea", Authorization=vera)
    assert page.status == 200
    assert "read only" in page.text
    assert 'method="post"' not in page.text
    assert (
        'method="post"' in console.get("/topics/tea", Authorization=login("olga", "secret-1")).text
    )


@pytest.mark.parametrize(
    ("user", "password", "status"),
    [
        ("vera", "secret-2", 403),
        ("vera", "secret-1", 401),
        ("olga", "secret-1", 200),
        ("anna", "secret-3", 200),
    ],
)
def test_only_operators_change_something(
    console: ConsoleProcess, user: str, password: str, status: int
) -> None:
    change = {"name": "retention.ms", "value": "7000"}
    answer = console.post_json("/topics/tea/configs", change, Authorization=login(user, password))
    assert answer.status == status, answer.text
    if status == 403:
        assert answer.json == {"error": "Users with the role viewer cannot change anything."}
