"""What a caller of the API is told when a request cannot be served: a code, and what to do.

The body of every error is `{"error": CODE, "message": TEXT}`, and `error_id` where the log knows
more. Nothing of an exception's own text leaves the process.
"""

from __future__ import annotations

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from clawbot.errors import InvalidSessionKey, StoreUnavailable, new_error_id

log = structlog.get_logger(__name__)


class Problem(Exception):
    """A request that is refused, with the HTTP status, a code for programs and a text for people.

    `headers` are added to the answer.
    """

    def __init__(
        self, status: int, code: str, message: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers


_BY_STATUS = {
    404: ("not_found", "There is nothing at this address."),
    405: ("bad_method", "This address does not take requests of this method."),
    413: ("too_large", "The request is too large."),
}


@web.middleware
async def problems_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every failure as JSON; the outermost boundary of a request."""
    try:
        return await handler(request)
    except Problem as problem:
        return _answer(problem.status, problem.code, problem.message, headers=problem.headers)
    except InvalidSessionKey as error:
        return _answer(400, "bad_session", str(error))
    except web.HTTPException as error:
        if error.status < 400:
            raise
        code, message = _BY_STATUS.get(error.status, ("bad_request", "The request is malformed."))
        allowed = error.headers.get("Allow")
        return _answer(error.status, code, message, headers={"Allow": allowed} if allowed else None)
    except StoreUnavailable as error:
        error_id = new_error_id()
        log.warning("page_without_store", error_id=error_id, error=str(error))
        message = f"Nothing was stored. Please send it again in a moment. (error {error_id})"
        return _answer(503, "store_unavailable", message, error_id)
    except ConnectionResetError:
        raise
    except Exception:
        error_id = new_error_id()
        log.exception("page_request_crashed", error_id=error_id, path=request.path)
        message = (
            "Something went wrong on my side. Please try again; if it stays so, tell an admin the "
            f"error id. (error {error_id})"
        )
        return _answer(500, "crashed", message, error_id)


def _answer(
    status: int,
    code: str,
    message: str,
    error_id: str | None = None,
    headers: dict[str, str] | None = None,
) -> web.Response:
    body = {"error": code, "message": message}
    if error_id is not None:
        body["error_id"] = error_id
    return web.json_response(body, status=status, headers=headers)
