"""The clock of the tests counts what a process does and waits for, and no pause of the machine."""

import signal
import subprocess
import sys
import time

from tests.own_time import COUNTED_SECONDS_MAX, own_seconds

PAUSE_SECONDS = 0.5
PAUSED = """
import time
from tests.own_time import own_seconds

began = time.monotonic()
with own_seconds() as seconds:
    print("ready", flush=True)
    input()
    print(seconds(), time.monotonic() - began)
"""


def test_a_pause_of_the_machine_does_not_count():
    with subprocess.Popen(
        [sys.executable, "-c", PAUSED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(PAUSE_SECONDS)
        process.send_signal(signal.SIGCONT)
        found, _ = process.communicate("\n")

    counted, passed = map(float, found.split())
    assert counted < passed - PAUSE_SECONDS / 2


def test_waiting_and_computing_count():
    with own_seconds() as seconds:
        time.sleep(0.1)
        waited = seconds()
        began = time.process_time()
        while time.process_time() - began < 0.1:
            pass
        computed = seconds() - waited

    # All but one of the beats may be missing on a busy machine.
    assert waited >= COUNTED_SECONDS_MAX
    assert computed > 0.09
