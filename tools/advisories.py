"""Check the packages of a release for known vulnerabilities: what `make audit` runs.

Exit status: 0 none is known, 1 some are known, 3 the index of advisories could not be reached, so
the result is unknown.
"""

import json
import subprocess
import sys
from pathlib import Path

LOCK = "requirements/extras.lock"
CLEAN, VULNERABLE, NOT_ASKED = 0, 1, 3
SECONDS_MAX = 300
REQUEST_SECONDS = 10


def main() -> int:
    """Run pip-audit, and print one sentence about the result."""
    program = Path(sys.executable).with_name("pip-audit")
    command = [str(program), "--requirement", LOCK, "--require-hashes", "--disable-pip"]
    command += ["--format", "json", "--progress-spinner", "off", "--timeout", str(REQUEST_SECONDS)]
    try:
        ended = subprocess.run(  # noqa: S603 - our own program
            command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return _not_asked(f"no answer within {SECONDS_MAX} s")
    try:
        packages = json.loads(ended.stdout)["dependencies"]
    except (ValueError, KeyError):
        lines = ended.stderr.strip().splitlines()
        return _not_asked(lines[-1] if lines else f"pip-audit ended with {ended.returncode}")
    skipped = [one for one in packages if "skip_reason" in one]
    if skipped or not packages:
        return _not_asked(f"{len(skipped)} of {len(packages)} packages were not looked up")
    found = [(one, hole) for one in packages for hole in one["vulns"]]
    for package, hole in found:
        fixed = ", ".join(hole["fix_versions"]) or "no version"
        sys.stdout.write(
            f"{package['name']} {package['version']}: {hole['id']}, fixed in {fixed}\n"
        )
    sys.stdout.write(f"{len(found)} known vulnerabilities in {len(packages)} locked packages.\n")
    return VULNERABLE if found else CLEAN


def _not_asked(why: str) -> int:
    sys.stderr.write(
        f"NOT CHECKED: no index of advisories could be reached ({why}). "
        "There may be known vulnerabilities.\n"
    )
    return NOT_ASKED


if __name__ == "__main__":
    sys.exit(main())
