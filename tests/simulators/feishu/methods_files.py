"""What the methods do by which an app uploads what it sends: pictures and files."""

from .api_error import ApiError
from .methods import Request
from .tenant import Json, Tenant, Upload

MAX_IMAGE_BYTES = 10 * 1024 * 1024
MAX_FILE_BYTES = 30 * 1024 * 1024
FILE_TYPES = frozenset({"opus", "mp4", "pdf", "doc", "xls", "ppt", "stream"})
_IMAGES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"\0\0\1\0", b"RIFF")


def create_image(tenant: Tenant, request: Request) -> Json:
    """POST images."""
    data = _data(request, "image", MAX_IMAGE_BYTES)
    if request.body.get("image_type") not in {"message", "avatar"}:
        raise ApiError(234001, "Invalid request param.")
    if not data.startswith(_IMAGES):
        raise ApiError(234011, "Can't recognize image format.")
    key = tenant.new_id("img_v3_")
    tenant.uploads[key] = Upload(kind="image", name="", data=data)
    return {"data": {"image_key": key}}


def create_file(tenant: Tenant, request: Request) -> Json:
    """POST files."""
    data = _data(request, "file", MAX_FILE_BYTES)
    kind, name = request.body.get("file_type"), request.body.get("file_name")
    if kind not in FILE_TYPES or not name:
        raise ApiError(234001, "Invalid request param.")
    if kind == "opus" and not data.startswith(b"OggS"):
        raise ApiError(234001, "Invalid request param: no opus.")
    key = tenant.new_id("file_v3_")
    tenant.uploads[key] = Upload(kind=str(kind), name=str(name), data=data)
    return {"data": {"file_key": key}}


def _data(request: Request, field: str, most: int) -> bytes:
    data = request.files.get(field)
    if data is None:
        raise ApiError(234001, "Invalid request param: no file.")
    if not data:
        raise ApiError(234010, "File's size can't be 0.")
    if len(data) > most:
        raise ApiError(234006, "The file size exceed the max value.")
    return data
