"""Print a running broker's responses to the scenarios: `python -m tests.peers.transcripts`.

    python -m tests.peers.transcripts 127.0.0.1:9092 produce

The second argument is a prefix of scenario names. Shows what Apache Kafka really responds; the
tests compare the same values.
"""

import json
import secrets
import sys

from tests.peers.lab import Lab
from tests.peers.scenarios.catalog import SCENARIOS


def main(bootstrap_servers: str, beginning: str = "") -> None:
    for name in SCENARIOS:
        if name.startswith(beginning):
            # Topics of an earlier run are still there.
            lab = Lab(f"{name}.run{secrets.token_hex(3)}", bootstrap_servers)
            print(f"== {name}")
            try:
                SCENARIOS[name](lab)
            finally:
                for label, value in lab.transcript.items():
                    print(f"{label}: {json.dumps(value)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
