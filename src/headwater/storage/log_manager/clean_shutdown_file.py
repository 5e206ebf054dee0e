"""`.kafka_cleanshutdown`: the file whose presence says that the last stop was clean (RC-1).

Its presence alone counts. The content, the broker's epoch as JSON, tells a controller that the
broker lost nothing (KIP-966), and old brokers left the file empty.

What a reader would get wrong: removing it must be durable before the first append, or a power cut
during the next run would be taken for a clean stop and skip recovery.
"""

import json
from dataclasses import dataclass
from pathlib import PurePath

from headwater.storage.io.disk import Disk, read_whole, write_atomically

FILE_NAME = ".kafka_cleanshutdown"
VERSION = 0


@dataclass(frozen=True, slots=True)
class CleanShutdown:
    """A clean stop, and the broker's epoch then, where it is known."""

    broker_epoch: int | None


def encode(broker_epoch: int) -> bytes:
    content = {"version": VERSION, "brokerEpoch": broker_epoch}
    return json.dumps(content, separators=(",", ":")).encode("ascii")


def decode(content: bytes) -> CleanShutdown:
    """Never fails: a file that cannot be read still says that the stop was clean."""
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        return CleanShutdown(None)
    epoch = fields.get("brokerEpoch") if isinstance(fields, dict) else None
    return CleanShutdown(epoch if type(epoch) is int else None)


def load(disk: Disk, directory: PurePath) -> CleanShutdown | None:
    """None when the last run did not stop cleanly."""
    content = read_whole(disk, directory / FILE_NAME)
    return None if content is None else decode(content)


def save(disk: Disk, directory: PurePath, broker_epoch: int) -> None:
    """The last act of a clean stop, after all logs are synced and closed."""
    write_atomically(disk, directory / FILE_NAME, encode(broker_epoch))


def remove(disk: Disk, directory: PurePath) -> None:
    """Durable on return, before anything is appended."""
    disk.remove(directory / FILE_NAME)
    disk.sync_directory(directory)
