"""The sections of the YAML: every key with its type, its default and what it means.

Each of them stands with a comment in `config/clawbot.example.yaml`. How the file is read and what
the parts of the daemon are handed stands in `clawbot.config`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from clawbot.queueing import QueuePolicy

OFFLINE_MODEL = "offline"

Thinking = Literal["off", "first", "low", "medium", "high"]
"""How a model thinks: by itself, not at all or so much; or first, in a call of its own."""

ProviderKind = Literal["openai-chat", "openai", "anthropic"]

PROVIDER_KINDS: Mapping[str, ProviderKind] = {
    "openai": "openai",
    "openai-chat": "openai-chat",
    "anthropic": "anthropic",
    "zai": "openai-chat",
    "deepseek": "openai-chat",
}
"""The providers whose address is known, with the wire format each of them speaks."""


def _in_folder(path: Path, info: ValidationInfo) -> Path:
    folder = (info.context or {}).get("folder", Path())
    return Path(os.path.normpath(folder / path.expanduser()))


def _existing_file(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"no such file: {path}")
    return path


def _model_name(name: str) -> str:
    if name != OFFLINE_MODEL and not all(name.partition(":")):
        raise ValueError("want PROVIDER:NAME, such as anthropic:claude-sonnet-4-5, or offline")
    return name


def _remote_model_name(name: str) -> str:
    if name == OFFLINE_MODEL:
        raise ValueError("the offline model is never a fallback; want PROVIDER:NAME")
    return _model_name(name)


Text = Annotated[str, StringConstraints(min_length=1)]
HttpUrlText = Annotated[str, StringConstraints(pattern=r"^https?://[^/]")]
FolderPath = Annotated[Path, AfterValidator(_in_folder)]
ExistingFile = Annotated[Path, AfterValidator(_in_folder), AfterValidator(_existing_file)]
ModelName = Annotated[str, AfterValidator(_model_name)]
PoolName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]
RemoteModelName = Annotated[str, AfterValidator(_remote_model_name)]
Seconds = Annotated[float, Field(gt=0)]
Temperature = Annotated[float, Field(ge=0, le=2)]


class Section(BaseModel):
    """A part of the YAML: strict, complete, and never changed after loading."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )


class ProviderConfig(Section):
    """How a provider of models is reached."""

    api_key: SecretStr | None = None
    """Its key; may be left out for a server of your own (`base_url`) that wants none."""
    base_url: HttpUrlText | None = None
    """Where its API is; needed unless the provider is a known one."""
    kind: ProviderKind | None = None
    """The wire format; known for known providers, else openai-chat."""
    thinking: Thinking | None = None
    """How its models think where no conversation or channel says it; see `turns.thinking`."""
    context_tokens: int | None = Field(default=None, ge=2048)
    """How much its models take in; left out, what is known of a model, else 32768."""
    requests_per_minute: int | None = Field(default=None, ge=1)
    """How many calls all workers together make in a minute, in equal parts; more of them wait. Left
    out, any number."""
    tokens_per_minute: int | None = Field(default=None, ge=1000)
    """How many tokens, in and out, all workers use in a minute, in equal parts; left out, any."""


class TurnOverrides(Section):
    """What a channel or a session may have of its own; None = inherited. See `TurnsConfig`."""

    temperature: Temperature | None = None
    """How freely the model chooses its words."""
    max_steps: int | None = Field(default=None, ge=1)
    """How many model calls a turn may make."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    """How many tokens one model call may write."""
    request_tokens: int | None = Field(default=None, ge=2000)
    """How many tokens a request may hold, where the model takes more."""
    history_messages: int | None = Field(default=None, ge=0)
    """How many older messages of the session go into a request; 0 = all that fit."""
    thinking: Thinking | None = None
    """How the model thinks; see `TurnsConfig`."""
    plan: bool | None = None
    """Whether what changes something is done by a plan, box by box."""


class TurnsConfig(Section):
    """Bounds of one run of the agent."""

    temperature: Temperature | None = None
    """How freely the model chooses its words, 0 to 2; left out, the provider's own default."""
    first_token_timeout_s: Seconds = 60
    """How long a model may take to its first token; then the call counts as failed."""
    turn_timeout_s: Seconds = 900
    """How long a whole turn may take."""
    max_steps: int = Field(default=50, ge=1)
    """How many model calls a turn may make."""
    subagent_steps: int = Field(default=20, ge=0)
    """How many model calls a sub-agent may make; 0 = there are none."""
    max_output_tokens: int = Field(default=8192, ge=1)
    """How many tokens one model call may write."""
    request_tokens: int | None = Field(default=None, ge=2000)
    """How many tokens a request may hold, where the model takes more; left out, all it takes."""
    history_messages: int = Field(default=200, ge=0)
    """How many older messages of the session go into a request; 0 = all that fit."""
    thinking: Thinking | None = None
    """first = each turn begins with a call in which the model thinks and may use no tool; low,
    medium, high = so much of the provider's own thinking, off = none of it; left out, as the
    provider does by itself, or `providers.NAME.thinking`."""
    plan: bool = False
    """Whether what changes something is done by a plan (PLAN.md and TODO.md in the work directory),
    box by box; `/plan` turns it on and off in a conversation."""
    result_chars: int = Field(default=50_000, ge=1000)
    """How much of a tool's result the history holds; the whole of a longer one is saved beside."""
    per_worker: int = Field(default=500, ge=1)
    """How many turns one worker process runs at once; high, so that hanging chats block nobody."""
    per_chat: int = Field(default=16, ge=1)
    """How many of them one chat may have, over all its threads and tasks; more of them wait, so
    that a flood in one chat delays no other."""


class Budget(Section):
    """How much may be spent; whichever bound is met first counts."""

    usd: float | None = Field(default=None, ge=0)
    """US dollars; calls of models without a known price do not count."""
    tokens: int | None = Field(default=None, ge=0)
    """Tokens, in and out."""

    def __bool__(self) -> bool:
        """Whether there is a bound at all."""
        return self.usd is not None or self.tokens is not None


class ModelPrice(Section):
    """What a model costs, in US dollars a million tokens."""

    input: float = Field(ge=0)
    """Tokens that it reads."""
    output: float = Field(ge=0)
    """Tokens that it writes."""
    cached: float | None = Field(default=None, ge=0)
    """Tokens that it finds in its cache; left out, as the others that it reads."""


class BudgetsConfig(Section):
    """What model calls cost and may cost; a turn that is over ends before its next call."""

    prices: dict[ModelName, ModelPrice] = Field(default={})
    """Prices that count before those of the price list, by PROVIDER:NAME."""

    session: Budget = Budget()
    """One conversation; `/new` begins another one."""
    user_day: Budget = Budget()
    """All that one person asks for in a day."""
    day: Budget = Budget()
    """Everything in a day."""


class CompactionConfig(Section):
    """How the beginning of a long conversation is summarised, in the background."""

    enabled: bool = True
    """Whether to; without, requests just leave out what does not fit."""
    model: ModelName | None = None
    """The model that writes summaries; a cheap one will do. Left out, the session's own."""
    summary_tokens: int = Field(default=1500, ge=100, le=20_000)
    """About how long a summary may be."""
    chunk_tokens: int = Field(default=16_000, ge=1000)
    """How much of a conversation is read at a time; must fit into that model's window."""
    timeout_s: Seconds = 120
    """How long one call may take."""
    at_once: int = Field(default=2, ge=1)
    """How many summaries one worker process writes at once."""


class TasksConfig(Section):
    """What sub-sessions are given to know, in place of the files under `context:`, and bounds of
    those that the agent itself begins (its tool start_task).
    """

    seed: str = ""
    """The context document of a new task; {task}, {title} and {session} are filled in."""
    files: tuple[FolderPath, ...] = ()
    """Text files that are added to it; {task} in a path is the task's id, escaped."""
    seed_timeout_s: Seconds = 5
    """How long reading them may take; then the turn goes on without, and the next tries anew."""
    seed_bytes: int = Field(default=32_768, ge=1024)
    """How much of the document stands in each request; all of it can be read as a file."""
    at_once: int = Field(default=4, ge=0)
    """How many tasks the agent of one conversation may do beside it; 0 = it begins none."""
    timeout_s: Seconds = 7200
    """How long such a task may take."""
    max_steps: int = Field(default=200, ge=1)
    """How many model calls it may make."""


class WebConfig(Section):
    """The web page."""

    enabled: bool = True
    """Whether to serve it."""
    host: Text = "127.0.0.1"
    """The address to listen on."""
    port: int = Field(default=8765, ge=0, le=65535)
    """The port; 0 = any free one. The page's address is printed at the start."""
    token: SecretStr | None = None
    """Who knows it may use the page; left out, a random one is made and kept in the state dir."""
    allowed_hosts: tuple[Text, ...] = ()
    """Further names by which the page may be called, for example behind a proxy."""


class LimitsConfig(Section):
    """Times and bounds of the processes and of messages that wait."""

    heartbeat_s: Seconds = 5
    """How often a process says that it is alive."""
    lease_s: Seconds = 15
    """After how long a silent process counts as dead and its sessions are taken over."""
    ready_s: Seconds = 90
    """How long a part may take until it works; one that hangs is ended and started again."""
    grace_s: Seconds = 30
    """How long a stopping process may finish its turns and replies."""
    enrich_deadline_s: Seconds = 20
    """How long names, cards and files of a message may be fetched before it goes on without."""
    context_messages: int = Field(default=50, ge=0)
    """How many unaddressed messages of a group are kept for the next turn there; 0 = none."""
    context_age_s: Seconds = 86400
    """How old they may be."""
    file_bytes: int = Field(default=20_971_520, ge=0)
    """How large a file may be that people send to the agent, or the agent to people."""
    approval_s: Seconds = 3600
    """How long people have to approve or deny what a tool asks them."""
    sender_per_minute: int = Field(default=120, ge=0)
    """How many messages of one person are taken in a minute; 0 = any number. Who sends more is told
    that they are not taken; commands do not count."""
    chat_per_minute: int = Field(default=600, ge=0)
    """How many messages of one chat are taken in a minute; 0 = any number."""
    late_after_s: Seconds = 1800
    """From which age on a message that arrives is marked as late."""

    @model_validator(mode="after")
    def _lease_outlives_heartbeats(self) -> LimitsConfig:
        if self.lease_s < 2 * self.heartbeat_s:
            raise ValueError("lease_s must be at least twice heartbeat_s")
        return self


LEAST_DEDUPE_DAYS = 2
"""Platforms deliver a message again for up to a day; less would answer it twice."""


class RetentionConfig(Section):
    """After how many days what is removed; 0 = never."""

    seen_days: int = Field(default=7, ge=0)
    """Ids of deliveries, by which a repeated one is known; at least 2."""
    inbox_days: int = Field(default=90, ge=0)
    """Messages that were dealt with, as the platform sent them (what was said stays in its
    session's history); at least 2. An older thread is not followed without a mention any more."""
    outbox_days: int = Field(default=90, ge=0)
    """Replies that were sent, as they were sent (the history keeps its own copy)."""
    usage_days: int = Field(default=400, ge=0)
    """What model calls cost."""
    events_days: int = Field(default=0, ge=0)
    """What the page shows beside the history: answers to commands, errors, new beginnings."""
    blobs_days: int = Field(default=7, ge=0)
    """Files on their way between a chat and an agent, once nothing waits for them (what arrived
    stays in the work directory)."""
    traces_days: int = Field(default=14, ge=0)
    """Traces of turns that are kept as files."""
    archived_days: int = Field(default=0, ge=0)
    """Archived sessions in which nothing happened for so long, with all that was said in them."""

    @model_validator(mode="after")
    def _remembers_what_is_repeated(self) -> RetentionConfig:
        for name in ("seen_days", "inbox_days"):
            if 0 < getattr(self, name) < LEAST_DEDUPE_DAYS:
                raise ValueError(
                    f"{name} must be 0 or at least {LEAST_DEDUPE_DAYS}: platforms deliver a "
                    "message again for up to a day"
                )
        return self


class LogConfig(Section):
    """What is logged, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important level shown. Only debug shows the text of messages."""
    format: Literal["auto", "json", "console"] = "auto"
    """auto = console on a terminal, else json."""


class AllowLists(Section):
    """Who may talk to the bot. Nobody, unless listed; "*" is everyone."""

    dm: tuple[Text, ...] = ()
    """Users who may write to it directly."""
    groups: tuple[Text, ...] = ()
    """Group chats in which it answers."""
    senders: tuple[Text, ...] = ()
    """Users who may speak to it in those groups."""


class ChannelKeys(Section):
    """The keys that every channel has; its adapter's own keys stand beside them."""

    type: Text | None = None
    """The platform; may be left out where the channel's name says it."""
    enabled: bool = True
    """Whether to run it."""
    scope: Literal["chat", "thread", "user"] | None = None
    """What has a session of its own; left out, what is usual on the platform."""
    allow: AllowLists = AllowLists()
    """Who may talk to the bot."""
    mention: Literal["required", "never"] = "required"
    """required = in groups only messages that mention the bot are answered; never = all are."""
    follow_threads: bool = True
    """Whether a thread in which the bot takes part needs no further mention."""
    bots: Literal["deny", "allow"] = "deny"
    """Whether other bots that are on the allow lists may talk to it."""
    max_bot_turns: int = Field(default=10, ge=1)
    """After how many answers to a bot in a row, in all threads of a chat, a person must speak."""
    queue: QueuePolicy = "collect"
    """What happens to messages that arrive while their session is busy: collect = they are answered
    together afterwards; followup = one by one; steer = they join the turn that runs, if the same
    person wrote them; interrupt = they cut it short."""
    debounce_ms: int = Field(default=0, ge=0, le=60_000)
    """How long a session that was busy waits for more of a burst before its next turn."""
    queue_limit: int = Field(default=50, ge=1)
    """How many messages may wait in one session; who sends more is told that they are not taken."""
    instructions: str = ""
    """Added to the general instructions, on this channel."""
    model: ModelName | None = None
    """The model of this channel; left out, the general one."""
    turns: TurnOverrides = TurnOverrides()
    """Bounds of turns on this channel, where they differ from the general ones."""
    workdir: Literal["chat", "session"] = "chat"
    """chat = all sessions of a chat work in one directory; session = each has its own."""
    pool: PoolName | None = None
    """The pool of workers that runs this channel's turns; left out, default. A session stays in the
    pool in which it began, for its files are there."""
    shared_dirs: tuple[FolderPath, ...] = ()
    """Further directories that every session of this channel may use."""
    tools: tuple[Text, ...] | None = None
    """The tools of its sessions, as in `tools.offered`; left out, those."""
