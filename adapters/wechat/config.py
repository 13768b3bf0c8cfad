"""The WeChat keys of a channel's section in the YAML. Importable without wechatpy."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})

_AES_KEY = re.compile(r"[A-Za-z0-9]{43}")


def check_base_url(value: str) -> str:
    """An API's address with its final slash; clear text only on this machine."""
    url = urlsplit(value)
    if url.scheme not in {"http", "https"} or not url.hostname:
        raise ValueError("is not an http(s) URL; leave it out for the platform's own")
    if url.scheme == "http" and url.hostname not in LOOPBACK_HOSTS:
        raise ValueError("would send secrets in clear text; use https://")
    return value if value.endswith("/") else value + "/"


def check_path(value: str) -> str:
    """The path of a callback URL."""
    if not value.startswith("/"):
        raise ValueError("must begin with /, for example /wechat")
    return value


def check_secret(value: SecretStr | None) -> SecretStr | None:
    """A secret that is there must hold something."""
    if value is not None and not value.get_secret_value().strip():
        raise ValueError("is empty; set the variable or file that it is read from")
    return value


def check_aes_key(value: SecretStr | None) -> SecretStr | None:
    """An EncodingAESKey."""
    if value is not None and not _AES_KEY.fullmatch(value.get_secret_value()):
        raise ValueError("is no EncodingAESKey: it has 43 letters and digits; copy it again")
    return value


class WechatConfig(BaseModel):
    """How one Official Account is reached. Secrets arrive resolved."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    app_id: str = Field(min_length=1, description="AppID of the account, wx…")
    token: SecretStr = Field(description="Token of the server configuration; signs all requests")
    encoding_aes_key: SecretStr | None = Field(
        default=None,
        description="EncodingAESKey; needed in safe mode, and then plain requests are refused",
    )
    customer_service: bool = Field(
        default=False,
        description="Whether the account may send customer-service messages (verified accounts)",
    )
    app_secret: SecretStr | None = Field(
        default=None, description="AppSecret; needed by customer_service"
    )
    welcome: str = Field(default="", description="Text for a person who begins to follow")
    menu: dict[str, str] = Field(
        default_factory=dict,
        description="What a click on a menu entry says, by the entry's key; others are ignored",
    )
    hold_s: float = Field(
        default=4.5,
        gt=0,
        lt=5,
        description="How long a request is held for its answer; WeChat gives up after 5 s",
    )
    api_base_url: str = Field(
        default="https://api.weixin.qq.com/", description="Where the API is; for proxies and tests"
    )
    listen_host: str = Field(default="127.0.0.1", description="Address to listen on")
    listen_port: int = Field(default=3002, ge=0, le=65535, description="Port; 0 = any free one")
    path: str = Field(default="/wechat", description="Path of the server configuration's URL")
    max_body_bytes: int = Field(
        default=65_536, ge=4096, description="A larger request is refused with 413"
    )

    _base_url = field_validator("api_base_url")(check_base_url)
    _path = field_validator("path")(check_path)
    _secrets = field_validator("token", "app_secret")(check_secret)
    _aes_key = field_validator("encoding_aes_key")(check_aes_key)

    @model_validator(mode="after")
    def _can_send(self) -> WechatConfig:
        if self.customer_service and self.app_secret is None:
            raise ValueError(
                "app_secret: missing; customer_service: true needs it, or set it to false and "
                "answers travel in WeChat's own requests only"
            )
        return self
