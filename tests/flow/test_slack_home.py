"""The Home tab of the app on a running daemon."""

from __future__ import annotations

from tests.flow.daemon import Daemon
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator


async def test_the_home_tab_shows_the_conversations_of_the_direct_chat(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(text="Hello."), when="hi")
    await slack.user_says(chat, alice, "hi")
    await slack.wait_text("Hello.", channel=chat)
    await slack.user_says(chat, alice, "!task new 42")
    await slack.wait_sent(2, channel=chat)
    await daemon.until_quiet()

    def shown() -> str:
        view = slack.workspace.views.get(alice, {"blocks": []})
        return "\n".join(block["text"]["text"] for block in view["blocks"])

    await slack.open_app_home(alice)
    await slack.wait_for(shown, what="the Home tab")
    assert "task 42: active" in shown()
    assert "Idle" in shown()
    assert "in groups I answer when I am mentioned; what comes while I work: collect" in shown()
