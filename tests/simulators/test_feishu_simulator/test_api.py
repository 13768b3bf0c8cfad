"""What the simulator's Open API does, called as a client does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.simulators.feishu import FeishuSimulator

CARD = {
    "schema": "2.0",
    "config": {"streaming_mode": True},
    "body": {"elements": [{"tag": "markdown", "element_id": "e", "content": "x"}]},
}


class Client:
    """The bare API."""

    def __init__(self, feishu: FeishuSimulator, session: aiohttp.ClientSession) -> None:
        self.feishu = feishu
        self.session = session
        self.token = ""

    async def log_in(self) -> int:
        body = {"app_id": self.feishu.app_id, "app_secret": self.feishu.app_secret}
        path = "auth/v3/tenant_access_token/internal"
        answer = await self.call("POST", path, body)
        self.token = answer["tenant_access_token"]
        return int(answer["expire"])

    async def call(self, verb: str, path: str, body: Any = None, **query: str) -> dict[str, Any]:
        async with self.session.request(
            verb,
            f"{self.feishu.base_url}/open-apis/{path}",
            json=body,
            params=query,
            headers={"Authorization": f"Bearer {self.token}"},
        ) as response:
            return dict(await response.json())

    async def send(
        self, chat: str, content: Any, kind: str = "text", **more: Any
    ) -> dict[str, Any]:
        body = {"receive_id": chat, "msg_type": kind, "content": json.dumps(content), **more}
        return await self.call("POST", "im/v1/messages", body, receive_id_type="chat_id")


@pytest.fixture
async def feishu() -> AsyncIterator[FeishuSimulator]:
    async with FeishuSimulator(token_expire_s=600) as simulator:
        simulator.create_user("alice", open_id="ou_alice")
        simulator.create_group("team", ["alice"], chat_id="oc_team")
        yield simulator


@pytest.fixture
async def client(feishu: FeishuSimulator) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        made = Client(feishu, session)
        await made.log_in()
        yield made


async def test_a_token_is_the_same_until_it_nears_its_end_and_is_refused_after(
    feishu: FeishuSimulator, client: Client
) -> None:
    first = client.token
    assert await client.log_in() <= 600
    assert client.token == first
    await feishu.expire_token()
    assert (await client.call("GET", "bot/v3/info"))["code"] == 99991663
    await client.log_in()
    assert client.token != first
    assert (await client.call("GET", "bot/v3/info"))["bot"]["open_id"] == feishu.bot.open_id
    client.token = ""
    assert (await client.call("GET", "bot/v3/info"))["code"] == 99991661


async def test_one_uuid_is_one_message(feishu: FeishuSimulator, client: Client) -> None:
    first = await client.send("oc_team", {"text": "a"}, uuid="u")
    again = await client.send("oc_team", {"text": "b"}, uuid="u")
    assert first["data"]["message_id"] == again["data"]["message_id"]
    assert [sent.text for sent in feishu.sent()] == ["a"]
    assert (await client.send("oc_team", {"text": "a"}, uuid="u" * 51))["code"] == 230001


@pytest.mark.parametrize(
    ("kind", "content", "code"),
    [
        ("text", {"text": "x" * 200_000}, 230025),
        ("post", {"zh_cn": {"content": [[{"tag": "md", "text": "x" * 40_000}]]}}, 230025),
        ("post", {"text": "x"}, 230001),
        ("text", {}, 230001),
        ("interactive", {"elements": []}, 230099),
        ("interactive", {"type": "card", "data": {"card_id": "none"}}, 230099),
        ("hologram", {}, 230001),
    ],
)
async def test_a_content_that_feishu_refuses_is_refused(
    client: Client, kind: str, content: Any, code: int
) -> None:
    assert (await client.send("oc_team", content, kind))["code"] == code


async def test_a_card_with_too_many_tables_is_refused(client: Client) -> None:
    def card(count: int) -> Any:
        text = "\n\n".join(["| a |\n|---|\n| 1 |"] * count)
        return {"schema": "2.0", "body": {"elements": [{"tag": "markdown", "content": text}]}}

    assert (await client.send("oc_team", card(5), "interactive"))["code"] == 0
    refused = await client.send("oc_team", card(6), "interactive")
    assert (refused["code"], "11310" in refused["msg"]) == (230099, True)


async def test_a_card_grows_only_while_it_streams_and_only_in_sequence(
    feishu: FeishuSimulator, client: Client
) -> None:
    made = await client.call(
        "POST", "cardkit/v1/cards", {"type": "card_json", "data": json.dumps(CARD)}
    )
    card_id = made["data"]["card_id"]
    await client.send("oc_team", {"type": "card", "data": {"card_id": card_id}}, "interactive")

    async def grow(text: str, sequence: int) -> int:
        path = f"cardkit/v1/cards/{card_id}/elements/e/content"
        return int(
            (await client.call("PUT", path, {"content": text, "sequence": sequence}))["code"]
        )

    assert [await grow("a", 2), await grow("b", 2), await grow("c", 1), await grow("d", 3)] == [
        *(0, 300317, 300317, 0),
    ]
    settings = {"settings": json.dumps({"config": {"streaming_mode": False}}), "sequence": 4}
    closed = await client.call("PATCH", f"cardkit/v1/cards/{card_id}/settings", settings)
    assert closed["code"] == 0
    assert await grow("e", 5) == 300309
    (sent,) = feishu.sent()
    assert (sent.text, sent.streaming) == ("d", False)
    convert = {"message_id": sent.id}
    told = await client.call("POST", "cardkit/v1/cards/id_convert", convert)
    assert told["data"]["card_id"] == card_id


async def test_a_text_can_be_edited_twenty_times(feishu: FeishuSimulator, client: Client) -> None:
    sent = await client.send("oc_team", {"text": "0"})
    path = f"im/v1/messages/{sent['data']['message_id']}"
    body = {"msg_type": "text", "content": json.dumps({"text": "x"})}
    codes = [(await client.call("PUT", path, body))["code"] for _ in range(21)]
    assert codes == [0] * 20 + [230072]


async def test_an_answer_stands_in_the_topic_of_its_root_only(
    feishu: FeishuSimulator, client: Client
) -> None:
    root = await feishu.user_says("team", "alice", "root")
    later = await feishu.user_says("team", "alice", "later", thread=root)
    thread = feishu.tenant.messages[root].thread_id

    async def reply(message_id: str, **more: Any) -> Any:
        body = {"msg_type": "text", "content": '{"text": "x"}', **more}
        return (await client.call("POST", f"im/v1/messages/{message_id}/reply", body))["data"]

    assert (await reply(root, reply_in_thread=True))["thread_id"] == thread
    assert (await reply(later, reply_in_thread=True))["thread_id"] != thread
    plain = await feishu.user_says("team", "alice", "plain")
    assert "thread_id" not in await reply(plain)
    await feishu.recall(plain)
    body = {"msg_type": "text", "content": '{"text": "x"}'}
    refused = await client.call("POST", f"im/v1/messages/{plain}/reply", body)
    assert refused["code"] == 230011


async def test_faults_happen_as_planned(feishu: FeishuSimulator, client: Client) -> None:
    feishu.fail_next("message.create", "error:230020", times=2)
    codes = [(await client.send("oc_team", {"text": "x"}))["code"] for _ in range(3)]
    assert codes == [230020, 230020, 0]
    feishu.limit_rate("message.create", calls=2, seconds=60)
    codes = [(await client.send("oc_team", {"text": "x"}))["code"] for _ in range(3)]
    assert codes == [0, 0, 99991400]
    feishu.clear_faults()
    feishu.fail_next("message.create", "reset_after")
    with pytest.raises(aiohttp.ClientError):
        await client.send("oc_team", {"text": "taken"})
    assert feishu.sent()[-1].text == "taken"
    with pytest.raises(ValueError, match="unknown fault"):
        feishu.fail_next("message.create", "explode")


async def test_what_is_not_there_is_told(feishu: FeishuSimulator) -> None:
    for door in (feishu.tenant.find_user, feishu.tenant.find_chat, feishu.tenant.find_message):
        with pytest.raises(LookupError, match="feishu simulator"):
            door("nobody")
    with pytest.raises(TimeoutError, match="1 sent messages"):
        await feishu.wait_sent(timeout_s=0.05)
