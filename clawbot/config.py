"""The configuration: what the admin's YAML becomes, and how it is loaded.

The file is read whole and strictly: an unknown key, a wrong type or a missing secret is an error
with its line, and all errors are shown at once. clawbot never writes the file. The keys themselves
stand in `clawbot.config_sections`.

A secret is best given as `${NAME}` (an environment variable; `${NAME:-default}` works for any text)
or as `<key>_file: PATH`. Paths are relative to the folder of the YAML.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, PrivateAttr, SecretStr

from clawbot.channels import CHANNEL_TYPES, ChannelType, load
from clawbot.config_check import ConfigChecker, secret_file_keys, secrets_of
from clawbot.config_mcp import McpServerConfig, McpServerName
from clawbot.config_schedules import ScheduleConfig, TimeZone
from clawbot.config_sections import (
    OFFLINE_MODEL,
    PROVIDER_KINDS,
    AllowLists,
    BudgetsConfig,
    ChannelKeys,
    CompactionConfig,
    ExistingFile,
    FolderPath,
    LimitsConfig,
    LogConfig,
    ModelName,
    PoolName,
    ProviderConfig,
    RemoteModelName,
    RetentionConfig,
    Section,
    TasksConfig,
    Text,
    TurnOverrides,
    TurnsConfig,
    WebConfig,
)
from clawbot.config_tools import ProjectConfig, ToolsConfig
from clawbot.config_tracing import TracingConfig
from clawbot.errors import ConfigError
from clawbot.file_stamp import FileStamp, stamp_of
from clawbot.queueing import QueueRules
from clawbot.session_key import RESERVED_CHANNELS, SessionKey
from clawbot.yaml_source import Document, KeyPath, read_document

BUILT_IN_CHANNELS = frozenset({"web", "terminal"})
"""Channels that exist without configuration and have no adapter."""

EVERYONE = "*"
CHANNEL_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class Config(Section):
    """The whole configuration."""

    state_dir: FolderPath
    """Where everything durable lives; made at the first start, readable by its owner alone."""
    database: SecretStr | None = None
    """postgresql://USER:PASSWORD@HOST:PORT/NAME; left out, a file in the state dir. Several hosts
    can share a PostgreSQL database, each with a state dir of its own."""
    model: ModelName
    """PROVIDER:NAME, or offline (built in, without any network)."""
    fallbacks: tuple[RemoteModelName, ...] = ()
    """Models that answer, one after the other, while the model of a session does not work."""
    models: tuple[ModelName, ...] = ()
    """Further models among which people may choose for their conversation (`/model`)."""
    providers: dict[str, ProviderConfig] = Field(default={})
    """Providers of models by name."""
    instructions: str = ""
    """What the agent is told in every session."""
    context: tuple[ExistingFile, ...] = ()
    """Text files that stand in every base session."""
    owners: tuple[Text, ...] = ()
    """People who may command everything, as CHANNEL:USER-ID."""
    workers: int = Field(default=1, ge=1, le=64)
    """How many worker processes run turns."""
    pools: tuple[PoolName, ...] = ()
    """The pools of which the workers of this file run the turns; none = of all pools."""
    turns: TurnsConfig = TurnsConfig()
    """Bounds of one run of the agent."""
    tools: ToolsConfig = ToolsConfig()
    """What the agent can do."""
    project: ProjectConfig = ProjectConfig()
    """What the agent is told of AGENTS.md files and skills of its work directory."""
    mcp: dict[McpServerName, McpServerConfig] = Field(default={})
    """Servers whose tools it has as well, by name; their tools are called NAME__TOOL."""
    tasks: TasksConfig = TasksConfig()
    """What sub-sessions are given to know."""
    budgets: BudgetsConfig = BudgetsConfig()
    """What model calls may cost."""
    compaction: CompactionConfig = CompactionConfig()
    """How the beginning of a long conversation is summarised."""
    web: WebConfig = WebConfig()
    """The web page."""
    time_zone: TimeZone = "UTC"
    """In which people name times (`/remind`), and `schedules`."""
    schedules: dict[str, ScheduleConfig] = Field(default={})
    """Turns that begin at a time, by names given to them."""
    transcripts: bool = True
    """Whether to keep readable copies of all sessions as text files in the state dir."""
    limits: LimitsConfig = LimitsConfig()
    """Times and bounds."""
    retention: RetentionConfig = RetentionConfig()
    """After how many days what is removed."""
    log: LogConfig = LogConfig()
    """What is logged."""
    tracing: TracingConfig = TracingConfig()
    """Traces of turns."""
    channels: dict[str, ChannelConfig] = Field(default={}, exclude=True)
    """The platform accounts, by the names given to them."""
    _file: Path | None = PrivateAttr(default=None)
    _stamp: FileStamp | None = PrivateAttr(default=None)

    @property
    def file(self) -> Path | None:
        """The YAML that it was read from."""
        return self._file

    @property
    def stamp(self) -> FileStamp | None:
        """What that file was known by when it was read."""
        return self._stamp

    def secrets(self) -> list[SecretStr]:
        """Every secret, for keeping them out of logs."""
        own = list(secrets_of(self))
        return own + [s for one in self.channels.values() for s in secrets_of(one.adapter_config)]

    def provider(self, name: str) -> ProviderConfig:
        """How to reach provider `name`, with its kind filled in."""
        given = self.providers.get(name, ProviderConfig())
        return given.model_copy(
            update={"kind": given.kind or PROVIDER_KINDS.get(name, "openai-chat")}
        )

    def model_of(self, channel: str | None) -> str:
        """The model of a channel (None or one without a section = the general one)."""
        section = self.channels.get(channel or "")
        return (section and section.model) or self.model

    def models_of(self, channel: str | None) -> Models:
        """The models among which people of a channel may choose."""
        section = self.channels.get(channel or "")
        plan = section.turns.plan if section else None
        plan = self.turns.plan if plan is None else plan
        return Models(usual=self.model_of(channel), offered=self.models, plan=plan)

    def model_problem(self, model: str, path: KeyPath) -> tuple[KeyPath, str] | None:
        """Why a model that is named at `path` cannot be used: the key to change, and how."""
        name = model.partition(":")[0]
        given = self.providers.get(name)
        if model == OFFLINE_MODEL:
            return None
        if given is None and name not in PROVIDER_KINDS:
            known = ", ".join({**self.providers, **PROVIDER_KINDS})
            return path, f"unknown provider; add it under providers, or take one of: {known}"
        if given is None or not (given.base_url or given.api_key):
            variable = f"{name.upper().replace('-', '_')}_API_KEY"
            return ("providers", name, "api_key"), (
                f"missing, and {'.'.join(map(str, path))} needs it; "
                f"write api_key: ${{{variable}}} and set {variable}"
            )
        return None

    def commands_all(self, channel: str, user_id: str) -> bool:
        """Whether somebody may command everything: an owner, or who reached us past the gate."""
        return channel in BUILT_IN_CHANNELS or self.is_owner(channel, user_id)

    def is_owner(self, channel: str, user_id: str) -> bool:
        """Whether this person is one of the owners."""
        section = self.channels.get(channel)
        folded = section is not None and section.policy.case_insensitive_ids
        listed = [o.partition(":")[2] for o in self.owners if o.partition(":")[0] == channel]
        return user_id in listed or (folded and user_id.casefold() in map(str.casefold, listed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models of a channel. usual: answers where nobody chose another. offered: the others.
    plan: whether they work in plan mode where nobody chose.
    """

    usual: str
    offered: tuple[str, ...] = ()
    plan: bool = False

    @property
    def all(self) -> tuple[str, ...]:
        """The usual one first, each once."""
        return tuple(dict.fromkeys((self.usual, *self.offered)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPolicy:
    """What the gate needs to know of a channel; see `ChannelKeys` for the fields.

    case_insensitive_ids: whether the platform writes one id in several cases, so that an admin may.
    """

    scope: str
    allow: AllowLists = field(default_factory=AllowLists)
    mention: Literal["required", "never"] = "required"
    follow_threads: bool = True
    bots: Literal["deny", "allow"] = "deny"
    max_bot_turns: int = 10
    queue: QueueRules = field(default_factory=QueueRules)
    case_insensitive_ids: bool = False

    def lists(self, ids: Sequence[str], wanted: str) -> bool:
        """Whether one of the allow lists holds an id, or everyone."""
        if EVERYONE in ids or wanted in ids:
            return True
        return self.case_insensitive_ids and wanted.casefold() in {one.casefold() for one in ids}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelConfig:
    """One configured platform account.

    adapter_config: the channel's own keys, of the class that its adapter declares.
    """

    name: str
    type: str
    policy: ChannelPolicy
    adapter_config: BaseModel
    enabled: bool = True
    instructions: str = ""
    model: str | None = None
    turns: TurnOverrides = field(default_factory=TurnOverrides)
    workdir: Literal["chat", "session"] = "chat"
    shared_dirs: tuple[Path, ...] = ()
    tools: tuple[str, ...] | None = None


def load_config(
    path: Path,
    *,
    environ: Mapping[str, str] | None = None,
    channel_types: Mapping[str, ChannelType] | None = None,
) -> Config:
    """Read and check the file; raise ConfigError with every problem of it. Blocks on the disk."""
    try:
        stamp = stamp_of(path)
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"config {path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"config {path}: not UTF-8 text (byte {error.start})") from error
    document = read_document(text, os.environ if environ is None else environ)
    config = None
    if document.data or not document.problems:
        reader = _Reader(document, path.absolute().parent, channel_types or CHANNEL_TYPES)
        config = reader.config()
    if document.problems or config is None:
        raise ConfigError([str(problem) for problem in document.sorted_problems()])
    config._file, config._stamp = path.absolute(), stamp  # noqa: SLF001  its own
    return config


class _Reader:
    """Makes the config of a document; problems go into the document."""

    def __init__(
        self, document: Document, folder: Path, channel_types: Mapping[str, ChannelType]
    ) -> None:
        self._document = document
        self._checker = ConfigChecker(document, folder)
        self._channel_types = channel_types

    def config(self) -> Config | None:
        data = dict(self._document.data)
        channels = self._channels(data.pop("channels", {}))
        config = self._checker.check(Config, data, ())
        if config is None:
            return None
        self._check_models(config, channels)
        self._check_owners(config, channels)
        self._check_schedules(config, channels)
        # Links on the way are settled now: who may write there could change them later.
        state_dir = Path(os.path.realpath(config.state_dir))
        return config.model_copy(update={"channels": channels, "state_dir": state_dir})

    def _channels(self, data: object) -> dict[str, ChannelConfig]:
        if data is None:
            return {}
        if not isinstance(data, dict):
            self._document.report(("channels",), "want a section with a key for each channel")
            return {}
        made = {name: self._channel(name, keys) for name, keys in data.items()}
        return {name: channel for name, channel in made.items() if channel is not None}

    def _channel(self, name: str, data: object) -> ChannelConfig | None:
        path: KeyPath = ("channels", name)
        if name in RESERVED_CHANNELS | BUILT_IN_CHANNELS:
            self._document.report(path, "this name is reserved; choose another one")
        elif not CHANNEL_NAME.fullmatch(name):
            self._document.report(
                path, "a channel's name has a-z, 0-9, - and _, begins with a letter, at most 32"
            )
        if not isinstance(data, dict):
            self._document.report(path, "want a section with keys of its own")
            return None
        type_name = data.get("type", name)
        if not isinstance(type_name, str) or type_name not in self._channel_types:
            self._document.report((*path, "type"), f"want one of {', '.join(self._channel_types)}")
            return None
        channel_type = self._channel_types[type_name]
        adapter_model: type[BaseModel] = load(channel_type.config)
        common: dict[str, object] = {}
        own: dict[str, object] = {}
        known = {*ChannelKeys.model_fields, *adapter_model.model_fields}
        known |= secret_file_keys(adapter_model)
        for key, value in data.items():
            if key not in known:
                self._checker.report_unknown_key((*path, key), known)
            else:
                (common if key in ChannelKeys.model_fields else own)[key] = value
        keys = self._checker.check(ChannelKeys, common, path)
        adapter_config = self._checker.check(adapter_model, own, path)
        if keys is None or adapter_config is None:
            return None
        policy = ChannelPolicy(
            scope=keys.scope or channel_type.default_scope,
            allow=keys.allow,
            mention=keys.mention,
            follow_threads=keys.follow_threads,
            bots=keys.bots,
            max_bot_turns=keys.max_bot_turns,
            queue=QueueRules(
                policy=keys.queue,
                debounce_ms=keys.debounce_ms,
                limit=keys.queue_limit,
                pool=keys.pool,
            ),
            case_insensitive_ids=channel_type.case_insensitive_ids,
        )
        return ChannelConfig(
            name=name,
            type=type_name,
            policy=policy,
            adapter_config=adapter_config,
            enabled=keys.enabled,
            instructions=keys.instructions,
            model=keys.model,
            turns=keys.turns,
            workdir=keys.workdir,
            shared_dirs=tuple(Path(os.path.realpath(one)) for one in keys.shared_dirs),
            tools=keys.tools,
        )

    def _check_models(self, config: Config, channels: Mapping[str, ChannelConfig]) -> None:
        """A model can only be used when its provider can be reached."""
        used: list[tuple[KeyPath, str]] = [(("model",), config.model)]
        if config.compaction.model:
            used.append((("compaction", "model"), config.compaction.model))
        used += [(("fallbacks", number), name) for number, name in enumerate(config.fallbacks)]
        used += [(("models", number), one) for number, one in enumerate(config.models)]
        used += [(("channels", c.name, "model"), c.model) for c in channels.values() if c.model]
        for path, model in used:
            problem = config.model_problem(model, path)
            if problem is not None:
                self._document.report(*problem)
        for name, given in config.providers.items():
            if given.base_url is None and name not in PROVIDER_KINDS:
                self._document.report(("providers", name, "base_url"), "missing; add the key")

    def _check_owners(self, config: Config, channels: Mapping[str, ChannelConfig]) -> None:
        named = self._document.data.get("channels")
        known = {*channels, *BUILT_IN_CHANNELS, *(named if isinstance(named, dict) else ())}
        for position, owner in enumerate(config.owners):
            channel, _, user_id = owner.partition(":")
            if channel not in known or not user_id:
                self._document.report(
                    ("owners", position),
                    f"want CHANNEL:USER-ID with one of the channels {', '.join(sorted(known))}",
                )

    def _check_schedules(self, config: Config, channels: Mapping[str, ChannelConfig]) -> None:
        known = {*channels, *BUILT_IN_CHANNELS}
        for name, schedule in config.schedules.items():
            channel = SessionKey.parse(schedule.session).channel
            if channel is not None and channel not in known:
                self._document.report(
                    ("schedules", name, "session"), f"there is no channel {channel} in the config"
                )


Config.model_rebuild()
