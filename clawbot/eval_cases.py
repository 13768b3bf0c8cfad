"""The cases of `clawbot eval`: directories with a task for the agent, and scripts around it.

    DIR/NAME/case.yaml    the task, and what `CaseFile` has besides
    DIR/NAME/setup.sh     prepares the empty work directory; may be left out
    DIR/NAME/check.sh     says by its exit code whether the task is done

They are read whole and strictly, as the config is. Blocks on the disk.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from clawbot.config import Config
from clawbot.config_check import ConfigChecker
from clawbot.config_sections import ModelName, Seconds, Section, Text
from clawbot.errors import ConfigError
from clawbot.yaml_source import read_document

CASE_FILE, SETUP, CHECK = "case.yaml", "setup.sh", "check.sh"


class CaseFile(Section):
    """The keys of a case."""

    task: Text
    """What the agent is told."""
    timeout_s: Seconds = 600
    """How long it may take."""
    script_timeout_s: Seconds = 120
    """How long each of the scripts may take."""
    model: ModelName | None = None
    """The model that does it; left out, that of the config."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A case. folder: where its scripts and what they need are; its name is the case's."""

    folder: Path
    file: CaseFile

    @property
    def name(self) -> str:
        """What it is called."""
        return self.folder.name

    @property
    def setup(self) -> Path | None:
        """The script that prepares the work directory."""
        path = self.folder / SETUP
        return path if path.is_file() else None

    @property
    def check(self) -> Path:
        """The script that decides."""
        return self.folder / CHECK


def load_cases(folder: Path, config: Config, names: Collection[str] = ()) -> list[Case]:
    """The cases below a directory, or those of these names; or the one that it is itself.

    Raise ConfigError with every problem of all of them.
    """
    if (folder / CASE_FILE).is_file():
        folders = [folder]
    elif folder.is_dir():
        folders = sorted(one.parent for one in folder.glob(f"*/{CASE_FILE}"))
    else:
        raise ConfigError(f"{folder}: no such directory")
    known = {one.name for one in folders}
    problems = [
        f"case {name}: there is none; cases here: {', '.join(sorted(known)) or 'none'}"
        for name in sorted(set(names) - known)
    ]
    if not folders:
        problems.append(f"{folder}: no cases; a case is a directory with {CASE_FILE} and {CHECK}")
    cases = []
    for one in folders:
        if not names or one.name in names:
            case = _load(one.resolve(), config, problems)
            cases += [case] if case is not None else []
    if problems:
        raise ConfigError(problems)
    return cases


def _load(folder: Path, config: Config, problems: list[str]) -> Case | None:
    path = folder / CASE_FILE
    where = f"{folder.name}/{CASE_FILE}"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{where}: cannot be read: {error}")
        return None
    # Not this process's environment: `${NAME}` in a task is not meant for us.
    document = read_document(text.replace("${", "$${"), {})
    made = None
    if not document.problems:
        made = ConfigChecker(document, folder).check(CaseFile, document.data, ())
    problems += [
        f"{where}: {str(problem).removeprefix('config').lstrip(': ')}"
        for problem in document.sorted_problems()
    ]
    if not (folder / CHECK).is_file():
        problems.append(f"{folder.name}/{CHECK}: missing; it exits with 0 where the task is done")
    if made is None:
        return None
    if made.model is not None and (wrong := config.model_problem(made.model, ("model",))):
        problems.append(f"{where}: model {made.model}: {wrong[1]}")
    return Case(folder=folder, file=made)
