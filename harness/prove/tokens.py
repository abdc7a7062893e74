"""Bearer tokens: P10, P11, P12."""

import asyncio
import base64
import hmac
import itertools
import json
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness.api import ADMINS, MODULES, POSTS, TENANTS, bearer, key_of
from harness.fleet.fleets import ENGINES
from harness.prove.calls import Line, login, percentile
from harness.prove.promise import Figure, Promise, Stage
from harness.world import PASSWORD, World, settings_of
from tenantry.kit.clock import utc_now
from tenantry.services import open_services

FORGED_MS_MAX = 5.0

HOUR = 3_600

REFUSED = {401, 403}

Claims = dict[str, Any]


def p10(stage: Stage) -> Figure:
    """Forge tokens in every way that libraries have fallen for, and flip every character."""
    count = stage.size(5_000, 600)
    faults: list[str] = []
    times: list[float] = []
    world = stage.world("postgresql", 1)
    with stage.serving(world) as process:
        asyncio.run(
            _present_forged(
                world, process.port, count, chance=stage.chance, times=times, faults=faults
            )
        )
    p99 = percentile(times, 0.99) * 1000
    if p99 > FORGED_MS_MAX and not stage.short:
        faults.append(f"99 % of the forged tokens took up to {p99:.1f} ms")
    return Figure(
        done=f"{len(times):,} forged tokens: none, other algorithms, the public key as a secret, "
        "foreign key headers, swapped and missing segments, a change in each character",
        found=f"{len(faults)} accepted or answered with a 5xx; 99 % within {p99:.1f} ms",
        faults=faults,
    )


async def _present_forged(
    world: World,
    port: int,
    count: int,
    *,
    chance: random.Random,
    times: list[float],
    faults: list[str],
) -> None:
    tenant = world.tenants[0]
    async with Line(port, key_of(tenant)) as line:
        jwks = (await line.get("/.well-known/jwks.json")).json()
        good = tenant.users[0].token
        if not (await line.get(MODULES, headers=bearer(good))).ok:
            faults.append("the good token does not work, so nothing was shown")
        tokens = itertools.chain(_forged(good, world.admin_token, jwks), _flipped(good, chance))
        for token in itertools.islice(tokens, count):
            path = chance.choice([MODULES, POSTS, TENANTS])
            answer = await line.get(path, headers={"authorization": f"Bearer {token}"})
            times.append(answer.seconds)
            # A head that holds half a megabyte is refused as such.
            if answer.status not in {401, 431}:
                faults.append(f"{token[:80]}: {answer}")


def _forged(good: str, admins: str, jwks: Mapping[str, Any]) -> Iterator[str]:
    header, payload, signature = good.split(".")
    head, claims = _decoded(header), _decoded(payload)
    raw_keys = [one["x"].encode() for one in jwks["keys"]]
    raw_keys += [json.dumps(one).encode() for one in jwks["keys"]]
    raw_keys += [base64.urlsafe_b64decode(one["x"] + "==") for one in jwks["keys"]]
    for alg in ("none", "nOnE", "None", "NONE", "", "HS256", "HS384", "HS512", "RS256", "ES256"):
        for key in (b"", b"secret", *raw_keys):
            begun = f"{_encoded({**head, 'alg': alg})}.{payload}"
            digest = "sha512" if "512" in alg else "sha384" if "384" in alg else "sha256"
            mac = _base64(hmac.digest(key, begun.encode(), digest)) if alg.startswith("HS") else ""
            yield f"{begun}.{mac}"
            yield f"{begun}.{signature}"
    own = Ed25519PrivateKey.generate()
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": _base64(own.public_key().public_bytes_raw())}
    for extra in (
        {"jwk": jwk},
        {"jku": "http://127.0.0.1:9/jwks.json"},
        {"x5u": "http://127.0.0.1:9/x.pem"},
        {"x5c": ["AAAA"]},
        {"kid": "../../../../dev/null"},
        {"kid": "' OR 1=1 --"},
        {"kid": None},
        {"kid": ["a"]},
        {"crit": ["exp"]},
        {"crit": ["b64"], "b64": False},
        {"b64": False},
        {"zip": "DEF"},
        {"typ": "JWE"},
        {},
    ):
        yield _Signer(own, head).sign(claims, **extra)
    yield f"{header}.{payload}."
    yield f"{header}.{payload}"
    yield f"{header}..{signature}"
    yield f".{payload}.{signature}"
    yield f"{payload}.{header}.{signature}"
    yield f"{header}.{admins.split('.')[1]}.{signature}"
    yield f"{header}.{payload}.{admins.split('.')[2]}"
    yield f"{header}.{payload}.{signature}.{signature}"
    yield f"{header}.{payload}.{signature}="
    yield f" {good}"
    for change in ({"role": "Admin"}, {"TenantId": "x"}, {"exp": 2**40}, {"nameid": "x"}):
        yield f"{header}.{_encoded({**claims, **change})}.{signature}"
    yield f"{header}.{'[' * 4_000}.{signature}"
    yield "a" * 12_000


def _flipped(good: str, chance: random.Random) -> Iterator[str]:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for at in itertools.cycle(range(len(good))):
        other = chance.choice([one for one in alphabet if one != good[at]])
        yield good[:at] + other + good[at + 1 :]


def _decoded(segment: str) -> Claims:
    found: Claims = json.loads(base64.urlsafe_b64decode(segment + "=="))
    return found


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _encoded(value: object) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())


@dataclass(frozen=True)
class _Signer:
    """Signs claims with the service's own key, as only one who holds it can."""

    private: Any
    header: Claims

    def sign(self, claims: Claims, **header: object) -> str:
        head, body = _encoded({**self.header, **header}), _encoded(claims)
        return f"{head}.{body}.{_base64(self.private.sign(f'{head}.{body}'.encode()))}"


async def _signer(world: World) -> _Signer:
    settings = settings_of(world.environment)
    async with open_services(settings, works=False) as services:
        ring = await services.signing_keys.ring()
        key = ring.signer(utc_now())
    return _Signer(key.private, _decoded(world.tenants[0].users[0].token.split(".")[0]))


def p11(stage: Stage) -> Figure:
    """Sign tokens with wrong times with the service's own key."""
    faults: list[str] = []
    asked = 0
    for engine in ENGINES:
        world = stage.world(engine, 1)
        with stage.serving(world) as process:
            asked += asyncio.run(_present_wrong_times(world, process.port, faults))
    return Figure(
        done=f"{asked} tokens signed with the real key: expired, not yet valid, for ten years, "
        "without exp, with exp as text, fraction, 1e40, negative; expiresAt of logins",
        found=f"{len(faults)} accepted, or expiresAt differs from exp",
        faults=faults,
    )


async def _present_wrong_times(world: World, port: int, faults: list[str]) -> int:
    tenant = world.tenants[0]
    signer = await _signer(world)
    claims = _decoded(tenant.users[0].token.split(".")[1])
    now = int(time.time())
    changes: list[Claims] = [
        {"exp": now - 1},
        {"exp": now - 31},
        {"exp": now - HOUR, "iat": now - 2 * HOUR},
        {"exp": None},
        {"exp": str(now + HOUR)},
        {"exp": 1e40},
        {"exp": -1},
        {"exp": [now + HOUR]},
        {"exp": {"a": 1}},
        {"exp": True},
        {"exp": now + 10 * 365 * 24 * HOUR},
        {"exp": now + 10 * 365 * 24 * HOUR, "iat": now - 60},
        {"nbf": now + HOUR},
        # Clocks differ, so a token may be a little younger than now.
        {"iat": now + 24 * HOUR, "exp": now + 25 * HOUR},
        {"iat": None},
        {"iat": "yesterday"},
    ]
    bad = [{k: v for k, v in {**claims, **one}.items() if v is not None} for one in changes]
    async with Line(port, key_of(tenant)) as line:
        good = signer.sign({**claims, "exp": now + 600, "iat": now})
        if not (await line.get(MODULES, headers=bearer(good))).ok:
            faults.append("a good token by the same signer is refused, so nothing was shown")
        for change, one in zip(changes, bad, strict=True):
            answer = await line.get(MODULES, headers=bearer(signer.sign(one)))
            if answer.status != 401:
                faults.append(f"{change}: {answer}")
        answer = await login(line, tenant, tenant.users[0].email, PASSWORD)
        exp = _decoded(answer.data["token"].split(".")[1])["exp"]
        if datetime.fromisoformat(answer.data["expiresAt"]).timestamp() != exp:
            faults.append(f"expiresAt is {answer.data['expiresAt']}, exp is {exp}")
    return len(bad)


def p12(stage: Stage) -> Figure:
    """Use the tokens of one level at the other, with every claim exchanged."""
    faults: list[str] = []
    swaps = 0
    wanted = stage.size(400, 80)
    world = stage.world("postgresql", 1)
    with stage.serving(world) as process:
        swaps = asyncio.run(_swap(world, process.port, wanted, faults))
    return Figure(
        done=f"{swaps} tokens signed with the real key, with the role, audience or tenant of "
        "the other level, at endpoints of both",
        found=f"{len(faults)} accepted",
        faults=faults,
    )


async def _swap(world: World, port: int, wanted: int, faults: list[str]) -> int:
    tenant = world.tenants[0]
    signer = await _signer(world)
    user = _decoded(tenant.users[0].token.split(".")[1])
    admin = _decoded(world.admin_token.split(".")[1])
    swaps: list[Claims] = []
    for base, other in ((user, admin), (admin, user)):
        names = sorted({"role", "aud", "TenantId", "nameid"} & (base.keys() | other.keys()))
        for size in range(1, len(names)):
            for chosen in itertools.combinations(names, size):
                swapped = {**base, **{name: other.get(name) for name in chosen}}
                swaps.append({k: v for k, v in swapped.items() if v is not None})
    swaps += [{**user, "aud": both} for both in ([user["aud"], admin["aud"]], "*", "", None)]
    done = 0
    async with Line(port) as line:
        for claims, path in itertools.cycle(itertools.product(swaps, (TENANTS, ADMINS, MODULES))):
            if done >= wanted:
                return done
            done += 1
            is_admins = path != MODULES
            is_whole = _is_consistent(claims, user, admin)
            headers = {} if is_admins else key_of(tenant)
            answer = await line.get(path, headers=headers | bearer(signer.sign(claims)))
            if not is_whole and answer.status not in REFUSED:
                faults.append(f"{path} with {claims}: {answer}")
    return done


def _is_consistent(claims: Claims, user: Claims, admin: Claims) -> bool:
    """Whether the claims are, in effect, those of a real account at its own level."""
    return any(
        all(claims.get(name) == whole.get(name) for name in ("role", "aud", "nameid"))
        and (whole is admin or claims.get("TenantId") == whole.get("TenantId"))
        for whole in (user, admin)
    )


PROMISES = (
    Promise(
        10, "The caller does not choose the algorithm of a token.", p10, "signatures are unchecked"
    ),
    Promise(11, "The lifetime of a token holds.", p11, "every token lasts another hour"),
    Promise(
        12,
        "Tokens of admins and of tenants are not interchangeable.",
        p12,
        "the audience of a token is not checked",
    ),
)
