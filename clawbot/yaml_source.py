"""A YAML file as plain data that remembers the line of every key.

It reads one document, replaces `${NAME}` in text and reports what is wrong with the file itself
(syntax, duplicate keys, unset variables). It knows nothing of what the keys mean.

Only plain YAML is taken: mappings with text keys, lists, text, numbers, booleans, null, anchors and
aliases. Merge keys (`<<`) and tags are refused, so that what stands in the file is what counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

KeyPath = tuple[str | int, ...]
"""Where a value stands: the keys and list positions that lead to it."""

_TAG = "tag:yaml.org,2002:"
_CONVERTED_TAGS = {_TAG + name for name in ("null", "bool", "int", "float")}
_TEXT_TAGS = {_TAG + name for name in ("str", "timestamp", "value")}
# `$${` is how a text says `${` itself; the default after `:-` ends at the first brace.
_VARIABLE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_BROKEN_VARIABLE = re.compile(r"(?<!\$)\$\{(?![A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong, at one place of the file. Its text never holds a value."""

    path: KeyPath
    text: str
    line: int | None = None

    def __str__(self) -> str:
        where = ".".join(str(part) for part in self.path)
        place = f" {where}" if where else ""
        line = f" (line {self.line})" if self.line else ""
        return f"config{place}{line}: {self.text}"


@dataclass(slots=True, kw_only=True)
class Document:
    """What a file holds, with the lines, and the problems found so far (one for each place)."""

    data: dict[str, object] = field(default_factory=dict)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: dict[KeyPath, Problem] = field(default_factory=dict)
    silenced: set[KeyPath] = field(default_factory=set)

    def report(self, path: KeyPath, text: str, *, line: int | None = None) -> None:
        """Note a problem; the first one at a place stands, what follows from it is left out."""
        if path not in self.problems and path not in self.silenced:
            self.problems[path] = Problem(path=path, text=text, line=line or self.line_of(path))

    def silence(self, path: KeyPath) -> None:
        """Take no report about `path`: what is wrong with it was reported elsewhere."""
        self.silenced.add(path)

    def line_of(self, path: KeyPath) -> int | None:
        """The line of the value at `path`, or of the closest mapping or list around it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None

    def sorted_problems(self) -> list[Problem]:
        """All problems in the order of the file."""
        return sorted(self.problems.values(), key=lambda problem: problem.line or 0)


def read_document(text: str, environ: Mapping[str, str]) -> Document:
    """Parse `text`; whatever is wrong stands in the document's problems, nothing is raised."""
    document = Document()
    yaml = YAML(typ="safe", pure=True)
    try:
        root = yaml.compose(text)
        if root is None:
            document.report((), "the file is empty; begin with config/clawbot.example.yaml")
        elif not isinstance(root, MappingNode):
            document.report((), "want a mapping of keys at the top", line=_line(root))
        else:
            data = _Converter(document, yaml, environ).convert(root, ())
            document.data = data if isinstance(data, dict) else {}
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else None
        hint = _hint(text.splitlines()[line - 1 : line]) if line else ""
        document.report((), f"not valid YAML: {_without_values(error)}{hint}", line=line)
    except YAMLError as error:
        # Characters that YAML does not allow; the error's own text quotes the file.
        document.report((), f"not valid YAML: {type(error).__name__}")
    except RecursionError:
        document.report((), "nested too deeply")
    return document


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _hint(lines: Sequence[str]) -> str:
    """What to do about a bare variable within braces, which YAML reads as more braces."""
    has_bare_variable = any(re.search(r"[{\[,].*\$\{", line) for line in lines)
    return '; write {key: "${NAME}"} with quotes, within braces' if has_bare_variable else ""


def _without_values(error: MarkedYAMLError) -> str:
    """The parser's complaint; quoted pieces of the file may be secrets, so only short ones stay."""
    return re.sub(r"(['\"]).{4,}?\1", "'…'", (error.problem or error.context or "").splitlines()[0])


class _Converter:
    """Turns nodes into plain data; open_nodes finds an alias that contains itself."""

    def __init__(self, document: Document, yaml: YAML, environ: Mapping[str, str]) -> None:
        self._document = document
        self._constructor = yaml.constructor
        self._environ = environ
        self._open_nodes: list[Node] = []

    def convert(self, node: Node, path: KeyPath) -> object:
        """The data of `node`; None where a problem was reported."""
        if path:
            self._document.lines.setdefault(path, _line(node))
        if any(node is open_node for open_node in self._open_nodes):
            self._document.report(path, "an alias that contains itself")
            return None
        self._open_nodes.append(node)
        try:
            if isinstance(node, MappingNode):
                return self._mapping(node, path)
            if isinstance(node, SequenceNode):
                return [self.convert(item, (*path, i)) for i, item in enumerate(node.value)]
            return self._scalar(node, path)
        finally:
            self._open_nodes.pop()

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, object]:
        data: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = _line(key_node)
            if str(key_node.tag) == _TAG + "merge":
                self._document.report(
                    (*path, "<<"), "merge keys are not supported; write the keys out", line=line
                )
                continue
            if not isinstance(key_node, ScalarNode):
                self._document.report(path, "a key must be text", line=line)
                continue
            # A key is taken as written: an id such as 007 or `no` is text here.
            key = str(key_node.value)
            if key in data:
                first = self._document.lines[(*path, key)]
                self._document.report(
                    (*path, key),
                    f"the key stands twice, first on line {first}; remove one",
                    line=line,
                )
                continue
            self._document.lines[(*path, key)] = line
            data[key] = self.convert(value_node, (*path, key))
        return data

    def _scalar(self, node: Node, path: KeyPath) -> object:
        tag = str(node.tag)
        if tag in _CONVERTED_TAGS:
            try:
                return self._constructor.construct_object(node)
            except (ValueError, KeyError, YAMLError):
                self._document.report(path, f"not a valid {tag.removeprefix(_TAG)}")
                return None
        if tag not in _TEXT_TAGS:
            self._document.report(path, "tags (!…) are not supported")
            return None
        return self._with_variables(str(node.value), path)

    def _with_variables(self, text: str, path: KeyPath) -> str:
        """Put variables in. One that is unset or empty is a problem unless a default follows."""
        unset: list[str] = []

        def value(match: re.Match[str]) -> str:
            name, default = match[1], match[2]
            if name is None:
                return "${"
            found = self._environ.get(name)
            if not found and default is None:
                unset.append(name)
                return match[0]
            return found or default

        if _BROKEN_VARIABLE.search(text):
            self._document.report(path, "want ${NAME} or ${NAME:-default}; $${ means ${ itself")
        replaced = _VARIABLE.sub(value, text)
        try:
            replaced.encode("utf-8")
        except UnicodeEncodeError:
            self._document.report(path, "not valid Unicode text")
        if unset:
            self._document.report(path, f"missing; set {' and '.join(dict.fromkeys(unset))}")
        return replaced
