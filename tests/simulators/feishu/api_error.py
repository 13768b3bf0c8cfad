"""How a method of the Open API refuses."""

MESSAGES = {
    99991661: "Missing access token for authorization.",
    99991663: "Invalid access token for authorization.",
    99991672: "Access denied. One of the following scopes is required.",
    99991400: "request trigger frequency limit",
    230001: "Your request contains an invalid request parameter.",
    230002: "Bot/User can NOT be out of the chat.",
    230011: "The message was withdrawn.",
    230020: "This operation triggers the frequency limit.",
    230025: "The length of the message content reaches its limit.",
    230054: "This operation is not supported for this message type.",
    230072: "The message has reached the number of times it can be edited.",
    230099: "Failed to create card content.",
    300309: "The card streaming mode is closed.",
    300317: "The sequence is smaller than the last one.",
}


class ApiError(Exception):
    """Answered with HTTP 400 and this code."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message or MESSAGES.get(code, "failed"))
        self.code = code
