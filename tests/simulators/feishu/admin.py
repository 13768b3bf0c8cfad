"""The admin door: the simulator's doors over HTTP, so that another process can drive it.

`POST /sim/<door>` takes a JSON object of arguments and answers `{"ok": true, "result": ...}`, or
400 with `{"ok": false, "error": ...}`. Users and chats go by id or name.

    user {name, open_id?}  bot {name}  dm {user}
    group {name, members?, topics?, topic_format?, declared_type?, with_bot?}
    say {chat, user, text, mention?, mentions?, mention_all?, quote?, thread?}
    send {chat, user, kind, content, quote?, thread?}  forward {chat, user, message_ids}
    recall {message_id}  react {message_id, user, emoji?}  press {message_id, user, button}
    open_chat {user}  choose_in_menu {user, event_key}
    add_bot {chat}  remove_bot {chat}  event {event_type, event}  send_payload {payload}
    sent {chat?, thread_id?}  wait_sent {count?, chat?, thread_id?, timeout_s?}
    wait_text {text, chat?, timeout_s?}  wait_connected {count?, timeout_s?}
    wait_settled {timeout_s?}  calls {api?}  deliveries {message_id?}  reactions {message_id}
    fail_next {api, how, times?}  limit_rate {api, calls, seconds?, per_chat?}  clear_faults {api?}
    redeliver {what, new_event_id?, new_message_id?}  hold_events {}  release_events {order?}
    drop_connection {}  close_connections {code?}
    refuse_handshake {status, message?, detail?, times?}
    fragment {size, order?}  expire_token {}  change_secret {secret}  take_scope {scope}
    close_streams {}  use_webhook {url}  use_long_connection {}

`GET /sim` tells addresses, secrets and ids. Not part of Feishu; only served when asked for.
"""

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from .feed import Delivery
from .open_api import Call
from .record import SentMessage
from .simulator import FeishuSimulator
from .tenant import Json

_SAME_NAME = (
    "sent wait_sent wait_text wait_connected wait_settled calls deliveries reactions fail_next"
    " limit_rate clear_faults redeliver hold_events release_events drop_connection"
    " close_connections refuse_handshake fragment expire_token change_secret take_scope"
    " close_streams use_webhook use_long_connection forward recall react add_bot remove_bot"
    " open_chat choose_in_menu"
    " send_payload"
)


def facts(simulator: FeishuSimulator) -> Json:
    """What a program needs to connect: addresses, secrets, ids."""
    return {
        "domain": simulator.base_url,
        "admin_url": f"{simulator.base_url}/sim",
        "app_id": simulator.app_id,
        "app_secret": simulator.app_secret,
        "encrypt_key": simulator.encrypt_key,
        "verification_token": simulator.verification_token,
        "bot_open_id": simulator.bot.open_id,
    }


def doors(simulator: FeishuSimulator) -> Mapping[str, Callable[..., Any]]:
    """The doors that may be opened by name."""
    return {
        **{name: getattr(simulator, name) for name in _SAME_NAME.split()},
        "user": simulator.create_user,
        "bot": simulator.create_bot,
        "group": simulator.create_group,
        "dm": simulator.create_dm,
        "say": simulator.user_says,
        "send": simulator.user_sends,
        "press": simulator.press_button,
        "event": simulator.send_event,
    }


def add_admin_door(simulator: FeishuSimulator) -> None:
    """Serve the admin door; call before `start`."""

    async def tell(_request: web.Request) -> web.Response:
        return web.json_response(facts(simulator))

    async def open_door(request: web.Request) -> web.Response:
        door = doors(simulator).get(request.match_info["door"])
        if door is None:
            return _refused(f"no such door; there are {', '.join(sorted(doors(simulator)))}", 404)
        try:
            arguments = json.loads(await request.text() or "{}")
            result = door(**arguments)
            if inspect.isawaitable(result):
                result = await result
        except (LookupError, TypeError, ValueError, TimeoutError) as error:
            return _refused(f"{type(error).__name__}: {error}", 400)
        return web.json_response({"ok": True, "result": _plain(result)})

    def add(router: web.UrlDispatcher) -> None:
        router.add_get("/sim", tell)
        router.add_post("/sim/{door}", open_door)

    simulator.extra_routes.append(add)


def _refused(error: str, status: int) -> web.Response:
    return web.json_response({"ok": False, "error": error}, status=status)


def _plain(result: object) -> object:
    match result:
        case list():
            return [_plain(each) for each in result]
        case SentMessage():
            return {**dataclasses.asdict(result), "data": len(result.data)}
        case Delivery():
            return {
                name: getattr(result, name)
                for name in ("event_type", "payload", "state", "attempts", "reasons", "answer")
            }
        case Call():
            return {name: getattr(result, name) for name in ("api", "body", "processed", "answer")}
        case dict() | str() | int() | float() | None:
            return result
        case _:
            return None
