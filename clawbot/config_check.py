"""Checks YAML data against pydantic models and says in an admin's words what is wrong.

It finds all problems at once, with the line of each, and never repeats a value: it may be a secret.
What the sections mean stands in `clawbot.config`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from clawbot.yaml_source import Document, KeyPath

FILE_SUFFIX = "_file"
"""`api_key_file: PATH` names the file that holds `api_key`; so for every secret key."""

ModelT = TypeVar("ModelT", bound=BaseModel)

_WANTED = {
    "string_type": "want text; put a number or yes/no in quotes",
    "int_type": "want a whole number",
    "int_from_float": "want a whole number",
    "float_type": "want a number",
    "bool_type": "want true or false",
    "tuple_type": "want a list, such as [a, b]",
    "list_type": "want a list, such as [a, b]",
    "model_type": "want a section with keys of its own",
    "dict_type": "want a section with keys of its own",
    "finite_number": "want a finite number",
}


class ConfigChecker:
    """Validates sections of one document; paths in it are relative to `folder`."""

    def __init__(self, document: Document, folder: Path) -> None:
        self._document = document
        self._folder = folder

    def report_unknown_key(self, path: KeyPath, known: Collection[str]) -> None:
        """Report the last key of `path`, and which of `known` was perhaps meant."""
        close = difflib.get_close_matches(str(path[-1]), known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(sorted(known))}"
        self._document.report(path, f"unknown key; {hint}")

    def check(self, model: type[ModelT], data: dict[str, object], path: KeyPath) -> ModelT | None:
        """Make a `model` of the section at `path`; None when problems were reported."""
        prepared = self._prepare(model, data, path)
        try:
            # As JSON, strict types mean what a file can say: a list for a tuple, text for a path.
            return model.model_validate_json(
                json.dumps(prepared), strict=True, context={"folder": self._folder}
            )
        except ValidationError as error:
            for details in error.errors(include_url=False, include_input=False):
                self._report(details, model, path)
            return None

    def _prepare(
        self, model: type[BaseModel], data: dict[str, object], path: KeyPath
    ) -> dict[str, object]:
        """The section without unknown keys, with the secrets from their files."""
        known = set(model.model_fields) | secret_file_keys(model)
        prepared: dict[str, object] = {}
        for key, value in data.items():
            here = (*path, key)
            if key not in known:
                self.report_unknown_key(here, known)
            elif key in model.model_fields:
                if not (value == "" and _is_optional_secret(model, key)):
                    prepared[key] = self._prepare_value(model, key, value, here)
            elif (name := key.removesuffix(FILE_SUFFIX)) in data:
                self._document.report(here, f"{name} is set too; keep one of them")
            elif (secret := self._read_secret(value, here)) is not None:
                prepared[name] = secret
            else:
                self._document.silence((*path, name))
        return prepared

    def _prepare_value(
        self, model: type[BaseModel], key: str, value: object, path: KeyPath
    ) -> object:
        nested = nested_section(model, key)
        if nested is None or not isinstance(value, dict):
            return value
        section, is_map = nested
        if not is_map:
            return self._prepare(section, value, path)
        return {
            name: self._prepare(section, entry, (*path, name)) if isinstance(entry, dict) else entry
            for name, entry in value.items()
        }

    def _read_secret(self, value: object, path: KeyPath) -> str | None:
        if not isinstance(value, str) or not value:
            self._document.report(path, "want the path of a file that holds the secret")
            return None
        if path in self._document.problems:
            return None
        file = self._folder / Path(value).expanduser()
        try:
            secret = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            self._document.report(path, f"cannot read the secret from {file}: {reason}")
            return None
        if not secret:
            self._document.report(path, f"{file} is empty; write the secret into it")
            return None
        return secret

    def _report(self, details: ErrorDetails, model: type[BaseModel], path: KeyPath) -> None:
        where = (*path, *details["loc"])
        kind, context = details["type"], details.get("ctx", {})
        if kind == "missing":
            self._document.report(where, self._missing(model, where, details["loc"]))
        elif kind == "literal_error":
            self._document.report(where, f"want {context['expected']}")
        elif kind == "value_error":
            self._document.report(where, str(context["error"]))
        elif kind in _WANTED:
            self._document.report(where, _WANTED[kind])
        else:
            self._document.report(where, details["msg"].replace("Input should be", "want"))

    def _missing(self, model: type[BaseModel], where: KeyPath, loc: KeyPath) -> str:
        key = str(loc[-1])
        owner = _model_at(model, loc[:-1])
        if owner is not None and key + FILE_SUFFIX in secret_file_keys(owner):
            parent = str(where[-2]) if len(where) > 1 else "clawbot"
            name = f"{parent}_{key}".upper().replace("-", "_")
            return f"missing; write {key}: ${{{name}}} and set {name}, or write {key}{FILE_SUFFIX}"
        return "missing; add the key"


def secret_file_keys(model: type[BaseModel]) -> set[str]:
    """The `…_file` keys that a section takes beside its own."""
    return {
        name + FILE_SUFFIX
        for name, info in model.model_fields.items()
        if SecretStr in _alternatives(info.annotation)
    }


def secrets_of(value: object) -> Iterator[SecretStr]:
    """Every secret in a model, however deep."""
    if isinstance(value, SecretStr):
        yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from secrets_of(getattr(value, name))
    elif isinstance(value, dict):
        for entry in value.values():
            yield from secrets_of(entry)


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, else the annotation itself; metadata is taken off."""
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        return tuple(one for arg in get_args(annotation) for one in _alternatives(arg))
    return (annotation,)


def _is_optional_secret(model: type[BaseModel], key: str) -> bool:
    kinds = _alternatives(model.model_fields[key].annotation)
    return SecretStr in kinds and type(None) in kinds


def nested_section(model: type[BaseModel], key: str) -> tuple[type[BaseModel], bool] | None:
    """The section behind a key, and whether the key holds a map of such sections."""
    for kind in _alternatives(model.model_fields[key].annotation):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind, False
        if get_origin(kind) is dict:
            entry = get_args(kind)[1]
            if isinstance(entry, type) and issubclass(entry, BaseModel):
                return entry, True
    return None


def _model_at(model: type[BaseModel], loc: KeyPath) -> type[BaseModel] | None:
    """The model of the section that `loc` leads to."""
    steps = iter(loc)
    for key in steps:
        nested = nested_section(model, str(key)) if key in model.model_fields else None
        if nested is None:
            return None
        model, is_map = nested
        if is_map:
            next(steps, None)
    return model
