"""Errors of a worker's REST API, with Kafka Connect's statuses and messages."""

from headwater.http_server.http_errors import HttpError


class ConnectRestError(HttpError):
    """A request is rejected; the error code is the HTTP status, as in Kafka Connect."""


def connector_not_found(name: str) -> ConnectRestError:
    return ConnectRestError(404, f"Connector {name} not found")


def no_status(name: str) -> ConnectRestError:
    return ConnectRestError(404, f"No status found for connector {name}")


def bad_request(message: str) -> ConnectRestError:
    return ConnectRestError(400, message)
