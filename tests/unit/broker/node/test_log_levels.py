"""Changes of log levels."""

import logging
import uuid
from collections.abc import Iterator

import pytest

from headwater.broker.node.log_levels import (
    ROOT,
    broker_error,
    current_levels,
    is_log_level_request,
    set_levels,
    validate_changes,
)
from headwater.common.api_error import ApiError
from headwater.common.config_types import ConfigOperation, ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

KNOWN = {ROOT: "INFO", "headwater": "INFO", "headwater.network": "WARN"}


def change(
    name: str, value: str | None = "DEBUG", operation: ConfigOperation = ConfigOperation.SET
) -> AlterableConfig:
    return AlterableConfig(name=name, config_operation=operation, value=value)


@pytest.fixture
def package() -> Iterator[str]:
    """A package with one logger in it."""
    name = f"loggers{uuid.uuid4().hex}"
    logging.getLogger(f"{name}.deep.inside")
    yield name
    logging.getLogger(name).setLevel(logging.NOTSET)


def test_levels_are_set_and_deleted() -> None:
    changes = [
        change("headwater.network", "TRACE"),
        change("headwater", None, ConfigOperation.DELETE),
    ]
    assert validate_changes(changes, KNOWN) == {"headwater.network": "TRACE", "headwater": None}


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (change("no.such.logger"), ErrorCode.INVALID_CONFIG),
        (change("headwater", "WARNING"), ErrorCode.INVALID_CONFIG),
        (change("headwater", None), ErrorCode.INVALID_REQUEST),
        (change("headwater", "INFO", ConfigOperation.APPEND), ErrorCode.INVALID_REQUEST),
        (change(ROOT, None, ConfigOperation.DELETE), ErrorCode.INVALID_REQUEST),
        (change("headwater.network", "INFO"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_one_invalid_change_rejects_all(wrong: AlterableConfig, code: ErrorCode) -> None:
    outcome = validate_changes([change("headwater.network"), wrong], KNOWN)
    assert isinstance(outcome, ApiError)
    assert outcome.code is code


def test_level_of_a_package_applies_to_its_loggers(package: str) -> None:
    set_levels({package: "TRACE"})
    levels = current_levels()
    assert levels[package] == levels[f"{package}.deep"] == levels[f"{package}.deep.inside"]
    assert levels[package] == "TRACE"
    assert logging.getLogger(f"{package}.deep.inside").isEnabledFor(logging.DEBUG)
    set_levels({package: "FATAL", f"{package}.deep": "WARN"})
    assert current_levels()[package] == "FATAL"
    set_levels({f"{package}.deep": None})
    assert current_levels()[f"{package}.deep.inside"] == "FATAL"


def test_broker_serves_only_its_own_loggers() -> None:
    assert broker_error("3", 3) is None
    for other in ("4", "03", "", "three"):
        assert broker_error(other, 3) is not None


def test_other_config_changes_are_for_the_controller() -> None:
    of_loggers = AlterConfigsResource(resource_type=ResourceType.BROKER_LOGGER, resource_name="0")
    of_broker = AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name="0")
    assert is_log_level_request(IncrementalAlterConfigsRequest(resources=(of_loggers,)))
    for resources in ((), (of_broker,), (of_loggers, of_broker)):
        assert not is_log_level_request(IncrementalAlterConfigsRequest(resources=resources))
