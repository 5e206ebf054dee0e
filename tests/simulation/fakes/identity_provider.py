"""An OAuth identity provider: keys, signed tokens, and a small HTTP server."""

import base64
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

ISSUER, AUDIENCE = "https://login.tea.example", "headwater"
CLIENT_ID, CLIENT_SECRET = "till", "till-secret"


@cache
def rsa_key(name: str, bits: int = 2_048) -> rsa.RSAPrivateKey:  # noqa: ARG001
    """One key per name, cached: creating them takes a while."""
    return rsa.generate_private_key(public_exponent=65_537, key_size=bits)


@cache
def ec_key(name: str, curve: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:  # noqa: ARG001
    return ec.generate_private_key(curve())


def published(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, **more: str) -> dict[str, Any]:
    """The entry of a key in a JWKS."""
    if isinstance(key, rsa.RSAPrivateKey):
        entry = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        entry = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    # The test sets the use of a key itself.
    entry.pop("key_ops", None)
    return {**entry, **more}


def key_set(*entries: Mapping[str, Any]) -> bytes:
    return json.dumps({"keys": entries}).encode()


def claims(user: str = "alice", *, now_s: float | None = None, **more: object) -> dict[str, object]:
    """The claims of a valid token."""
    now_s = time.time() if now_s is None else now_s
    good = {"sub": user, "iss": ISSUER, "aud": AUDIENCE, "iat": int(now_s), "exp": now_s + 600}
    return {**good, **more}


def signed(
    said: Mapping[str, object],
    key: Any = None,
    *,
    algorithm: str = "RS256",
    key_id: str | None = "k1",
) -> str:
    headers = {} if key_id is None else {"kid": key_id}
    return jwt.encode(
        dict(said), rsa_key("k1") if key is None else key, algorithm=algorithm, headers=headers
    )


@dataclass
class IdentityProvider:
    """What the server returns, and the requests it got."""

    url: str = ""
    lifetime_s: float = 600
    # Responses to send instead, one after the other.
    failures: list[int] = field(default_factory=list)
    keys: bytes = b""
    asked: list[str] = field(default_factory=list)
    forms: list[dict[str, list[str]]] = field(default_factory=list)

    @property
    def keys_url(self) -> str:
        return f"{self.url}/keys"

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    def answer(self, path: str, authorization: str, body: bytes) -> tuple[int, bytes]:
        self.asked.append(path)
        if self.failures:
            return self.failures.pop(0), b'{"error":"temporarily_unavailable"}'
        if path == "/keys":
            return 200, self.keys
        expected = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if authorization != f"Basic {expected}":
            return 401, json.dumps({"error": "invalid_client", "got": authorization}).encode()
        self.forms.append(parse_qs(body.decode()))
        said = claims(CLIENT_ID, exp=time.time() + self.lifetime_s)
        answer = {"access_token": signed(said), "token_type": "Bearer", "expires_in": 600}
        return 200, json.dumps(answer).encode()


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """A server on a free local port."""
    provider = IdentityProvider(keys=key_set(published(rsa_key("k1"), kid="k1")))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, body: bytes) -> None:
            authorization = self.headers.get("Authorization", "")
            status, content = provider.answer(self.path, authorization, body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
