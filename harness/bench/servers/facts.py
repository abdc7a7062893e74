"""What the peers know of a world: read once, where Tenantry has its cache of the catalog."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt


@dataclass(frozen=True)
class Facts:
    """Tenants by the digest of their API key, and what verifies a token."""

    tenants: dict[str, dict[str, Any]]
    keys: dict[str, Any]
    algorithm: str
    issuer: str
    audience: str


def read_facts(path: str) -> Facts:
    """Return what is in the file at *path*."""
    said = json.loads(Path(path).read_text())
    return Facts(
        tenants={hashlib.sha256(t["api_key"].encode()).hexdigest(): t for t in said["tenants"]},
        keys={key["kid"]: jwt.PyJWK(key).key for key in said["keys"]},
        algorithm=said["algorithm"],
        issuer=said["issuer"],
        audience=said["audience"],
    )
