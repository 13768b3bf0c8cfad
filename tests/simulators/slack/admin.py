"""The admin door: the simulator's doors over HTTP, so that another process can drive it.

`POST /sim/<door>` takes a JSON object of arguments and answers `{"ok": true, "result": ...}`, or
400 with `{"ok": false, "error": ...}`. Users and channels go by id or name.

    user {name}  channel {name, members?, private?, with_bot?}  dm {user, assistant?}  mpim {users}
    say {channel, user, text, thread_ts?, mention?, order?, broadcast?, me?}
    bot {channel, text, thread_ts?, classic?}  edit {channel, ts, text}  delete {channel, ts}
    slash {channel, user, command, text?}  press {channel, ts, user, action_id}
    invite {channel, user}  kick {channel, user}
    event {event}  send_payload {payload, kind?}  send_raw_frame {frame}
    sent {channel?, thread_ts?}  wait_sent {count?, channel?, thread_ts?, timeout_s?}
    wait_text {text, channel?, timeout_s?}  wait_connected {count?, timeout_s?}
    wait_settled {timeout_s?}  ephemerals {channel?}  transcript {channel}
    calls {method?}  deliveries {ts?}
    fail_next {method, how, times?}  limit_rate {method, interval_s, burst?}  clear_faults {method?}
    redeliver {what, new_event_id?}  hold_events {}  release_events {order?}
    disconnect {reason?, close?}  drop_connection {}  use_http {events_url}  use_socket_mode {}
    revoke_token {kind?, error?, announce?}  expire_token {kind?}  restore_token {kind?}
    expire_streams {}

`GET /sim` tells URLs, tokens and ids. Not part of Slack; only served on loopback when asked for.
"""

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from .feed import Delivery
from .record import SentMessage
from .simulator import SlackSimulator
from .web_api import Call
from .workspace import Json


def facts(simulator: SlackSimulator) -> Json:
    """What a program needs to connect: URLs, tokens, ids."""
    return {
        "api_base_url": simulator.api_url,
        "admin_url": f"{simulator.base_url}/sim",
        "app_token": simulator.app_token,
        "bot_token": simulator.bot_token,
        "signing_secret": simulator.signing_secret,
        "team_id": simulator.workspace.team_id,
        "app_id": simulator.workspace.app_id,
        "bot_user_id": simulator.bot.id,
        "bot_id": simulator.bot.bot_id,
    }


def doors(simulator: SlackSimulator) -> Mapping[str, Callable[..., Any]]:
    """The doors that may be opened by name."""
    same_name = (
        "sent wait_sent wait_text wait_connected wait_settled ephemerals transcript calls"
        " deliveries fail_next limit_rate clear_faults redeliver hold_events release_events"
        " disconnect drop_connection use_socket_mode revoke_token expire_token restore_token"
        " expire_streams invite kick send_payload send_raw_frame"
    )
    return {
        **{name: getattr(simulator, name) for name in same_name.split()},
        "user": simulator.create_user,
        "channel": simulator.create_channel,
        "dm": simulator.create_dm,
        "mpim": simulator.create_mpim,
        "say": simulator.user_says,
        "bot": simulator.bot_says,
        "edit": simulator.edit_message,
        "delete": simulator.delete_message,
        "slash": simulator.slash_command,
        "press": simulator.press_button,
        "event": simulator.send_event,
        "use_http": simulator.use_http,
    }


def add_admin_door(simulator: SlackSimulator) -> None:
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
            return dataclasses.asdict(result) | {"shown": result.shown}
        case Delivery():
            told = "kind payload state attempts reasons ack_payload"
            return {name: getattr(result, name) for name in told.split()}
        case Call():
            told = "method arguments processed answer"
            return {name: getattr(result, name) for name in told.split()}
        case dict() | str() | int() | float() | None:
            return result
        case _:
            return None
