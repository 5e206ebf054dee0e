"""Find secrets that are written into a pipeline's file instead of a settings file.

Pipeline files are committed, copied and printed; the files that `settings` and `settingsFile` name
are not. A value that is empty or refers to an environment variable is not a secret.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from headwater.pipelines.spec.document import Document, PipelineProblem, Place

# In names such as ssl.key.password, fs.s3a.secret.key, sasl.jaas.config, basic.auth.user.info.
_SECRET_NAME: Final = re.compile(
    r"password|passwd|passphrase|secret|jaas|access[._-]?key|account[._-]?key|api[._-]?key"
    r"|auth[._-]?token|session[._-]?token|(^|[._-])token$|credential|user\.info|private[._-]?key"
    r"|ssl\.keystore\.key$|ssl\.key\.pem$",
    re.IGNORECASE,
)
# Settings for the location of a secret, or for how it is looked up.
_NO_SECRET: Final = re.compile(
    r"(location|file|path|provider|class|type|url|endpoint)$", re.IGNORECASE
)
_REFERENCE: Final = re.compile(r"\$\{.+\}|\$\w+")
_IN_URL: Final = re.compile(
    r"[a-z][a-z0-9+.:-]*://[^/\s:@]+:[^/\s@]+@|[?&;]password=", re.IGNORECASE
)


def secret_warnings(document: Document) -> list[PipelineProblem]:
    """Return a warning for each secret, without the secret itself."""
    return [document.problem(place, text) for place, text in _found(document.value, ())]


def _found(value: Any, place: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _found(each, (*place, name))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _found(each, (*place, at))
    elif isinstance(value, str) and value.strip() and not _REFERENCE.fullmatch(value.strip()):
        name = str(place[-1]) if place else ""
        if _is_secret(name, place):
            yield place, _text(f"{name} is a secret in clear text")
        elif _IN_URL.search(value):
            yield place, _text(f"{name} contains a password in clear text")


def _is_secret(name: str, place: Place) -> bool:
    # Columns may have any name: schemas and expressions are not settings.
    if any(each in ("decode", "headers", "watermark", "steps") for each in place):
        return False
    return _SECRET_NAME.search(name) is not None and _NO_SECRET.search(name) is None


def _text(what: str) -> str:
    return f"{what}: keep it in a properties file that settings or settingsFile names"
