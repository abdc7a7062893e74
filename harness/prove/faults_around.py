"""Faults that are put around the application."""

import asyncio
import json
import os
import re
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.prove.middleware import App, Exchange, around

Wrap = Callable[[App], App]


def cached_by_path(app: App) -> App:
    """A cache of answers that forgets for whom they were."""
    kept: dict[str, Exchange] = {}

    async def before(exchange: Exchange) -> None:
        old = kept.get(exchange.path)
        if exchange.method == "GET" and old is not None and any(exchange.credentials):
            exchange.status, exchange.answer = old.status, old.answer
            exchange.answer_headers = old.answer_headers

    async def after(exchange: Exchange) -> None:
        if exchange.method == "GET" and exchange.status == 200:
            kept[exchange.path] = exchange

    return around(app, before=before, after=after)


def cached_by_credentials(app: App) -> App:
    """Credentials that were good once are remembered: a refusal becomes the earlier answer."""
    kept: dict[tuple[str, ...], Exchange] = {}

    async def after(exchange: Exchange) -> None:
        key = (exchange.method, exchange.path, *exchange.credentials)
        if exchange.status == 200 and any(exchange.credentials):
            kept[key] = exchange
        elif exchange.status in {401, 403, 404} and key in kept:
            exchange.status, exchange.answer = 200, kept[key].answer

    return around(app, after=after)


def says_who_exists(app: App) -> App:
    """A login of an unknown address has a message of its own."""

    async def after(exchange: Exchange) -> None:
        if exchange.path.endswith("/login") and b"unknown" in exchange.body:
            exchange.answer = exchange.answer.replace(b"password", b"Password")

    return around(app, after=after)


def slow_for_unknown(app: App) -> App:
    """A login of an unknown address takes some milliseconds longer."""

    async def before(exchange: Exchange) -> None:
        if exchange.path.endswith("/login") and b"unknown" in exchange.body:
            time.sleep(0.15)  # noqa: ASYNC251 - the fault

    return around(app, before=before)


def every_guess_a_stranger(app: App) -> App:
    """The throttle sees each guess as another account's from another address."""

    async def before(exchange: Exchange) -> None:
        if exchange.path.endswith("/login"):
            number = secrets.randbits(24)
            exchange.headers["x-forwarded-for"] = f"10.{number >> 16}.{number >> 8 & 255}.1"
            said = json.loads(exchange.body)
            if "victim" in said["email"]:
                said["email"] = f"{secrets.token_hex(4)}@example.com"
                exchange.body = json.dumps(said).encode()
                exchange.headers["content-length"] = str(len(exchange.body))

    return around(app, before=before)


def no_retry_after(app: App) -> App:
    """A refusal under load does not say when to come back."""

    async def after(exchange: Exchange) -> None:
        exchange.answer_headers = [
            one for one in exchange.answer_headers if one[0].lower() != b"retry-after"
        ]

    return around(app, after=after)


def answers_kept_in_a_file(app: App) -> App:
    """Every answer is written into a file of the data folder, secrets included."""
    folder = Path(os.environ["TENANTRY_DATA_DIR"])

    async def after(exchange: Exchange) -> None:
        with (folder / "answers").open("ab") as file:
            file.write(exchange.answer)

    return around(app, after=after)


def headers_logged(app: App) -> App:
    """Every request is logged with its headers and its body."""

    async def before(exchange: Exchange) -> None:
        said = {"headers": exchange.headers, "body": exchange.body.decode(errors="replace")}
        print(json.dumps(said), file=sys.stderr, flush=True)

    return around(app, before=before)


def path_logged_raw(app: App) -> App:
    """The path and the body are logged as they are."""

    async def before(exchange: Exchange) -> None:
        text = f"{exchange.path} {exchange.body.decode(errors='replace')}"
        try:
            text += str(json.loads(exchange.body))
            text += "".join(map(str, json.loads(exchange.body).values()))
        except (ValueError, AttributeError):
            pass
        print(json.dumps({"event": "seen"})[:-1] + f', "path": "{text}"}}', file=sys.stderr)

    return around(app, before=before)


def no_challenge(app: App) -> App:
    """A 401 does not say how to authenticate."""

    async def after(exchange: Exchange) -> None:
        exchange.answer_headers = [
            one for one in exchange.answer_headers if one[0].lower() != b"www-authenticate"
        ]

    return around(app, after=after)


def breaks_on_nul(app: App) -> App:
    """A NUL in a body is a 500."""

    async def before(exchange: Exchange) -> None:
        if b"\\u0000" in exchange.body:
            exchange.respond(500, b'{"success":false,"data":null,"message":"Broken."}')

    return around(app, before=before)


def addresses_made_unique(app: App) -> App:
    """A conflict of addresses is avoided by changing what was asked."""

    async def before(exchange: Exchange) -> None:
        if exchange.method in {"PUT", "POST"} and b'"email"' in exchange.body:
            try:
                said = json.loads(exchange.body)
            except ValueError:
                return
            if "fullName" not in said or not isinstance(said["email"], str):
                return
            said["email"] = f"x{secrets.token_hex(3)}{said['email']}"
            exchange.body = json.dumps(said).encode()
            exchange.headers["content-length"] = str(len(exchange.body))

    return around(app, before=before)


def files_named_by_customers(app: App) -> App:
    """A customer's name becomes the name of a file."""
    folder = Path(os.environ["TENANTRY_DATA_DIR"])

    async def after(exchange: Exchange) -> None:
        if exchange.path == "/api/admin/tenants" and exchange.status == 201:
            name = json.loads(exchange.body)["name"].replace("/", "_")[:60].encode()
            open(os.fsencode(folder.parent) + b"/" + name, "wb").close()  # noqa: ASYNC230, PTH123

    return around(app, after=after)


def failures_are_500(app: App) -> App:
    """migrate-all answers with an error when a tenant has failed."""

    async def after(exchange: Exchange) -> None:
        if exchange.path.endswith("/migrate-all") and b'"failed":0' not in exchange.answer:
            exchange.respond(500, b'{"success":false,"data":null,"message":"Failed."}')

    return around(app, after=after)


def one_run_at_a_time(app: App) -> App:
    """A second call of migrate-all is refused while one is under way."""
    under_way = 0

    async def faulty(scope: Any, receive: Any, send: Any) -> None:
        nonlocal under_way
        if not scope.get("path", "").endswith("/migrate-all"):
            await app(scope, receive, send)
            return
        if under_way:
            start = {"type": "http.response.start", "status": 409, "headers": []}
            await send(start)
            await send({"type": "http.response.body", "body": b"{}"})
            return
        under_way += 1
        try:
            await app(scope, receive, send)
        finally:
            under_way -= 1

    return faulty


def ends_with_its_caller(app: App) -> App:
    """The process ends when the caller of migrate-all hangs up."""

    async def faulty(scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path", "").endswith("/migrate-all"):
            await _whole(scope, receive)

            async def watch() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                os._exit(3)

            watching = asyncio.create_task(watch())
            body = [{"type": "http.request", "body": b"", "more_body": False}]

            async def replay() -> Any:
                return body.pop() if body else await asyncio.Event().wait()

            try:
                await app(scope, replay, send)
            finally:
                watching.cancel()
            return
        await app(scope, receive, send)

    return faulty


async def _whole(_scope: Any, receive: Any) -> None:
    while (await receive()).get("more_body"):
        pass


def outages_are_500(app: App) -> App:
    """A database that is away is a 500."""

    async def after(exchange: Exchange) -> None:
        if exchange.status == 503:
            exchange.status = 500

    return around(app, after=after)


def writes_acknowledged_unwritten(app: App) -> App:
    """A change that could not be written is acknowledged."""

    async def after(exchange: Exchange) -> None:
        if exchange.method == "PUT" and exchange.status >= 500:
            exchange.respond(200, b'{"success":true,"data":{}}')

    return around(app, after=after)


def history_loses_a_run(app: App) -> App:
    """The history leaves out a run."""

    async def after(exchange: Exchange) -> None:
        if exchange.path.endswith("/migration-history") and exchange.status == 200:
            said = json.loads(exchange.answer)
            said["data"]["items"] = said["data"]["items"][:1] + said["data"]["items"][2:]
            exchange.answer = json.dumps(said).encode()

    return around(app, after=after)


def an_open_endpoint(app: App) -> App:
    """The list of tenants is given to anyone."""

    async def before(exchange: Exchange) -> None:
        if exchange.path == "/api/admin/tenants" and exchange.method == "GET":
            exchange.respond(200, b'{"success":true,"data":{"items":[]}}')

    return around(app, before=before)


def tokens_in_the_query(app: App) -> App:
    """A token may be in the query."""

    async def faulty(scope: Any, receive: Any, send: Any) -> None:
        query = scope.get("query_string", b"")
        for part in query.split(b"&"):
            name, _, value = part.partition(b"=")
            if name in {b"access_token", b"authorization"}:
                token = value.removeprefix(b"Bearer%20")
                headers = [*scope["headers"], (b"authorization", b"Bearer " + token)]
                scope = {**scope, "headers": headers, "query_string": b""}
            if name in {b"x-api-key", b"api_key"}:
                scope = {**scope, "headers": [*scope["headers"], (b"x-api-key", value)]}
        await app(scope, receive, send)

    return faulty


def follows_forwarded_hosts(app: App) -> App:
    """A URL in a header or in a body is fetched."""

    async def before(exchange: Exchange) -> None:
        said = " ".join(exchange.headers.values()) + exchange.body.decode(errors="replace")
        for port in set(re.findall(r"127\.0\.0\.1:(\d+)", said)):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", int(port))
                writer.close()
            except OSError:
                pass

    return around(app, before=before)


BY_NAME: dict[str, Wrap] = {
    "P1": cached_by_path,
    "P2": cached_by_path,
    "P3": says_who_exists,
    "P4": slow_for_unknown,
    "P8": no_retry_after,
    "P9": every_guess_a_stranger,
    "P13": cached_by_credentials,
    "P14": cached_by_credentials,
    "P15": cached_by_credentials,
    "P16": answers_kept_in_a_file,
    "P17": headers_logged,
    "P18": path_logged_raw,
    "P19": no_challenge,
    "P20": breaks_on_nul,
    "P21": cached_by_credentials,
    "P22": addresses_made_unique,
    "P25": files_named_by_customers,
    "P27": one_run_at_a_time,
    "P28": failures_are_500,
    "P30": outages_are_500,
    "P32": writes_acknowledged_unwritten,
    "P34": ends_with_its_caller,
    "P37": history_loses_a_run,
    "P38": cached_by_credentials,
    "P39": an_open_endpoint,
    "P40": tokens_in_the_query,
    "P41": follows_forwarded_hosts,
}
