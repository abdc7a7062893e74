"""Options of a run: its tenants, its waves, and how many failures it allows."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from uuid import UUID

from tenantry.catalog import plans, runs, tenant_counts
from tenantry.catalog.plans import Selection
from tenantry.catalog.session import CatalogSession
from tenantry.kit.errors import Invalid
from tenantry.kit.text import checked_label

LABEL_CHARS_MAX = 200
TENANTS_NAMED_MAX = 10_000
WAVES_MAX = 100
# All details of a preview are in memory, with some hundred bytes for each tenant.
PREVIEWED_MAX = 100_000

Amount = int | str
"""A number of tenants, or a percentage of them: ``"5%"``, rounded up."""

_PERCENTAGE = re.compile(r"(100|[0-9]{1,2})%")


class BadRunOptions(Invalid):
    """An option of the run breaks a rule; the message says which."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of a run. Messages name the members as the HTTP API does.

    Attributes:
        tenant_ids: Only these tenants; each must be active and not read-only. An empty list is a
            run of no tenant.
        retry_of: Only the tenants that failed in this run and are active now. With
            `tenant_ids` too, those that are both.
        cause: With `retry_of`: only the tenants that failed with this cause.
        waves: The cumulative number of tenants up to each wave, in the order of their creation. A
            wave starts when all tenants of the previous one have ended. Tenants after the last
            wave are not attempted.
        max_failures: If more tenants have failed, the remaining ones are not attempted.
        label: A label for the history.
        only_behind: Only the tenants that the catalog's index does not show at the head, and
            those that failed in their latest attempt. No other tenant's database is opened.
    """

    tenant_ids: Sequence[UUID] | None = None
    retry_of: UUID | None = None
    cause: str | None = None
    waves: Sequence[Amount] | None = None
    max_failures: Amount | None = None
    label: str | None = None
    only_behind: bool = False

    def check(self) -> None:
        """Check the options as far as possible without the catalog.

        Raises:
            BadRunOptions, BadText: A rule is broken.
        """
        if self.label is not None:
            checked_label("label", self.label, chars_max=LABEL_CHARS_MAX)
        if self.cause is not None and self.retry_of is None:
            raise BadRunOptions("`cause` needs `retryOf`.")
        if self.tenant_ids is not None and len(self.tenant_ids) > TENANTS_NAMED_MAX:
            raise BadRunOptions(f"`tenantIds` must name at most {TENANTS_NAMED_MAX:,} tenants.")
        if self.max_failures is not None and _least(self.max_failures) < 0:
            raise BadRunOptions('`maxFailures` must be 0 or more, or a percentage: "0%" to "100%".')
        if self.waves is not None:
            _check_waves(self.waves)

    def wave_sizes(self, total: int) -> list[int]:
        """Return the cumulative size of each wave for *total* tenants; empty without waves.

        Raises:
            BadRunOptions: A wave is smaller than the previous one.
        """
        sizes = [_amount(one, total) for one in self.waves or ()]
        if sizes != sorted(sizes):
            raise BadRunOptions(
                f"`waves` must not decrease: of {total} tenants these are {_listed(sizes)}."
            )
        return sorted(set(sizes) - {0})

    def failures_max(self, total: int) -> int | None:
        """Return how many of *total* tenants may fail; None if there is no limit."""
        return None if self.max_failures is None else _amount(self.max_failures, total)


EVERY_ACTIVE_TENANT = RunOptions()


async def select(session: CatalogSession, options: RunOptions, *, head: str | None) -> Selection:
    """Return the selection of tenants for *options*.

    *head* is the position that its tenants must reach; None if it cannot be read.

    Raises:
        MigrationRunNotFound: There is no run with the id in `retry_of`.
        BadRunOptions: A named tenant does not exist, is suspended, or is read-only.
    """
    if options.retry_of is not None:
        await runs.get(session, options.retry_of)
    head = head if options.only_behind else None
    if head is not None and not await tenant_counts.behind(session, head):
        return Selection(tenant_ids=[])
    if options.tenant_ids is None:
        return Selection(retry_of=options.retry_of, cause=options.cause, head=head)
    named = list(dict.fromkeys(options.tenant_ids))
    wrong = await plans.left_out(session, named)
    if wrong:
        more = f", and {len(wrong) - 1} more of them" if len(wrong) > 1 else ""
        raise BadRunOptions(f"`tenantIds`: {wrong[0]} is no active, writable tenant{more}.")
    return Selection(tenant_ids=named, retry_of=options.retry_of, cause=options.cause, head=head)


def _check_waves(waves: Sequence[Amount]) -> None:
    if not 0 < len(waves) <= WAVES_MAX:
        raise BadRunOptions(f"`waves` must hold 1 to {WAVES_MAX} waves.")
    if any(_least(one) < 1 for one in waves):
        raise BadRunOptions('Each of `waves` must be 1 or more, or a percentage: "1%" to "100%".')
    for before, after in pairwise(waves):
        if type(before) is type(after) and _least(after) < _least(before):
            raise BadRunOptions("`waves` must not decrease.")


def _least(amount: Amount) -> int:
    """Return the number or the percentage in *amount*; -1 if it is invalid."""
    if isinstance(amount, int):
        return amount
    percentage = _PERCENTAGE.fullmatch(amount)
    return int(percentage[1]) if percentage else -1


def _amount(amount: Amount, total: int) -> int:
    number = _least(amount)
    # Rounded up, so that a percentage of at least one tenant is at least one.
    return min(total, -(-total * number // 100) if isinstance(amount, str) else number)


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes))
