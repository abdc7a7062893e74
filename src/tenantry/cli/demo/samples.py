"""The sample tenants and their posts."""

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("samples.toml")


@dataclass(frozen=True, slots=True)
class SamplePost:
    """A post of a sample tenant.

    Attributes:
        is_draft: Whether it is visible only to the tenant's users.
    """

    title: str
    content: str
    tags: tuple[str, ...]
    is_draft: bool = False


@dataclass(frozen=True, slots=True)
class SampleTenant:
    """A sample tenant.

    Attributes:
        domain: The first part of its domain, below example.com.
        posts: The newest first.
    """

    name: str
    domain: str
    owner: str
    posts: tuple[SamplePost, ...]

    @property
    def email(self) -> str:
        """The address of the owner."""
        return f"owner@{self.domain}.example.com"


def sample_tenants(wanted: int) -> list[SampleTenant]:
    """Return *wanted* sample tenants; when the samples run out, they repeat with a number."""
    return [_sample_tenant(place) for place in range(wanted)]


def _sample_tenant(place: int) -> SampleTenant:
    samples = _read()
    round_, place = divmod(place, len(samples))
    sample = samples[place]
    if round_ == 0:
        return sample
    number = round_ + 1
    return replace(sample, name=f"{sample.name} {number}", domain=f"{sample.domain}-{number}")


@cache
def _read() -> tuple[SampleTenant, ...]:
    found = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return msgspec.convert(found["tenants"], tuple[SampleTenant, ...])
