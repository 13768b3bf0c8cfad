"""edit_file: replaces one passage of a text file, and leaves every other byte as it is."""

from __future__ import annotations

import threading
from typing import ClassVar

from pydantic import BaseModel, Field

from clawbot.errors import ToolError
from clawbot.ports import ToolContext
from clawbot.text import clean
from clawbot.tools import edits
from clawbot.tools.encodings import binary_kind, whole_text
from clawbot.tools.seen_files import seen_of
from clawbot.tools.threads import in_thread
from clawbot.tools.writing import place_of

MAX_BYTES = 20 << 20
_SHOWN_LINES = 20


class EditFileArgs(BaseModel):
    """What `edit_file` takes."""

    path: str = Field(
        description="The file, relative to the work directory.", min_length=1, max_length=4096
    )
    old_text: str = Field(
        description="The passage to replace, as it stands in the file; it must stand there once."
    )
    new_text: str = Field(description="What to put in its place; empty removes it.")
    replace_all: bool = Field(
        default=False, description="Whether to replace every passage that reads so."
    )


class EditFile:
    """The tool."""

    name: ClassVar[str] = "edit_file"
    description: ClassVar[str] = (
        "Replace a passage of a text file. Quote enough of it, in whole lines, to name one place. "
        "Line ends and indentation are taken from the file."
    )
    Args: ClassVar[type[BaseModel]] = EditFileArgs
    writes: ClassVar[bool] = True

    async def run(self, args: EditFileArgs, context: ToolContext) -> str:
        """Edit it in a thread."""
        return await in_thread(lambda abandoned: _edit(args, context, abandoned))


def _edit(args: EditFileArgs, context: ToolContext, abandoned: threading.Event) -> str:
    with place_of(context.work_dirs, args.path, abandoned, makes_dirs=False) as place:
        raw = place.read(MAX_BYTES)
        kind = binary_kind(raw[:8192])
        if kind:
            raise ToolError(f"{args.path}: {kind}; only text can be edited")
        file = whole_text(raw)
        try:
            edited = edits.replace(
                file.text, clean(args.old_text), clean(args.new_text), everywhere=args.replace_all
            )
        except ToolError as error:
            raise ToolError(f"{args.path}: {error}", kind=error.kind) from error
        seen = seen_of(context)
        knew_all = seen.knows(place.sight())
        place.write(file.with_text(edited.text))
        if knew_all:
            seen.note(place.sight())
    lines = ", ".join(map(str, edited.first_lines[:_SHOWN_LINES]))
    more = ", …" if len(edited.first_lines) > _SHOWN_LINES else ""
    places = (
        "line" if len(edited.first_lines) == 1 else f"{len(edited.first_lines):,} places, lines"
    )
    how = f"; old_text was found {edited.how}" if edited.how else ""
    return f"{args.path}: replaced at {places} {lines}{more}{how}"
