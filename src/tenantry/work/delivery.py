"""Deliver the notifications of the outbox to their targets, one at a time to each.

A target that hangs or is away delays only its own, and so does an unexpected error of one: an
attempt has a deadline, and is repeated with backoff. At least once: a process that is killed before
it has stored the result leaves the notification to another one, which sends it with the same id.
"""

import asyncio
import ssl
from collections.abc import Mapping
from html import escape
from uuid import UUID

import msgspec
import structlog

from tenantry.catalog import outbox
from tenantry.catalog.database import Catalog
from tenantry.catalog.outbox import Message, Notice
from tenantry.catalog.pace import Pace
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit import webhooks
from tenantry.kit.backoff import backoff_seconds
from tenantry.kit.clock import utc_now
from tenantry.kit.hook_events import TEST
from tenantry.kit.hook_settings import Hook
from tenantry.kit.ids import new_id
from tenantry.work.heartbeat import Heartbeat

POLL_SECONDS = 1.0
PAUSE_SECONDS_MAX = 3_600.0
DRAIN_SECONDS = 3.0
"""For how long a process that stops still delivers."""
TEST_TEXT = "This is a test of Tenantry."

_log = structlog.get_logger(__name__)


class Deliveries:
    """Delivers the notifications of a process's targets.

    Args:
        heartbeat: That of this process: while it is recent, no other one takes what it claims.
        hooks: The targets, by name.
        pace: The pause before the second attempt.
    """

    def __init__(
        self, catalog: Catalog, heartbeat: Heartbeat, hooks: Mapping[str, Hook], *, pace: Pace
    ) -> None:
        self._catalog = catalog
        self._heartbeat = heartbeat
        self._hooks = hooks
        self._pace = pace

    async def work(self) -> None:
        """Deliver, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for name, hook in self._hooks.items():
                tasks.create_task(self._serve(name, hook))

    async def drain(self) -> None:
        """Wait until nothing is due, but no longer than `DRAIN_SECONDS`."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                for name in self._hooks:
                    while await self._is_due(name):  # noqa: ASYNC110 - other processes end some
                        await asyncio.sleep(POLL_SECONDS / 10)
        except (TimeoutError, DatabaseUnavailable):
            _log.info("notifications left to other processes")

    async def _serve(self, name: str, hook: Hook) -> None:
        worker_id = self._heartbeat.worker_id
        while True:
            message = None
            try:
                # Reading first: on SQLite, an update waits for other writers, and they for it.
                if await self._is_due(name):
                    await self._heartbeat.renew()
                    message = await outbox.claim(self._catalog, name, worker_id=worker_id)
                if message is not None:
                    await self._deliver(name, hook, message)
            except DatabaseUnavailable:
                message = None  # it is claimed again, and sent again if it was sent
            except Exception:  # noqa: BLE001 - the other targets must continue
                _log.exception("notifications delayed", target=name)
                message = None
            if message is None:
                await asyncio.sleep(POLL_SECONDS)

    async def _is_due(self, name: str) -> bool:
        return await outbox.is_due(self._catalog, name, worker_id=self._heartbeat.worker_id)

    async def _deliver(self, name: str, hook: Hook, message: Message) -> None:
        try:
            is_delivered, result = await send(hook, message.id, message.payload)
        except Exception:  # noqa: BLE001 - it is an attempt: it is repeated with a pause
            _log.exception("notification not sent", target=name)
            is_delivered, result = False, "unexpected error"
        if not is_delivered:
            _log.warning("notification not delivered", target=name, result=result)
        pause = backoff_seconds(
            self._pace.redelivery_seconds, message.attempts + 1, longest=PAUSE_SECONDS_MAX
        )
        await outbox.end_attempt(
            self._catalog,
            message,
            worker_id=self._heartbeat.worker_id,
            is_delivered=is_delivered,
            result=result,
            now=utc_now(),
            pause_seconds=pause,
        )


async def send(hook: Hook, message_id: UUID, payload: str) -> tuple[bool, str]:
    """Send a message once; return whether it was delivered, and the result in a few words.

    The result contains nothing of the URL, and nothing that the target has sent but its status.
    """
    body = (payload if hook.format == "standard" else _slack(payload)).encode()
    try:
        key = await asyncio.to_thread(lambda: hook.key)
    except ValueError:
        return False, "the secret cannot be read"
    headers = {} if key is None else _signed(key, str(message_id), body)
    try:
        status = await webhooks.post(hook.url.get_secret_value(), headers, body)
    except (OSError, ValueError) as error:
        return False, _reason(error)
    return status in webhooks.DELIVERED, f"status {status}"


async def test(hook: Hook) -> tuple[bool, str]:
    """Send a test message once; the result is that of `send`."""
    notice = Notice(TEST, {"text": TEST_TEXT})
    return await send(hook, new_id(), outbox.payload_of(notice, now=utc_now()))


def _signed(key: bytes, message_id: str, body: bytes) -> dict[str, str]:
    timestamp = int(utc_now().timestamp())
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": webhooks.signature(key, message_id, timestamp, body),
    }


def _reason(error: OSError | ValueError) -> str:
    match error:
        case TimeoutError():
            return f"no answer in {webhooks.DEADLINE_SECONDS:g} s"
        case ssl.SSLCertVerificationError():
            return f"certificate not valid: {error.verify_message}"
        case ssl.SSLError():
            return "TLS failed"
        case OSError():
            return "not reachable"
        case _:
            return "no answer in HTTP"


def _slack(payload: str) -> str:
    """Return the body for Slack; in its text, `<`, `>` and `&` would be markup."""
    text = msgspec.json.decode(payload)["data"]["text"]
    return msgspec.json.encode({"text": escape(text, quote=False)}).decode()
