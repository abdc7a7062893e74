"""Options of a run: its tenants, its waves, and how many failures it allows."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any, Literal, TypeGuard
from uuid import UUID

import msgspec

from tenantry.catalog import plans, runs, tenant_counts, tenants
from tenantry.catalog.plans import Selection
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.waves import CREATION, ORDERS, Wave, is_order
from tenantry.catalog.where import BadWhere, condition_of
from tenantry.kit.errors import Invalid
from tenantry.kit.text import BadText, checked_label, shown

LABEL_CHARS_MAX = 200
TENANTS_NAMED_MAX = 10_000
WAVES_MAX = 100
# All details of a preview are in memory, with some hundred bytes for each tenant.
PREVIEWED_MAX = 100_000
TOO_MANY_PREVIEWED = (
    f"A preview has at most {PREVIEWED_MAX:,} tenants. Choose tenants, or only those behind."
)

Amount = int | str
"""A number of tenants, or a percentage of them: ``"5%"``, rounded up; as a wave also an expression
that names its tenants, any other text: ``"canary=yes"``."""

CANARY_BUDGET: list[Amount] = [0]
"""A failed canary stops the run."""

CHECK: Literal["check"] = "check"
Hold = bool | Sequence[int] | Literal["check"]
"""After which waves a run holds: none, each, these by their number from 1, or each, until the
operator's check succeeds."""

_PERCENTAGE = re.compile(r"(100|[0-9]{1,2})%")
_RATE = re.compile(r"100%|[0-9]{1,2}([.][0-9]{1,3})?%")


class BadRunOptions(Invalid):
    """An option of the run breaks a rule; the message says which."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of a run. Messages name the members as the HTTP API does.

    Attributes:
        tenant_ids: Only these tenants, at most 10,000; each must be active and not read-only. An
            empty list is a run of no tenant.
        retry_of: Only the tenants that failed in this run, have not been migrated since, and are
            active now. With `tenant_ids` too, those that are both.
        cause: With `retry_of`: only the tenants that failed with this cause.
        waves: The cumulative number of tenants up to each wave, or a percentage such as ``5%``; at
            most 100. The first waves may name their tenants instead, by an expression such as
            ``canary=yes``: see `catalog.where`; a tenant is in the first wave that names it. A wave
            starts when all tenants of the previous one have ended. Tenants after the last wave are
            not attempted.
        order: The order of the tenants that no wave names, one of `waves.ORDERS`.
        wave_max_failures: For each wave, from the first one: if more of its own tenants have
            failed, the remaining ones of the run are not attempted. Waves without an amount have
            no budget; by default, a first wave that names its tenants has 0, if others follow.
        max_failures: If more tenants have failed, the remaining ones are not attempted: a number
            from 0, or a percentage such as ``5%``.
        label: A label for the history: one line of 1 to 200 characters.
        only_behind: Only the tenants that the catalog's index does not show at the head, and
            those that failed in their latest attempt. No other tenant's database is opened.
        hold: After which waves the run holds, until it is continued: see `Hold`. It does not hold
            after the last one.
        max_error_rate: After each wave, the run holds if a larger share of the answers to its
            tenants have a status of 5xx: a percentage such as ``1%`` or ``0.5%``. Else it
            continues. `hold` may be only `CHECK`, which is then checked too.
        undoes: Undo this run, which has ended, in the tenants where it has applied revisions.
        where: Only the tenants that this expression selects, such as ``plan=free and region=eu``.
            With `tenant_ids` or `retry_of` too, those that are both.
    """

    tenant_ids: Sequence[UUID] | None = None
    retry_of: UUID | None = None
    cause: str | None = None
    waves: Sequence[Amount] | None = None
    order: str = CREATION
    wave_max_failures: Sequence[Amount] | None = None
    max_failures: Amount | None = None
    label: str | None = None
    only_behind: bool = False
    hold: Hold = False
    undoes: UUID | None = None
    max_error_rate: str | None = None
    where: str | None = None

    def check(self) -> None:
        """Check the options as far as possible without the catalog.

        Raises:
            BadRunOptions, BadText, BadWhere: A rule is broken.
        """
        if self.where is not None:
            condition_of(self.where)
        if self.label is not None:
            checked_label("label", self.label, chars_max=LABEL_CHARS_MAX)
        if self.cause is not None and self.retry_of is None:
            raise BadRunOptions("`cause` needs `retryOf`.")
        if self.only_behind and self.undoes is not None:
            raise BadRunOptions("`onlyBehind` is for a run that migrates forward.")
        if self.tenant_ids is not None and len(self.tenant_ids) > TENANTS_NAMED_MAX:
            raise BadRunOptions(f"`tenantIds` must name at most {TENANTS_NAMED_MAX:,} tenants.")
        if self.max_failures is not None and _least(self.max_failures) < 0:
            raise BadRunOptions('`maxFailures` must be 0 or more, or a percentage: "0%" to "100%".')
        if self.waves is not None:
            _check_waves(self.waves)
        self._check_order_and_holds()
        if self.max_error_rate is not None:
            self._check_error_rate(self.max_error_rate)

    def _check_order_and_holds(self) -> None:
        count, budgets = len(self.waves or ()), self.wave_max_failures or ()
        if not count and (self.order != CREATION or self.wave_max_failures is not None):
            raise BadRunOptions("`order` and `waveMaxFailures` need `waves`.")
        if not is_order(self.order):
            raise BadRunOptions(f"`order` must be {', '.join(ORDERS)}: `label:plan`.")
        if len(budgets) > count or any(_least(one) < 0 for one in budgets):
            raise BadRunOptions("`waveMaxFailures` must hold an amount for each wave, or fewer.")
        if self.hold is not False and not count:
            raise BadRunOptions("`hold` needs `waves`.")
        numbers = None if isinstance(self.hold, bool | str) else self.hold
        # An empty list is wrong, like a number of no wave.
        if numbers is not None and not all(0 < one <= count for one in numbers or (0,)):
            raise BadRunOptions(f"`hold` must hold numbers of `waves`: 1 to {count}.")

    def _check_error_rate(self, rate: str) -> None:
        if not _RATE.fullmatch(rate):
            raise BadRunOptions('`maxErrorRate` must be a percentage: "1%" or "0.5%".')
        if not self.waves:
            raise BadRunOptions("`maxErrorRate` needs `waves`.")
        if self.hold not in (False, CHECK):
            raise BadRunOptions(
                "`maxErrorRate` continues the run without a person: leave out `hold`."
            )

    @property
    def named_waves(self) -> tuple[str, ...]:
        """The waves that name their tenants, each by an expression."""
        return tuple(one for one in self.waves or () if _is_name(one))

    def sized_waves(
        self, total: int, named: Mapping[Any, int] | None = None
    ) -> list[tuple[int, Wave]]:
        """Return each wave with its cumulative size for *total* tenants; empty without waves.

        *named* is how many tenants each wave that names some has, by its number from 0. A wave
        that adds no tenant is left out.

        Raises:
            BadRunOptions: A wave is smaller than the previous one, or names no tenant of the run.
        """
        waves: list[tuple[int, Wave]] = []
        before = 0
        for one, size, budget in zip_longest(
            self.waves or (), self._wave_ends(total, named), self._wave_budgets
        ):
            if size > before:
                most = None if budget is None else _amount(budget, size - before)
                waves.append((size, Wave(one if _is_name(one) else None, most)))
                before = size
        return waves

    def holds(self, total: int, named: Mapping[Any, int] | None = None) -> list[int]:
        """Return the numbers of those of `sized_waves` after which the run holds."""
        ends = self._wave_ends(total, named)
        sizes = sorted(set(ends) - {0})
        if self.hold in (True, CHECK) or self.max_error_rate is not None:
            return list(range(1, len(sizes)))
        numbers = () if isinstance(self.hold, bool | str) else self.hold
        held = {ends[one - 1] for one in numbers}
        return [number for number, size in enumerate(sizes[:-1], 1) if size in held]

    def _wave_ends(self, total: int, named: Mapping[Any, int] | None) -> list[int]:
        """Return the cumulative size of each of `waves`, with those that add no tenant."""
        sizes = [_amount(one, total) for one in self.waves or () if not _is_name(one)]
        if sizes != sorted(sizes):
            shown_sizes = ", ".join(map(str, sizes))
            raise BadRunOptions(f"`waves` must not decrease: of {total} these are {shown_sizes}.")
        ends, end = [], 0
        for at, one in enumerate(self.waves or ()):
            if _is_name(one):
                added = (named or {}).get(at, 0)
                if total and not added:
                    raise BadRunOptions(
                        f"`waves`: {shown(one)} selects none of the run, or no further one."
                    )
                end += added
            else:
                end = max(end, _amount(one, total))
            ends.append(end)
        return ends

    @property
    def _wave_budgets(self) -> Sequence[Amount]:
        if self.wave_max_failures is not None:
            return self.wave_max_failures
        waves = self.waves or ()
        return CANARY_BUDGET if len(waves) > 1 and _is_name(waves[0]) else ()

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
        NoTenantMatches: `where` selects no tenant.
    """
    await tenants.check_selects(session, options.where)
    if options.retry_of is not None:
        await runs.get(session, options.retry_of)
    head = head if options.only_behind else None
    if head is not None and not await tenant_counts.behind(session, head):
        return Selection(tenant_ids=[])
    chosen = Selection(
        retry_of=options.retry_of,
        cause=options.cause,
        head=head,
        where=options.where,
        named=options.named_waves,
        order=options.order,
        undoes=options.undoes,
    )
    if options.tenant_ids is None:
        return chosen
    named = list(dict.fromkeys(options.tenant_ids))
    wrong = await plans.left_out(session, named)
    if wrong:
        more = f", and {len(wrong) - 1} more of them" if len(wrong) > 1 else ""
        raise BadRunOptions(f"`tenantIds`: {wrong[0]} is no active, writable tenant{more}.")
    return msgspec.structs.replace(chosen, tenant_ids=named)


def _check_waves(waves: Sequence[Amount]) -> None:
    if not 0 < len(waves) <= WAVES_MAX:
        raise BadRunOptions(f"`waves` must hold 1 to {WAVES_MAX} waves.")
    names = [one for one in waves if _is_name(one)]
    for one in names:
        try:
            condition_of(one)
        except (BadText, BadWhere) as error:
            raise BadRunOptions(f"`waves`: {shown(one)}: {error}") from error
    amounts = waves[len(names) :]
    if names != list(waves[: len(names)]):
        raise BadRunOptions("`waves`: expressions must come before the amounts.")
    if any(_least(one) < 1 for one in amounts):
        raise BadRunOptions('Each of `waves` must be 1 or more, or a percentage: "1%" to "100%".')
    for before, after in pairwise(amounts):
        if type(before) is type(after) and _least(after) < _least(before):
            raise BadRunOptions("`waves` must not decrease.")


def _is_name(wave: Amount) -> TypeGuard[str]:
    """Return whether a wave names its tenants: it has no form of an amount."""
    return isinstance(wave, str) and not (wave.endswith("%") or wave.isdecimal())


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
