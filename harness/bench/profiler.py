"""Where the time goes: py-spy samples a server under load.

Not while anything is measured, because sampling costs time.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from harness.bench.interleave import Contender
from harness.bench.load import Load

PER_SECOND = 400
SHOWN = 30
WARM_SECONDS = 0.5
# Frames that are on every stack.
BELOW = ("(typer/", "(tenantry/cli/", "(tenantry/__main__", "(<frozen", "(asyncio/runners")


def profile(contender: Contender, seconds: int) -> list[str]:
    """Return the functions that take the time of a server, by themselves and with what they call.

    The folded stacks stay in a file, for a flame graph.
    """
    kept = Path(tempfile.gettempdir()) / f"tenantry-bench-{contender.name.replace(' ', '-')}.folded"
    command = [
        *(str(Path(sys.executable).with_name("py-spy")), "record", "--nonblocking"),
        *("--pid", str(contender.process.pid), "--rate", str(PER_SECOND)),
        *("--duration", str(seconds), "--format", "raw", "--output", str(kept)),
    ]
    with Load(contender.process.port, contender.requests) as load:
        load.run(WARM_SECONDS)
        spy = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        load.run(seconds + WARM_SECONDS)
    _, complaint = spy.communicate(timeout=60)
    if spy.returncode:
        return [f"py-spy failed: {complaint.strip()[-500:]}"]
    alone, inclusive, total = _count(kept)
    return [
        f"{contender.name}: {total} samples in {kept}",
        "by themselves: " + _top(alone, total),
        "with what they call: " + _top(inclusive, total),
    ]


def _count(folded: Path) -> tuple[Counter[str], Counter[str], int]:
    alone: Counter[str] = Counter()
    inclusive: Counter[str] = Counter()
    for line in folded.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        # Without the line numbers.
        frames = [frame.rpartition(":")[0] + ")" for frame in stack.split(";")]
        alone[frames[-1]] += int(count)
        for frame in set(frames):
            if not any(below in frame for below in BELOW):
                inclusive[frame] += int(count)
    return alone, inclusive, alone.total()


def _top(counts: Counter[str], total: int) -> str:
    return "".join(f"\n    {n / total:6.1%}  {name}" for name, n in counts.most_common(SHOWN))
