"""CleanShutdownFileHandler: `.kafka_cleanshutdown` (RC-1).

Only its presence counts. The content, the broker epoch as JSON, tells a controller that the broker
lost nothing (KIP-966); old brokers left the file empty.

Note: its removal must be durable before the first append. Otherwise a power cut during the next run
would look like a clean shutdown and skip recovery.
"""

import json
from dataclasses import dataclass
from pathlib import PurePath

from headwater.storage.io.disk import Disk, read_whole, write_atomically

FILE_NAME = ".kafka_cleanshutdown"
VERSION = 0


@dataclass(frozen=True, slots=True)
class CleanShutdown:
    """Clean shutdown with the broker epoch, if known."""

    broker_epoch: int | None


def encode(broker_epoch: int) -> bytes:
    content = {"version": VERSION, "brokerEpoch": broker_epoch}
    return json.dumps(content, separators=(",", ":")).encode("ascii")


def decode(content: bytes) -> CleanShutdown:
    """Decode the content; an unreadable file marks a clean shutdown, too."""
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        return CleanShutdown(None)
    epoch = fields.get("brokerEpoch") if isinstance(fields, dict) else None
    return CleanShutdown(epoch if type(epoch) is int else None)


def load(disk: Disk, directory: PurePath) -> CleanShutdown | None:
    """Return None if the last shutdown was unclean."""
    content = read_whole(disk, directory / FILE_NAME)
    return None if content is None else decode(content)


def save(disk: Disk, directory: PurePath, broker_epoch: int) -> None:
    """Write the file: the last step of a clean shutdown, after all logs."""
    write_atomically(disk, directory / FILE_NAME, encode(broker_epoch))


def remove(disk: Disk, directory: PurePath) -> None:
    """Remove the file before anything is appended; durable on return."""
    disk.remove(directory / FILE_NAME)
    disk.sync_directory(directory)
