"""What people do with the app itself: commands, buttons, shortcuts, assistant container, Home.

Each door makes Slack send the app what it would; ordinary messages are in `people`.
"""

import uuid
from dataclasses import dataclass

from .blocks import readable
from .channel_view import ChannelView
from .feed import Delivery
from .responses import Responses
from .shapes import conversation_json
from .workspace import Conversation, Json, Message, User


@dataclass(slots=True, kw_only=True, eq=False)
class Interactions:
    """The doors of a person who uses the app's own surfaces."""

    view: ChannelView
    responses: Responses
    verification_token: str

    async def slash_command(
        self, channel: str, user: str, command: str, text: str = ""
    ) -> Delivery:
        """Run a slash command at the root of a conversation (they do not work in threads)."""
        conversation, member = self.view.workspace.find_member(channel, user)
        workspace = self.view.workspace
        return self.view.feed.send(
            "slash_commands",
            {
                "token": self.verification_token,
                "team_id": workspace.team_id,
                "team_domain": workspace.team_domain,
                "channel_id": conversation.id,
                "channel_name": conversation.name or "directmessage",
                "user_id": member.id,
                "user_name": member.name,
                "command": command if command.startswith("/") else f"/{command}",
                "text": text,
                "api_app_id": workspace.app_id,
                "is_enterprise_install": "false",
                "response_url": self.responses.new_url(conversation.id, member.id),
                "trigger_id": self._trigger_id(),
            },
        )

    async def press_button(self, channel: str, ts: str, user: str, action_id: str) -> Delivery:
        """Press a button that is on the screen; LookupError when it is not."""
        message = self.view.workspace.find_message(channel, ts)
        conversation, member = self.view.workspace.find_member(channel, user)
        block, element = self._button(message, action_id)
        workspace = self.view.workspace
        action: Json = {
            **{key: element[key] for key in ("type", "text", "value") if key in element},
            "action_id": action_id,
            "block_id": block.get("block_id", "b1"),
            "action_ts": workspace.next_ts(),
        }
        if selected := element.get("options"):
            action["selected_option"] = selected[0]
        payload = self._interaction("block_actions", member, conversation) | {
            "container": {
                "type": "message",
                "message_ts": message.ts,
                "channel_id": conversation.id,
                "is_ephemeral": bool(message.ephemeral_to),
            },
            "message": self.view.shape(message),
            "state": {"values": {}},
            "response_url": self.responses.new_url(conversation.id, member.id, message),
            "actions": [action],
        }
        return self.view.feed.send("interactive", payload)

    async def message_shortcut(
        self, channel: str, ts: str, user: str, callback_id: str
    ) -> Delivery:
        """Choose one of the app's shortcuts in a message's menu."""
        message = self.view.workspace.find_message(channel, ts)
        conversation, member = self.view.workspace.find_member(channel, user)
        payload = self._interaction("message_action", member, conversation) | {
            "action_ts": self.view.workspace.next_ts(),
            "callback_id": callback_id,
            "message_ts": message.ts,
            "message": self.view.shape(message),
            "response_url": self.responses.new_url(conversation.id, member.id, message),
        }
        return self.view.feed.send("interactive", payload)

    async def open_assistant_thread(
        self, channel: str, user: str, *, context_channel: str = ""
    ) -> str:
        """Open the app's assistant container: a new thread in the DM; returns its thread_ts."""
        conversation, member = self.view.workspace.find_member(channel, user)
        conversation.assistant = True
        workspace = self.view.workspace
        root = Message(
            channel=conversation.id,
            ts=workspace.next_ts(),
            user=workspace.bot.id,
            bot_id=workspace.bot.bot_id,
            subtype="assistant_app_thread",
            text="New Assistant Thread",
        )
        root.thread_ts = root.ts
        conversation.messages.append(root)  # Slack makes it, the bot did not post it
        context = {"channel_id": context_channel, "team_id": workspace.team_id}
        self.view.feed.publish(
            {
                "type": "assistant_thread_started",
                "assistant_thread": {
                    "user_id": member.id,
                    "context": context if context_channel else {},
                    "channel_id": conversation.id,
                    "thread_ts": root.ts,
                },
                "event_ts": root.ts,
            }
        )
        return root.ts

    async def change_assistant_context(
        self, channel: str, user: str, thread_ts: str, context_channel: str
    ) -> Delivery:
        """The person looks at another channel while the assistant's thread is open."""
        workspace = self.view.workspace
        return self.view.feed.publish(
            {
                "type": "assistant_thread_context_changed",
                "assistant_thread": {
                    "user_id": user,
                    "context": {"channel_id": context_channel, "team_id": workspace.team_id},
                    "channel_id": channel,
                    "thread_ts": thread_ts,
                },
                "event_ts": workspace.next_ts(),
            }
        )

    async def open_app_home(self, user: str, *, tab: str = "home") -> Delivery:
        """Look at the app's Home or Messages tab."""
        workspace = self.view.workspace
        member = workspace.find_user(user)
        event: Json = {
            "type": "app_home_opened",
            "user": member.id,
            "channel": workspace.open_im(member.id).id,
            "tab": tab,
            "event_ts": workspace.next_ts(),
        }
        if tab == "home" and member.id in workspace.views:
            event["view"] = workspace.views[member.id]
        return self.view.feed.publish(event)

    def _button(self, message: Message, action_id: str) -> tuple[Json, Json]:
        for block in message.blocks:
            elements = [*block.get("elements", []), block.get("accessory") or {}]
            for element in elements:
                if element.get("action_id") == action_id:
                    return block, element
        raise LookupError(
            f"slack simulator: no button {action_id!r} on {message.ts}:"
            f" {readable(message.blocks) or message.text!r}"
        )

    def _interaction(self, kind: str, member: User, conversation: Conversation) -> Json:
        workspace = self.view.workspace
        name = conversation_json(workspace, conversation).get("name", "directmessage")
        return {
            "type": kind,
            "user": {
                "id": member.id,
                "username": member.name,
                "name": member.name,
                "team_id": workspace.team_id,
            },
            "api_app_id": workspace.app_id,
            "token": self.verification_token,
            "trigger_id": self._trigger_id(),
            "team": {"id": workspace.team_id, "domain": workspace.team_domain},
            "enterprise": None,
            "is_enterprise_install": False,
            "channel": {"id": conversation.id, "name": name},
        }

    def _trigger_id(self) -> str:
        return f"{self.view.workspace.next_ts()}.{uuid.uuid4().hex}"
