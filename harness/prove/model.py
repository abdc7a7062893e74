"""The state of a tenant as a model predicts it, and addresses: P21, P22."""

import asyncio
import random
import unicodedata
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from harness.api import (
    CHANGE_PASSWORD,
    MIGRATE_ALL,
    MODULES,
    PROFILE,
    TENANTS,
    as_admin,
    bearer,
    key_of,
)
from harness.fleet.fleets import ENGINE_NAMES, ENGINES
from harness.prove.calls import Answer, Line, each, login
from harness.prove.promise import Figure, Promise, Stage
from harness.world import PASSWORD, Tenant, World

STEPS = 50
AT_ONCE = 4
CALLERS = 50
TRUSTING = {"trusted_proxies": "127.0.0.1"}


def p21(stage: Stage) -> Figure:
    """Walk at random through what an admin and users do, and predict every answer."""
    walks = stage.size(500, 8) // len(ENGINES)
    faults: list[str] = []
    done: Counter[str] = Counter()
    for engine in ENGINES:
        world = stage.world(engine, walks, users=2)
        with stage.serving(world, **TRUSTING) as process:
            seeds = [f"{stage.chance.random()}" for _ in range(walks)]
            asyncio.run(_walk_all(world, process.port, seeds, done, faults))
    return Figure(
        done=f"{walks * len(ENGINES)} walks of {STEPS} steps: {', '.join(sorted(done))}",
        found=f"{done.total():,} answers as predicted but {len(faults)}",
        faults=faults,
    )


async def _walk_all(
    world: World, port: int, seeds: Sequence[str], done: Counter[str], faults: list[str]
) -> None:
    async def walk(numbered: tuple[int, str]) -> None:
        number, seed = numbered
        async with Line(port, {"x-forwarded-for": f"10.2.{number >> 8}.{number & 255}"}) as line:
            chance = random.Random(seed)  # noqa: S311 - it chooses steps
            await _Walk(world, world.tenants[number], line, chance, done, faults).run()

    await each(enumerate(seeds), walk, at_once=AT_ONCE)


@dataclass
class _Account:
    """A user, as predicted.

    Attributes:
        sessions: Tokens, and whether each is alive.
        mcp_tokens: Those that are bound to the user, and whether each is alive.
    """

    id: str
    email: str
    password: str = PASSWORD
    name: str = ""
    is_active: bool = True
    sessions: dict[str, bool] = field(default_factory=dict)
    mcp_tokens: dict[str, bool] = field(default_factory=dict)


@dataclass
class _Walk:
    """One walk through the states of one tenant."""

    world: World
    tenant: Tenant
    line: Line
    chance: random.Random
    done: Counter[str]
    faults: list[str]
    is_active: bool = True
    accounts: list[_Account] = field(default_factory=list)
    unbound: dict[str, bool] = field(default_factory=dict)
    past: list[str] = field(default_factory=list)

    async def run(self) -> None:
        for user in self.tenant.users:
            account = _Account(user.id, user.email)
            account.sessions[user.token] = True
            self.accounts.append(account)
        steps: Sequence[tuple[int, Callable[[_Account], Awaitable[None]]]] = (
            (8, self.use_session),
            (6, self.use_mcp_token),
            (5, self.rename),
            (3, self.log_in),
            (1, self.change_password),
            (2, self.switch_user),
            (1, self.switch_tenant),
            (2, self.issue_mcp_token),
            (1, self.revoke_mcp_token),
            (0.3, self.migrate),
        )  # type: ignore[assignment]
        weights = [weight for weight, _ in steps]
        for _ in range(STEPS):
            _, step = self.chance.choices(steps, weights)[0]
            self.past.append(step.__name__)
            await step(self.chance.choice(self.accounts))
            if self.faults:
                return  # what comes after the first divergence says nothing

    async def use_session(self, account: _Account) -> None:
        token = self._token(account)
        answer = await self.line.get(PROFILE, headers=self._own(token))
        self._expect("use session", answer, self._status(account, token))
        if answer.ok and account.name and answer.data["fullName"] != account.name:
            self._fault(f"the name is {answer.data['fullName']}, not {account.name}")

    async def use_mcp_token(self, account: _Account) -> None:
        held = account.mcp_tokens if self.chance.random() < 0.7 else self.unbound
        if not held:
            return
        token = self.chance.choice(list(held))
        answer = await self.line.get(MODULES, headers={"x-mcp-token": token.partition(" ")[0]})
        alive = held[token]
        if not alive:
            expected = {401, 403}
        elif not self.is_active or (held is not self.unbound and not account.is_active):
            expected = {403}
        else:
            expected = {200}
        self._expect("use McpToken", answer, expected)

    async def rename(self, account: _Account) -> None:
        token, name = self._token(account), f"Name {self.chance.random()}"
        body = {"fullName": name, "email": account.email}
        answer = await self.line.ask("PUT", PROFILE, body, headers=self._own(token))
        self._expect("rename", answer, self._status(account, token))
        if answer.ok:
            account.name = name

    async def log_in(self, account: _Account) -> None:
        right = self.chance.random() < 0.8
        password = account.password if right else "wrong and long enough"
        answer = await login(self.line, self.tenant, account.email, password)
        expected = {200} if right and account.is_active else {401}
        if not self.is_active:
            expected = {403}
        # The limit of guesses has promises of its own.
        self._expect("log in", answer, expected | {429})
        if answer.ok:
            account.sessions[answer.data["token"]] = True

    async def change_password(self, account: _Account) -> None:
        token = self._token(account)
        new = f"new passphrase {self.chance.random()}"
        body = {"currentPassword": account.password, "newPassword": new}
        answer = await self.line.ask("PUT", CHANGE_PASSWORD, body, headers=self._own(token))
        self._expect("change password", answer, self._status(account, token) | {429})
        if answer.ok:
            account.password = new
            account.sessions = {one: one == token for one in account.sessions}
            account.mcp_tokens = dict.fromkeys(account.mcp_tokens, False)

    async def switch_user(self, account: _Account) -> None:
        path = f"{TENANTS}/{self.tenant.id}/users/{account.id}"
        is_last = [one for one in self.accounts if one.is_active] == [account]
        answer = await self._admin("PATCH", path, {"isActive": not account.is_active})
        self._expect("switch user", answer, {409 if is_last else 200})  # all are owners
        if is_last:
            return
        account.is_active = not account.is_active
        if not account.is_active:
            account.sessions = dict.fromkeys(account.sessions, False)
            account.mcp_tokens = dict.fromkeys(account.mcp_tokens, False)

    async def switch_tenant(self, _account: _Account) -> None:
        self.is_active = not self.is_active
        path = f"{TENANTS}/{self.tenant.id}"
        answer = await self._admin("PATCH", path, {"isActive": self.is_active})
        self._expect("switch tenant", answer, {200})

    async def issue_mcp_token(self, account: _Account) -> None:
        if not account.is_active:
            return
        is_bound = self.chance.random() < 0.6
        body = {"name": "walk", **({"userId": account.id} if is_bound else {})}
        answer = await self._admin("POST", f"{TENANTS}/{self.tenant.id}/mcp-tokens", body)
        self._expect("issue McpToken", answer, {201})
        if answer.ok:
            held = account.mcp_tokens if is_bound else self.unbound
            held[f"{answer.data['token']} {answer.data['id']}"] = True

    async def revoke_mcp_token(self, account: _Account) -> None:
        alive = [one for one, is_alive in account.mcp_tokens.items() if is_alive]
        if alive:
            token = self.chance.choice(alive)
            path = f"{TENANTS}/{self.tenant.id}/mcp-tokens/{token.partition(' ')[2]}"
            self._expect("revoke McpToken", await self._admin("DELETE", path), {200})
            account.mcp_tokens[token] = False

    async def migrate(self, _account: _Account) -> None:
        answer = await self._admin("POST", MIGRATE_ALL)
        self._expect("migrate", answer, {200})
        if answer.ok and answer.data["failed"]:
            self._fault(f"a run has failures: {answer}")

    def _token(self, account: _Account) -> str:
        return self.chance.choice(list(account.sessions))

    def _own(self, token: str) -> dict[str, str]:
        return key_of(self.tenant) | bearer(token)

    def _status(self, account: _Account, token: str) -> set[int]:
        if not self.is_active or not account.is_active:
            return {403}
        return {200} if account.sessions[token] else {401}

    async def _admin(self, method: str, path: str, body: object = None) -> Answer:
        return await self.line.ask(method, path, body, headers=as_admin(self.world))

    def _expect(self, what: str, answer: Answer, statuses: set[int]) -> None:
        self.done[what] += 1
        if answer.status not in statuses:
            self._fault(f"{what}: {answer} instead of {statuses}")

    def _fault(self, text: str) -> None:
        self.faults.append(f"{text} after {', '.join(self.past[-6:])}")


def p22(stage: Stage) -> Figure:
    """Register pairs of addresses on both engines, and race for one address."""
    pairs = list(_pairs(stage.size(300, 30)))
    faults: list[str] = []
    notes = []
    verdicts: dict[str, list[tuple[int, int]]] = {}
    for engine in ENGINES:
        world = stage.world(engine, 2, users=CALLERS)
        with stage.serving(world) as process:
            verdicts[engine] = asyncio.run(_register(world, process.port, pairs))
            statuses = asyncio.run(_race(world, process.port))
        notes.append(f"{ENGINE_NAMES[engine]}: {dict(statuses)}")
        if statuses != Counter({200: 1, 409: CALLERS - 1}):
            faults.append(f"{ENGINE_NAMES[engine]}: the race ended {dict(statuses)}")
    for pair, first, second in zip(pairs, *verdicts.values(), strict=True):
        if first != second:
            faults.append(f"{pair!a}: SQLite {first}, PostgreSQL {second}")
        if max(*first, *second) >= 500:
            faults.append(f"{pair!a}: {first} {second}")
        if pair[0].lower() == pair[1].lower() and first[0] == 201 and first[1] == 201:
            faults.append(f"{pair!a} are two users")
    refused = sum(second == 409 for _, second in verdicts["sqlite"])
    return Figure(
        done=f"{len(pairs)} pairs of addresses (case, composed and decomposed, full width, dotless "
        f"i, Kelvin sign, punycode); {CALLERS} callers at once for one address",
        found=f"the same verdicts on both engines, {refused} pairs are one address; "
        f"{'; '.join(notes)}",
        faults=faults,
    )


def _pairs(count: int) -> Iterator[tuple[str, str]]:
    for number in range(count):
        name, host = f"user{number}", f"host{number % 7}.example.com"
        base = f"{name}é@{host}" if number % 3 else f"{name}@{host}"
        yield (
            (base, base.upper()),
            (base, unicodedata.normalize("NFD", base)),
            (f"{name}i@{host}", f"{name}ı@{host}"),
            (f"{name}k@{host}", f"{name}\u212a@{host}"),
            (f"{name}@{host}", f"{name}@{host}".translate({ord("u"): "ｕ"})),
            (f"{name}@müsli.example", f"{name}@xn--msli-0ra.example"),
            (f"{name}@MÜSLI.example", f"{name}@müsli.example"),
            (f"{name}ß@{host}", f"{name}ss@{host}"),
            (f"{name}@{host}", f"{name}@{host}."),
            (f"{name}@{host}", f" {name}@{host} "),
            (f"{name}İ@{host}", f"{name}i\u0307@{host}"),
            (f"{name}ﬁ@{host}", f"{name}fi@{host}"),
            (f"{name}@ex{number}ample.com", f"{name}@ex{number}\u00adample.com"),
            (f"{name}@{host}", f"{name}\u200b@{host}"),
            (f"а{name}@{host}", f"a{name}@{host}"),
        )[number % 15]


async def _register(
    world: World, port: int, pairs: Sequence[tuple[str, str]]
) -> list[tuple[int, int]]:
    tenant = world.tenants[0]
    path = f"{TENANTS}/{tenant.id}/users"
    found = []
    async with Line(port, as_admin(world)) as line:
        for pair in pairs:
            statuses = []
            for email in pair:
                body = {"email": email, "fullName": "X", "password": PASSWORD}
                statuses.append((await line.post(path, body)).status)
            found.append((statuses[0], statuses[1]))
    return found


async def _race(world: World, port: int) -> Counter[int]:
    tenant = world.tenants[1]
    body = {"fullName": "Fast", "email": "the.one@example.com"}
    lines = [Line(port, key_of(tenant) | bearer(user.token)) for user in tenant.users]
    for line in lines:
        answer = await line.get(MODULES)
        assert answer.ok, answer
    answers = await asyncio.gather(*(line.ask("PUT", PROFILE, body) for line in lines))
    for line in lines:
        line.close()
    return Counter(answer.status for answer in answers)


PROMISES = (
    Promise(
        21,
        "Every answer is what a model of the states predicts.",
        p21,
        "credentials that were good are remembered",
        seconds_max=900,
    ),
    Promise(
        22,
        "An e-mail address belongs to one user, however it is written.",
        p22,
        "addresses that are taken are changed",
    ),
)
