"""One client at full blast, in a process of its own: it repeats a request without a pause.

    python -m harness.bench.loud PORT CONNECTIONS <request

It prints a line when the first second is over, runs until its standard input is closed, and
prints the answers in a second. At most `SECONDS_MAX`.
"""

import base64
import select
import sys
import time

from harness.bench.load import Load
from harness.wire import Request

SECONDS_MAX = 120.0
SLICE_SECONDS = 0.2
WARM_SECONDS = 1.0


def main(port: int, connections: int) -> None:
    """Send until the standard input is closed."""
    wire = base64.b64decode(sys.stdin.readline())
    with Load(port, [Request(wire)], connections=connections) as load:
        load.run(WARM_SECONDS)
        print("ready", flush=True)
        began, answered = time.perf_counter(), 0
        while time.perf_counter() - began < SECONDS_MAX and not _is_closed():
            answered += load.run(SLICE_SECONDS)
        print(round(answered / (time.perf_counter() - began)), flush=True)


def _is_closed() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
