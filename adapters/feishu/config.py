"""The Feishu keys of a channel's section in the YAML. Importable without Feishu's SDK."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
_DOMAINS = {"feishu": "https://open.feishu.cn", "lark": "https://open.larksuite.com"}


class FeishuConfig(BaseModel):
    """How one Feishu or Lark app is reached. Secrets arrive resolved."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Literal["long_connection", "webhook"] = Field(
        default="long_connection",
        description="long_connection: we connect, no public address needed; webhook: Feishu calls",
    )
    domain: str = Field(
        default="feishu",
        description="feishu, lark, or the address of a proxy or test server",
    )
    app_id: str = Field(min_length=1, description="App ID, cli_…, of Credentials & Basic Info")
    app_secret: SecretStr = Field(description="App Secret of Credentials & Basic Info")
    encrypt_key: SecretStr | None = Field(
        default=None, description="Encrypt Key of Events & Callbacks; requests are signed with it"
    )
    verification_token: SecretStr | None = Field(
        default=None, description="Verification Token of Events & Callbacks"
    )
    answer_all: bool = Field(
        default=False, description="Whether a message to everyone (@all) counts as one to the bot"
    )
    quote_in_groups: bool = Field(
        default=True, description="Whether an answer in a group quotes the message it answers"
    )
    answer_format: Literal["auto", "card", "post", "text"] = Field(
        default="auto",
        description="What an answer that is complete at once is sent as; auto: by what is in it",
    )
    streaming: Literal["card_kit", "card", "edits"] = Field(
        default="card_kit",
        description="How an answer grows; each falls back to the next where Feishu refuses it",
    )
    typing_reaction: str = Field(
        default="Typing",
        description="The reaction on a message that is being answered; empty: none",
    )
    menu: dict[str, str] = Field(
        default={"help": "/help", "new": "/new", "status": "/status", "stop": "/stop"},
        description="What an entry of the bot's menu says in the direct chat, by its event_key",
    )
    listen_host: str = Field(default="127.0.0.1", description="Address to listen on, mode: webhook")
    listen_port: int = Field(
        default=3001, ge=0, le=65535, description="Port to listen on, mode: webhook; 0 = any"
    )
    path: str = Field(
        default="/feishu/events",
        description="Path of the request URL for events and callbacks, mode: webhook",
    )
    max_body_bytes: int = Field(
        default=4_194_304, ge=4096, description="A larger request is refused with 413"
    )
    max_request_age_s: float = Field(
        default=300.0, gt=0, description="A signed request older or newer than this is refused"
    )

    @field_validator("domain")
    @classmethod
    def _is_safe_domain(cls, value: str) -> str:
        address = _DOMAINS.get(value, value)
        url = urlsplit(address)
        if url.scheme not in {"http", "https"} or not url.hostname or url.path.strip("/"):
            raise ValueError("want feishu, lark, or an address such as https://open.feishu.cn")
        if url.scheme == "http" and url.hostname not in LOOPBACK_HOSTS:
            raise ValueError("would send the secret in clear text; use https://")
        return value.rstrip("/")

    @field_validator("path")
    @classmethod
    def _is_absolute_path(cls, value: str) -> str:
        if not value.startswith("/"):
            raise ValueError("must begin with /, for example /feishu/events")
        return value

    @field_validator("app_secret")
    @classmethod
    def _is_not_blank(cls, value: SecretStr) -> SecretStr:
        if not value.get_secret_value().strip():
            raise ValueError("is empty; set the variable or file that it is read from")
        return value

    @field_validator("encrypt_key", "verification_token")
    @classmethod
    def _blank_is_none(cls, value: SecretStr | None) -> SecretStr | None:
        return value if value is not None and value.get_secret_value().strip() else None

    @model_validator(mode="after")
    def _can_verify_requests(self) -> FeishuConfig:
        if self.mode == "webhook" and self.encrypt_key is None and self.verification_token is None:
            raise ValueError(
                "encrypt_key: missing; mode: webhook needs it (or at least verification_token) to "
                "tell Feishu's requests from forged ones (Events & Callbacks > Encryption Strategy)"
            )
        return self

    @property
    def base_url(self) -> str:
        """The Open API's address, without a final slash."""
        return _DOMAINS.get(self.domain, self.domain)

    @property
    def is_loopback(self) -> bool:
        """Whether the Open API is on this machine, where no proxy must be used."""
        return urlsplit(self.base_url).hostname in LOOPBACK_HOSTS
