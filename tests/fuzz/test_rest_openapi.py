"""schemathesis makes requests from the OpenAPI document: no 500, and responses as documented.

It runs from a virtual environment of its own (`make test-rest`), since it brings many packages; the
test is skipped without it. Takes minutes.
"""

import subprocess
from pathlib import Path

import pytest

from headwater.testing import EmbeddedBroker, EmbeddedRegistry
from tests.rest_server import RestServer

ROOT = Path(__file__).parents[2]
SCHEMATHESIS = ROOT / ".venv" / "schemathesis" / "bin" / "st"
CHECKS = "not_a_server_error,response_schema_conformance,content_type_conformance"
EXAMPLES = 8
LIMIT_S = 1_500

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SCHEMATHESIS.exists(), reason="needs make test-rest"),
]


def test_generated_requests_find_no_server_error(tmp_path: Path) -> None:
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    # Short waits: most generated names do not exist.
    settings = {"consumer.request.timeout.ms": "50", "producer.max.block.ms": "300"}
    with (
        EmbeddedBroker(authorizer) as broker,
        EmbeddedRegistry(broker.bootstrap_servers) as registry,
        RestServer(broker.bootstrap_servers, settings, registry_url=registry.url) as rest,
    ):
        config = tmp_path / "schemathesis.toml"
        cluster_id = rest.cluster.rpartition("/")[2]
        config.write_text(f'[parameters]\ncluster_id = "{cluster_id}"\n', encoding="utf-8")
        done = subprocess.run(
            [
                str(SCHEMATHESIS),
                "--config-file",
                str(config),
                "run",
                f"{rest.url}/openapi.json",
                "--checks",
                CHECKS,
                "--phases",
                "coverage,fuzzing",
                "--max-examples",
                str(EXAMPLES),
                "--generation-deterministic",
                "--request-timeout",
                "60",
                "--workers",
                "2",
                "--continue-on-failure",
                "--no-color",
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stdout[-10_000:]
        assert "Traceback" not in rest.log_text, rest.log_text[-10_000:]
