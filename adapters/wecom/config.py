"""The WeCom keys of a channel's section in the YAML. Importable without wechatpy."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from adapters.wechat.config import (
    LOOPBACK_HOSTS,
    check_aes_key,
    check_base_url,
    check_path,
    check_secret,
)


class WecomConfig(BaseModel):
    """How one WeCom app is reached. Secrets arrive resolved."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    corp_id: str = Field(min_length=1, description="Id of the company, ww…")
    agent_id: int = Field(ge=0, description="AgentId of the app")
    secret: SecretStr = Field(description="Secret of the app")
    token: SecretStr = Field(description="Token of the app's API reception; signs all requests")
    encoding_aes_key: SecretStr = Field(description="EncodingAESKey of the app's API reception")
    receive_ids: tuple[str, ...] = Field(
        default=(), description="Further ids inside the ciphertext, such as a suite's id"
    )
    format: Literal["markdown", "text"] = Field(
        default="markdown",
        description="text also shows in WeChat itself, where members may use WeCom's messages",
    )
    welcome: str = Field(default="", description="Text for a person who opens the app")
    menu: dict[str, str] = Field(
        default_factory=dict,
        description="What a click on a menu entry says, by the entry's key; others are ignored",
    )
    api_base_url: str = Field(
        default="https://qyapi.weixin.qq.com/", description="Where the API is; for proxies, tests"
    )
    listen_host: str = Field(default="127.0.0.1", description="Address to listen on")
    listen_port: int = Field(default=3003, ge=0, le=65535, description="Port; 0 = any free one")
    path: str = Field(default="/wecom", description="Path of the callback URL")
    max_body_bytes: int = Field(
        default=65_536, ge=4096, description="A larger request is refused with 413"
    )

    _base_url = field_validator("api_base_url")(check_base_url)
    _path = field_validator("path")(check_path)
    _secrets = field_validator("secret", "token")(check_secret)
    _aes_key = field_validator("encoding_aes_key")(check_aes_key)


class WecomBotConfig(BaseModel):
    """How one WeCom AI bot is reached. Secrets arrive resolved."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Literal["socket", "webhook"] = Field(
        default="socket",
        description="socket: we connect to WeCom (no public address needed); webhook: WeCom calls",
    )
    bot_id: str = Field(default="", description="Id of the bot, aib…; needed by mode: socket")
    secret: SecretStr | None = Field(
        default=None, description="Secret of the long connection; needed by mode: socket"
    )
    bot_name: str = Field(
        default="", description="Name of the bot, to take its mention out of what people write"
    )
    token: SecretStr | None = Field(default=None, description="Token; needed by mode: webhook")
    encoding_aes_key: SecretStr | None = Field(
        default=None, description="EncodingAESKey; needed by mode: webhook"
    )
    welcome: str = Field(default="", description="Text for a person who opens the chat that day")
    socket_url: str = Field(
        default="wss://openws.work.weixin.qq.com",
        description="Where the long connection is; for proxies and tests",
    )
    listen_host: str = Field(default="127.0.0.1", description="Address to listen on")
    listen_port: int = Field(default=3004, ge=0, le=65535, description="Port; 0 = any free one")
    path: str = Field(default="/wecom-bot", description="Path of the callback URL")
    max_body_bytes: int = Field(
        default=1_048_576, ge=4096, description="A larger request is refused with 413"
    )

    _path = field_validator("path")(check_path)
    _secrets = field_validator("secret", "token")(check_secret)
    _aes_key = field_validator("encoding_aes_key")(check_aes_key)

    @field_validator("socket_url")
    @classmethod
    def _is_safe_socket(cls, value: str) -> str:
        url = urlsplit(value)
        if url.scheme not in {"ws", "wss"} or not url.hostname:
            raise ValueError("is not a ws(s) URL; leave it out for WeCom's own")
        if url.scheme == "ws" and url.hostname not in LOOPBACK_HOSTS:
            raise ValueError("would send the secret in clear text; use wss://")
        return value

    @model_validator(mode="after")
    def _has_what_its_mode_needs(self) -> WecomBotConfig:
        if self.mode == "socket" and (self.secret is None or not self.bot_id):
            raise ValueError("bot_id, secret: missing; mode: socket needs both")
        if self.mode == "webhook" and (self.token is None or self.encoding_aes_key is None):
            raise ValueError("token, encoding_aes_key: missing; mode: webhook needs both")
        return self
