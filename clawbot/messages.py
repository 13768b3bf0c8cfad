"""The values that travel between a platform and a turn.

Ids of a platform (chat, thread, message, user) are opaque text: kept as sent, compared for
equality, never split or lower-cased outside the adapter that made them. Times are Unix
milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from clawbot.text import clean


class ChatType(StrEnum):
    """Whether a chat has one person or several."""

    DM = "dm"
    GROUP = "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Who wrote a message. `name` is for people and prompts; decisions use `id` alone."""

    id: str
    name: str = ""
    is_bot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that came with a message.

    `source` is the adapter's own reference (a URL or file key), by which it can download it.
    `kind` is image, audio, video or file. `blob` is its name in the store once it was loaded,
    `problem` says why it was not.
    """

    kind: str
    name: str
    source: str
    mime: str = ""
    size_bytes: int | None = None
    blob: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an answer stands: a chat of a channel, and the thread in it, if any."""

    channel: str
    chat_id: str
    thread: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyRoute:
    """Where and as what the answer to one message is sent; frozen when the message is accepted.

    `reply_to` is the message to quote, if the platform does so. `token` is an adapter's own opaque
    text (a response URL, a request id). `can_edit` says that a sent part can be changed later,
    `max_file_bytes` how large a file can be sent there: 0 = none, None = nobody knows.
    """

    chat_id: str
    thread: str | None = None
    reply_to: str | None = None
    token: str | None = None
    can_edit: bool = False
    max_file_bytes: int | None = None

    @property
    def lane(self) -> tuple[str, str | None]:
        """Replies with the same lane are sent one after the other, in order."""
        return (self.chat_id, self.thread)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundMessage:
    """One event of a platform, normalised: something a person (or bot) said in a chat.

    identity: the message's own key, unique per channel; copies of one message share it.
    transport_ids: ids of this delivery (event ids and the like); a known one marks a copy.
    thread: exactly what the platform sent, else None.
    opens_thread: the thread that an answer to this message would open, where answers to a root
        message stand in a thread of its own; None where they stand beside it.
    thread_root: the message that began `thread`, where the platform says so; lets the router join
        a thread id that it learns late to the session that the root message began.
    mentioned: whether the bot is addressed by a mention; an unknown bot id means False.
    mentions_others: whether somebody else is addressed by a mention.
    command_text: the text in which a chat command may stand (mentions removed, quotes excluded);
        None when this message can never be a command.
    is_incomplete: whether the text still lacks what only the platform's API can tell; the adapter's
        `enrich` completes it from `raw`.
    sent_at_ms: the platform's time of the message, None when unknown.
    inline_until_ms: until when the request that brought it is held open, so that an answer can
        travel in its response; None when it cannot.
    asks_for_more: whether it only asks for an answer, or the rest of one, that waits in this chat;
        it is an ordinary message when nothing waits.
    raw: the payload as received, for enrichment, replays and `explain`.
    """

    channel: str
    identity: str
    chat_id: str
    chat_type: ChatType
    sender: Sender
    text: str
    raw: str
    transport_ids: tuple[str, ...] = ()
    thread: str | None = None
    opens_thread: str | None = None
    thread_root: str | None = None
    mentioned: bool = False
    mentions_others: bool = False
    command_text: str | None = None
    reply_to: str | None = None
    reply_token: str | None = None
    is_incomplete: bool = False
    sent_at_ms: int | None = None
    attachments: tuple[Attachment, ...] = ()
    inline_until_ms: int | None = None
    asks_for_more: bool = False


def cleaned(message: InboundMessage) -> InboundMessage:
    """The message with no character in its texts that a database refuses; ids stay as they are."""
    command_text = message.command_text
    return replace(
        message,
        text=clean(message.text),
        raw=clean(message.raw),
        command_text=None if command_text is None else clean(command_text),
        sender=replace(message.sender, name=clean(message.sender.name)),
        attachments=tuple(replace(one, name=clean(one.name)) for one in message.attachments),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """What a person did afterwards to a message of theirs, which `identity` names.

    message: how it reads now, as a whole; None when it was deleted.
    """

    channel: str
    identity: str
    message: InboundMessage | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A payload that is no message for us, with the reason code that is logged."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What became of an inbound message; the adapter may acknowledge it now.

    `inbox_id` is None when no row was kept (the mention rule without context). `decision` is one of
    queued, received, context, command, more, refused, ignored; `reason` says why for the last two.
    `may_be_answered` tells a held request whether waiting for an answer makes sense. `answer` is
    what a command came to, in words; `is_settled` whether giving it again would change nothing, so
    that buttons about the same may go.
    """

    inbox_id: int | None
    decision: str
    reason: str = ""
    is_duplicate: bool = False
    session_key: str | None = None
    may_be_answered: bool = True
    answer: str = ""
    is_settled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRef:
    """A message that the platform took: by it the adapter can edit it later.

    `thread` is the platform's thread id if sending taught us one (it is aliased to the session).
    """

    id: str
    thread: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A button below a reply: pressing it is as good as typing the command there, no more and no
    less. The text names the commands too, for platforms and clients without buttons.
    """

    label: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundFile:
    """A file for a chat. `name` is what people see; `blob` is where the store keeps its bytes."""

    name: str
    mime: str
    size_bytes: int
    blob: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundPart:
    """One message of a reply, as the adapter shall send it.

    key: idempotency key, stable over every attempt at this part. text: Markdown. progress: one
    line about running tools that may be shown after the text and is never part of it. is_final:
    whether the text can still grow. is_inline: send it in the response of a request that is held
    open, and in no other way. part_count: how many parts the reply has now. is_repeated: an
    earlier attempt may have been taken, perhaps with a text that was still shorter. tried_ms: no
    attempt before that time was taken; 0 = unknown. choices: what people may choose below it; an
    adapter may leave them out. file: what the message consists of; `text` then says, for people,
    that it could not be sent. is_revision: it replaces a message that was whole; one that cannot be
    changed any more stays as it is.
    """

    channel: str
    route: ReplyRoute
    key: str
    part_no: int
    text: str
    progress: str = ""
    is_final: bool = True
    is_inline: bool = False
    part_count: int = 1
    is_repeated: bool = False
    tried_ms: int = 0
    choices: tuple[Choice, ...] = ()
    file: OutboundFile | None = None
    is_revision: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a platform allows, as data. Sizes are measured by the adapter's `measure`.

    max_size: of one part, in the unit of `measure`. edit_interval_s: least time between two edits
    of one message; 0 without edits. send_timeout_s: after it an outcome counts as unknown.
    parts_per_inbound: how many messages one inbound message may be answered with, None = any.
    idempotency_s: for how long a key is known, where there are keys; 0 = for ever. After that a
        part in doubt is looked up, or stays unknown.
    typing_lasts_s: how long a typing sign stays by itself.
    ends_growth: whether a text that was shown as growing looks unfinished until an edit says that
        it is final, even if that edit changes nothing else.
    max_file_bytes: of one file that is sent; 0 where none can be.
    one_connection: whether the platform keeps one connection of the account only: of several
        processes one receives and sends, the others stand by.
    """

    max_size: int
    edit_interval_s: float = 0.0
    send_timeout_s: float = 60.0
    parts_per_inbound: int | None = None
    has_idempotency_keys: bool = False
    idempotency_s: float = 0.0
    typing_lasts_s: float = 60.0
    ends_growth: bool = False
    max_file_bytes: int = 0
    one_connection: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelHealth:
    """What `status` shows of a channel. `state` is connecting, up, degraded or broken."""

    state: str
    detail: str = ""
    facts: dict[str, str] = field(default_factory=dict)
