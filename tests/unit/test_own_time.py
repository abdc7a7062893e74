"""The clock of the tests counts what a process does and waits for, and no pause of the machine."""

import signal
import subprocess
import sys
import time

from tests.own_time import own_seconds

PAUSE_SECONDS = 0.5
PAUSED = """
from tests.own_time import own_seconds

with own_seconds() as seconds:
    print("ready", flush=True)
    input()
    print(seconds())
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

    assert float(found) < PAUSE_SECONDS / 2


def test_waiting_and_computing_count():
    with own_seconds() as seconds:
        time.sleep(0.1)
        waited = seconds()
        began = time.process_time()
        while time.process_time() - began < 0.1:
            pass
        computed = seconds() - waited

    # Some beats of a busy machine may be missing.
    assert waited > 0.02
    assert computed > 0.09
