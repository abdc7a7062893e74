"""The licences of what a release and its image install: for `docs/reference/licences.md`."""

import re
from importlib import metadata
from pathlib import Path

LOCK = Path("requirements/extras.lock")
UNKNOWN = "unknown"

# Locked for other platforms, so their metadata is not installed here.
ELSEWHERE = {
    "colorama": "BSD-3-Clause",
    "httpx2-jsfetch": "BSD-3-Clause",
    "pywin32": "PSF-2.0",
    "tzdata": "Apache-2.0",
}
# Classifiers that are older than SPDX expressions, and their SPDX identifiers.
SPDX = {
    "Apache Software License": "Apache-2.0",
    "3-Clause BSD License": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "The Unlicense (Unlicense)": "Unlicense",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only",
}
# What a distributor of Tenantry can comply with. The LGPL requires that its part can be
# replaced, and the MPL that its files stay under it: each is a separate, unchanged package.
ACCEPTED = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "LGPL-3.0-only",
        "MIT",
        "MIT-0",
        "MPL-2.0",
        "PSF-2.0",
        "Unlicense",
    }
)
_PINNED = re.compile(r"^([A-Za-z0-9_.-]+)==([^ ;\\]+)", re.MULTILINE)


def locked() -> dict[str, str]:
    """Return the version of every package that `requirements/extras.lock` names."""
    return dict(_PINNED.findall(LOCK.read_text(encoding="utf-8")))


def licence_of(name: str) -> str:
    """Return the licence of a package as an SPDX expression, or `UNKNOWN`."""
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ELSEWHERE.get(name, UNKNOWN)
    if found["License-Expression"]:
        return found["License-Expression"]
    classifiers = [one for one in found.get_all("Classifier", []) if one.startswith("License ::")]
    named = {SPDX.get(one.rpartition(" :: ")[2], UNKNOWN) for one in classifiers} - {UNKNOWN}
    if named:
        return " OR ".join(sorted(named))
    text = found["License"] or UNKNOWN
    return SPDX.get(text, text if text in ACCEPTED else UNKNOWN)


def parts_of(expression: str) -> set[str]:
    """Return the licences that an expression names."""
    return set(re.split(r"\s+(?:AND|OR)\s+", expression.replace("(", "").replace(")", "")))


def rows() -> list[tuple[str, str]]:
    """Return each package and its licence."""
    return [(name, licence_of(name)) for name in sorted(locked())]
