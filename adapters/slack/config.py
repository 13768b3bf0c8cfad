"""The Slack keys of a channel's section in the YAML. Importable without Slack's SDK."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})


class SlackConfig(BaseModel):
    """How one Slack app is reached. Secrets arrive resolved."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Literal["socket", "http"] = Field(
        default="socket",
        description="socket: we connect to Slack (no public address needed); http: Slack calls us",
    )
    bot_token: SecretStr = Field(description="Bot token, xoxb-…, of OAuth & Permissions")
    app_token: SecretStr | None = Field(
        default=None,
        description="App-level token, xapp-…, with connections:write; needed by mode: socket",
    )
    signing_secret: SecretStr | None = Field(
        default=None, description="Signing secret of Basic Information; needed by mode: http"
    )
    app_id: str | None = Field(
        default=None,
        description="App id, A…; events of other apps are dropped. Learned from Slack if left out",
    )
    streaming: bool = Field(
        default=True, description="Whether answers in threads are streamed rather than edited"
    )
    suggested_prompts: tuple[str, ...] = Field(
        default=("What can you do for me?", "Which of my conversations are running?"),
        max_length=4,
        description="Offered in a new thread of the assistant, four at most; none = []",
    )
    typing_reaction: str = Field(
        default="hourglass_flowing_sand",
        pattern=r"^[a-z0-9_+'-]*$",
        description="Emoji put on a message while it is answered where no status can be shown; "
        "empty = none",
    )
    api_base_url: str = Field(
        default="https://slack.com/api/", description="Where the Web API is; for proxies and tests"
    )
    listen_host: str = Field(default="127.0.0.1", description="Address to listen on, mode: http")
    listen_port: int = Field(
        default=3000, ge=0, le=65535, description="Port to listen on, mode: http; 0 = any"
    )
    path: str = Field(
        default="/slack/events",
        description="Path of the request URL for events, slash commands and interactivity",
    )
    max_body_bytes: int = Field(
        default=1_048_576, ge=4096, description="A larger request is refused with 413, mode: http"
    )

    @field_validator("api_base_url")
    @classmethod
    def _is_safe_base_url(cls, value: str) -> str:
        url = urlsplit(value)
        if url.scheme not in {"http", "https"} or not url.hostname:
            raise ValueError("is not an http(s) URL; leave it out for https://slack.com/api/")
        if url.scheme == "http" and url.hostname not in LOOPBACK_HOSTS:
            raise ValueError("would send the token in clear text; use https://")
        return value if value.endswith("/") else value + "/"

    @field_validator("path")
    @classmethod
    def _is_absolute_path(cls, value: str) -> str:
        if not value.startswith("/"):
            raise ValueError("must begin with /, for example /slack/events")
        return value

    @field_validator("bot_token", "app_token", "signing_secret")
    @classmethod
    def _is_not_blank(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().strip():
            raise ValueError("is empty; set the variable or file that it is read from")
        return value

    @field_validator("bot_token")
    @classmethod
    def _is_bot_token(cls, value: SecretStr) -> SecretStr:
        if value.get_secret_value().startswith(("xapp-", "xoxp-")):
            raise ValueError("is an app-level or user token; set the bot token, xoxb-…")
        return value

    @field_validator("app_token")
    @classmethod
    def _is_app_token(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and value.get_secret_value().startswith("xox"):
            raise ValueError("is a bot or user token; set the app-level token, xapp-…")
        return value

    @model_validator(mode="after")
    def _has_what_its_mode_needs(self) -> SlackConfig:
        if self.mode == "socket" and self.app_token is None:
            raise ValueError(
                "app_token: missing; mode: socket needs an app-level token (xapp-…) with the scope "
                "connections:write, or set mode: http and signing_secret"
            )
        if self.mode == "http" and self.signing_secret is None:
            raise ValueError(
                "signing_secret: missing; mode: http needs it to verify requests "
                "(Basic Information > App Credentials)"
            )
        return self

    @property
    def is_loopback(self) -> bool:
        """Whether the Web API is on this machine, where no proxy must be used."""
        return urlsplit(self.api_base_url).hostname in LOOPBACK_HOSTS
