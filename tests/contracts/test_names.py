"""Names have no invisible characters, whichever endpoint they are sent to."""

import msgspec
import pytest

from tenantry.api.endpoints import Endpoint
from tenantry.api.table import ENDPOINTS
from testkit.request_samples import members_of, params
from tests.contracts.stage import Stage

NAMES = {"name", "fullName", "label", "email"}
INVISIBLE = {
    "zero width space": "\u200b",
    "zero width non-joiner": "\u200c",
    "zero width joiner": "\u200d",
    "left-to-right mark": "\u200e",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "right-to-left override": "\u202e",
    "word joiner": "\u2060",
    "right-to-left isolate": "\u2067",
    "byte order mark": "\ufeff",
    "soft hyphen": "\u00ad",
    "tag": "\U000e0041",
    "next line": "\u0085",
    "private use": "\ue000",
    "noncharacter": "\ufdd0",
    "unassigned": "\U0003fffd",
    "Hangul filler": "\u3164",
    "blank Braille pattern": "\u2800",
    "grapheme joiner": "\u034f",
    "joiner after a character without a name": "\U00017000\u200d",
    "joiner after an emoji": "\U0001f468\u200d",
    "two joiners between emoji": "\U0001f468\u200d\u200d\U0001f469",
}
VISIBLE = {
    "Persian": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "Sinhala": "\u0dc1\u0dca\u200d\u0dbb\u0dd3 \u0dbd\u0d82\u0d9a\u0dcf",
    "Japanese": "\u5c71\u7530\u3000\u592a\u90ce",
    "Hebrew": "\u05e2\u05d1\u05e8\u05d9\u05ea",
    "emoji": "\u2764\ufe0f Bakery",
    "joined emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308 "
    "\U0001f469\U0001f3fd\u200d\U0001f4bb \U0001f642\u200d\u2194\ufe0f \U0001f426\u200d\u2b1b",
}
ENDPOINTS_WITH_NAMES = [
    one
    for one in ENDPOINTS
    if one.reads_body
    and NAMES & members_of(one).keys()
    # There, an e-mail address only identifies, and a missing resource is reported first.
    and not one.path.endswith(("/login", "/undelete"))
    and "archive" not in members_of(one)
]


@pytest.mark.asyncio(loop_scope="module")
class TestEndpoint:
    @pytest.mark.parametrize("endpoint", params(ENDPOINTS_WITH_NAMES))
    async def test_rejects_invisible_characters(self, stage: Stage, endpoint: Endpoint):
        accepted = []
        for member in NAMES & members_of(endpoint).keys():
            for what, char in INVISIBLE.items():
                value = f"ad{char}a@example.com" if member == "email" else f"Ad{char}a"
                body = msgspec.json.encode({**stage.body(endpoint), member: value})
                answer = await stage.ask(endpoint, headers=stage.good(endpoint), body=body)
                message = answer.json()["message"] or ""
                is_named = "invisible" in message or "control" in message or member == "email"
                if answer.status != 400 or not is_named:
                    accepted.append((member, what, answer.status, message))

        assert accepted == []
        assert stage.changes() == []

    @pytest.mark.parametrize("name", VISIBLE)
    async def test_accepts_names_of_every_script(self, stage: Stage, name: str):
        [endpoint] = [
            one for one in ENDPOINTS if one.path.endswith("/auth/profile") and one.method == "PUT"
        ]
        body = msgspec.json.encode({"fullName": VISIBLE[name], "email": "owner@acme.example.com"})

        answer = await stage.ask(endpoint, headers=stage.good(endpoint), body=body)
        await stage.restore()

        assert answer.status == 200
        assert answer.json()["data"]["fullName"] == VISIBLE[name]
