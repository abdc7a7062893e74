"""What the service is made of: P42."""

import json
import re
import shutil
import subprocess
from pathlib import Path

from harness.processes import ROOT
from harness.prove.promise import Figure, NotShown, Promise, Stage

LOCKS = ("requirements/runtime.lock", "requirements/dev.lock", "requirements/bench.lock")
PINNED = re.compile(r"^([a-z0-9][\w.-]*(?:\[[\w,-]+\])?)==(\S+)", re.MULTILINE | re.IGNORECASE)
HASH = "--hash=sha256:"
MAKE_SECONDS_MAX = 240
SBOM = ROOT / "dist" / "sbom.cdx.json"
# What `make` prints when `tools.advisories` could ask no index.
NO_INDEX = "Error 3"


def p42(stage: Stage) -> Figure:
    """Check that every dependency is pinned by hash, make the SBOM, and ask for advisories."""
    faults: list[str] = []
    pinned = 0
    for name in LOCKS:
        copy = stage.folder / Path(name).name
        shutil.copyfile(ROOT / name, copy)
        if "P42" in stage.faults:
            copy.write_text(copy.read_text().replace(HASH, "--nothing=", 4))
        count, unpinned = _read_lock(copy)
        pinned += count
        faults += [f"{name}: {one} has no hash" for one in unpinned]
    done = f"{pinned} pinned dependencies of {len(LOCKS)} lock files"
    if faults:
        return Figure(done=done, found=f"{len(faults)} without a hash", faults=faults)
    components = _sbom()
    audit = _make("audit")
    said = (audit.stdout + audit.stderr).strip()
    if NO_INDEX in said:
        raise NotShown(
            f"{done}, all by hash, and an SBOM of {components} components; but no index of "
            "advisories can be asked from here, so known holes were not looked up"
        )
    if audit.returncode:
        faults.append(f"make audit: {said[-300:]}")
    return Figure(
        done=f"{done}; SBOM; advisories",
        found=f"every one by hash; {components} components; {said.splitlines()[-1:]}",
        faults=faults,
    )


def _read_lock(path: Path) -> tuple[int, list[str]]:
    """Return how many dependencies a lock file has, and those without a hash."""
    blocks = re.split(r"\n(?=\S)", path.read_text())
    found = [(match[1], block) for block in blocks if (match := PINNED.match(block))]
    return len(found), [name for name, block in found if HASH not in block]


def _sbom() -> int:
    done = _make("sbom")
    if done.returncode:
        raise NotShown(f"make sbom: {done.stderr[-300:]}")
    return len(json.loads(SBOM.read_text())["components"])


def _make(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [shutil.which("make") or "make", "-s", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=MAKE_SECONDS_MAX,
        check=False,
    )


PROMISES = (
    Promise(
        42,
        "Dependencies are pinned by hash, listed, and without known holes.",
        p42,
        "a dependency is not pinned by its hash",
    ),
)
