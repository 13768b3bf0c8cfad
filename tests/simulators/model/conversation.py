"""What a model request says, independent of the wire format that carried it.

Plain values only: the three wire modules fill them, scripts and tests read them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Api = Literal["openai-chat", "openai-responses", "anthropic"]
Dialect = Literal["openai", "zai", "deepseek", "anthropic"]
Outcome = Literal[
    "open", "answered", "refused", "overflow", "broken_off", "disconnected", "crashed"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call as the request repeats it; `arguments` is JSON text on every wire."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A tool result; `id` names the call it answers."""

    id: str
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of the request, in order."""

    role: str
    text: str = ""
    thinking: str = ""
    tool_calls: tuple[Call, ...] = ()
    tool_results: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The content of one request. `system` joins all leading system texts with blank lines."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[str, ...]

    @property
    def last_user_text(self) -> str:
        """The text of the newest user message that has any; tool results are not user text."""
        for message in reversed(self.messages):
            if message.role == "user" and message.text:
                return message.text
        return ""

    @property
    def all_text(self) -> str:
        """Everything the model would read, for searching markers and secrets."""
        found = [self.system]
        for message in self.messages:
            found += [message.text, message.thinking]
            found += [f"{call.name} {call.arguments}" for call in message.tool_calls]
            found += [result.text for result in message.tool_results]
        return "\n".join(part for part in found if part)


@dataclass(slots=True, kw_only=True)
class RecordedRequest:
    """One request as the simulator received it. Only `outcome` changes afterwards.

    `at` is `time.monotonic()`, which processes of one host share. Credentials in `headers` are
    replaced; the raw `body` is exactly what was sent.
    """

    number: int
    api: Api
    dialect: Dialect
    model: str
    streamed: bool
    conversation: Conversation
    body: dict[str, Any] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    at: float
    outcome: Outcome = "open"

    @property
    def system(self) -> str:
        """The system text of the request."""
        return self.conversation.system

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the request, normalised."""
        return self.conversation.messages

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools the request offers."""
        return self.conversation.tools

    @property
    def last_user_text(self) -> str:
        """The text of the newest user message."""
        return self.conversation.last_user_text

    @property
    def all_text(self) -> str:
        """Everything the model would read."""
        return self.conversation.all_text
