"""The configuration: what is accepted, and what is said about everything else."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from clawbot.channels import ChannelType
from clawbot.config import ChannelPolicy, Config, load_config
from clawbot.config_sections import AllowLists
from clawbot.errors import ConfigError

FOLDER = Path(__file__).parents[2] / "config"
SECRET = "xoxb-very-secret"


class PigeonConfig(BaseModel):
    """The keys of a platform that exists in these tests alone."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bot_token: SecretStr
    app_token: SecretStr | None = None
    lofts: tuple[str, ...] = ()
    height: int = Field(default=1, ge=1)


TYPES = {
    "pigeon": ChannelType(
        config=f"{__name__}:PigeonConfig",
        adapter=f"{__name__}:none",
        default_scope="chat",
        case_insensitive_ids=True,
    )
}


class Yaml:
    """Writes and loads one file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "clawbot.yaml"

    def load(self, text: str, environ: Mapping[str, str] | None = None) -> Config:
        self.path.write_text(text, encoding="utf-8")
        return load_config(self.path, environ=environ or {}, channel_types=TYPES)

    def problems(self, text: str, environ: Mapping[str, str] | None = None) -> list[str]:
        with pytest.raises(ConfigError) as raised:
            self.load(text, environ)
        return raised.value.problems


@pytest.fixture
def yaml(tmp_path: Path) -> Yaml:
    return Yaml(tmp_path)


GOOD = "state_dir: state\nmodel: offline\n"
PIGEON = GOOD + "channels:\n  pigeon:\n    bot_token: ${TOKEN}\n"


def test_a_small_file_is_enough_and_denies_everybody(yaml: Yaml, tmp_path: Path) -> None:
    config = yaml.load(PIGEON, {"TOKEN": SECRET})
    assert config.state_dir == tmp_path / "state"
    channel = config.channels["pigeon"]
    assert channel.type == "pigeon"
    assert channel.policy == ChannelPolicy(
        scope="chat", allow=AllowLists(), mention="required", case_insensitive_ids=True
    )
    assert isinstance(channel.adapter_config, PigeonConfig)
    assert channel.adapter_config.bot_token.get_secret_value() == SECRET
    assert not channel.policy.lists(channel.policy.allow.dm, "U1")
    assert config.limits.lease_s == 15
    assert config.turns.per_worker == 500


def test_all_problems_are_named_at_once_with_their_lines(yaml: Yaml) -> None:
    text = """\
state_dir: 5
model: gpt
workrs: 2
turns:
  max_steps: 0
  turn_timeout_s: soon
channels:
  pigeon:
    bot_tokn: x
    mention: sometimes
    height: 1.5
    lofts: a
  nest:
    type: eagle
web:
  port: 70000
  enabled: "yes"
owners: [5]
"""
    assert yaml.problems(text) == [
        "config state_dir (line 1): want text; put a number or yes/no in quotes",
        (
            "config model (line 2): want PROVIDER:NAME, such as anthropic:claude-sonnet-4-5, "
            "or offline"
        ),
        "config workrs (line 3): unknown key; did you mean workers?",
        "config turns.max_steps (line 5): want greater than or equal to 1",
        "config turns.turn_timeout_s (line 6): want a number",
        (
            "config channels.pigeon.bot_token (line 8): missing; "
            "write bot_token: ${PIGEON_BOT_TOKEN} and set PIGEON_BOT_TOKEN, "
            "or write bot_token_file"
        ),
        "config channels.pigeon.bot_tokn (line 9): unknown key; did you mean bot_token?",
        "config channels.pigeon.mention (line 10): want 'required' or 'never'",
        "config channels.pigeon.height (line 11): want a whole number",
        "config channels.pigeon.lofts (line 12): want a list, such as [a, b]",
        "config channels.nest.type (line 14): want one of pigeon",
        "config web.port (line 16): want less than or equal to 65535",
        "config web.enabled (line 17): want true or false",
        "config owners.0 (line 18): want text; put a number or yes/no in quotes",
    ]


def test_a_missing_variable_is_named_once_and_only_by_its_name(yaml: Yaml) -> None:
    expected = ["config channels.pigeon.bot_token (line 5): missing; set TOKEN"]
    assert yaml.problems(PIGEON) == expected
    assert yaml.problems(PIGEON, {"TOKEN": ""}) == expected


def test_variables_have_defaults_and_stand_inside_text(yaml: Yaml) -> None:
    text = GOOD + "instructions: 'a ${A:-x} ${B:-y}${C:-} $${A} ${D}'\n"
    assert yaml.load(text, {"A": "1", "D": "${A}"}).instructions == "a 1 y ${A} ${A}"
    assert yaml.problems(GOOD + "instructions: ${a b}\n") == [
        "config instructions (line 3): want ${NAME} or ${NAME:-default}; $${ means ${ itself"
    ]


def test_a_variable_is_text_and_never_a_number_or_a_key(yaml: Yaml) -> None:
    problems = yaml.problems(GOOD + "workers: ${N}\n${K}: 1\n", {"N": "2", "K": "instructions"})
    assert problems[0] == "config workers (line 3): want a whole number"
    assert problems[1].startswith("config ${K} (line 4): unknown key")


def test_a_secret_comes_from_a_file_beside_the_yaml(yaml: Yaml, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET + "\n")
    text = PIGEON.replace("bot_token: ${TOKEN}", "bot_token_file: token")
    adapter_config = yaml.load(text).channels["pigeon"].adapter_config
    assert isinstance(adapter_config, PigeonConfig)
    assert adapter_config.bot_token.get_secret_value() == SECRET


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("bot_token_file: nowhere", "cannot read the secret from {}/nowhere: No such file"),
        ("bot_token_file: empty", "{}/empty is empty; write the secret into it"),
        ("bot_token_file: 5", "want the path of a file that holds the secret"),
        ("bot_token_file: ${UNSET}", "missing; set UNSET"),
    ],
)
def test_a_secret_file_that_is_not_there_is_one_problem(
    yaml: Yaml, tmp_path: Path, line: str, problem: str
) -> None:
    (tmp_path / "empty").write_text("\n")
    (found,) = yaml.problems(PIGEON.replace("bot_token: ${TOKEN}", line))
    where = "config channels.pigeon.bot_token_file (line 5): "
    assert found.startswith(where + problem.format(tmp_path))


def test_a_secret_is_given_in_one_way(yaml: Yaml) -> None:
    (found,) = yaml.problems(PIGEON + "    bot_token_file: x\n", {"TOKEN": SECRET})
    assert found == (
        "config channels.pigeon.bot_token_file (line 6): bot_token is set too; keep one of them"
    )


def test_an_optional_secret_that_is_empty_counts_as_absent(yaml: Yaml) -> None:
    assert yaml.load(GOOD + "web: {token: '${T:-}'}\n").web.token is None


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("model: [offline\nstate_dir: x\n", 2, "not valid YAML: expected"),
        ("\tmodel: offline\n", 1, "not valid YAML: found character"),
        ("model: *offline\n", 1, "not valid YAML: found undefined alias"),
        ("model: a\n---\nmodel: b\n", 2, "not valid YAML: but found another document"),
        ("- model\n", 1, "want a mapping of keys at the top"),
    ],
)
def test_bad_yaml_is_told_with_its_line(yaml: Yaml, text: str, line: int, complaint: str) -> None:
    (found,) = yaml.problems(text)
    assert found.startswith(f"config (line {line}): {complaint}")


def test_a_bare_variable_within_braces_is_told_how_to_write_it(yaml: Yaml) -> None:
    (found,) = yaml.problems("a: 1\nb: {c: ${KEY}}\n")
    assert found.startswith("config (line 2): not valid YAML: ")
    assert found.endswith('; write {key: "${NAME}"} with quotes, within braces')


def test_an_empty_file_points_to_the_example(yaml: Yaml) -> None:
    assert "clawbot.example.yaml" in yaml.problems("# nothing\n")[0]


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("model: a:b\n", "config model (line 3): the key stands twice, first on line 2"),
        ("web: &w {port: !!python/none x}\n", "config web.port (line 3): tags"),
        ("web: &w\n  <<: *w\n", "config web.<< (line 4): merge keys are not supported"),
        ("context: &c [*c]\n", "config context.0 (line 3): an alias that contains itself"),
        ("? [a]\n: 1\n", "config (line 3): a key must be text"),
        ("workers: 0x\n", "config workers (line 3): want a whole number"),
        ("turns: {turn_timeout_s: .inf}\n", "config turns.turn_timeout_s (line 3): want a finite"),
        ("web: 5\n", "config web (line 3): want a section"),
        ("channels: [a]\n", "config channels (line 3): want a section"),
        ("channels: {pigeon: }\n", "config channels.pigeon (line 3): want a section"),
        ("providers: {a: 1}\n", "config providers.a (line 3): want a section"),
        ("limits: {lease_s: 5}\n", "config limits (line 3): lease_s must be at least twice"),
        ("context: [nowhere.md]\n", "config context.0 (line 3): no such file"),
        ("owners: ['pigeon:U1']\n", "config owners.0 (line 3): want CHANNEL:USER-ID"),
    ],
)
def test_what_the_keys_cannot_mean_is_refused(yaml: Yaml, more: str, found: str) -> None:
    assert yaml.problems(GOOD + more)[0].startswith(found)


@pytest.mark.parametrize("name", ["global", "task", "dir", "web", "terminal", "A", "a:b", "a" * 33])
def test_a_channel_cannot_have_a_name_that_means_something_else(yaml: Yaml, name: str) -> None:
    text = GOOD + f"channels: {{'{name}': {{type: pigeon, bot_token: x}}}}\n"
    (found,) = yaml.problems(text)
    assert found.startswith(f"config channels.{name} (line 3): ")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.yaml: cannot be read: No such file"):
        load_config(tmp_path / "nowhere.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"binary.yaml: not UTF-8 text"):
        load_config(tmp_path / "binary.yaml")


def test_a_model_needs_a_provider_that_can_be_reached(yaml: Yaml) -> None:
    start = "state_dir: s\nmodel: "
    assert yaml.problems(start + "anthropic:claude\n") == [
        (
            "config providers.anthropic.api_key: missing, and model needs it; "
            "write api_key: ${ANTHROPIC_API_KEY} and set ANTHROPIC_API_KEY"
        )
    ]
    (unknown,) = yaml.problems(start + "antropic:claude\n")
    assert unknown.startswith("config model (line 2): unknown provider; add it under providers")
    mine = "mine:llama\nproviders: {mine: {base_url: 'http://127.0.0.1:1/v1'}}\n"
    config = yaml.load(start + mine)
    assert config.provider("mine").kind == "openai-chat"
    assert config.provider("mine").base_url == "http://127.0.0.1:1/v1"
    assert yaml.problems(GOOD + "providers: {mine: {}}\n") == [
        "config providers.mine.base_url (line 3): missing; add the key"
    ]


def test_a_channel_has_its_own_model_or_the_general_one(yaml: Yaml) -> None:
    more = "    model: zai:glm\nproviders: {zai: {api_key: k}}\n"
    config = yaml.load(PIGEON + more, {"TOKEN": SECRET})
    assert config.model_of("pigeon") == "zai:glm"
    assert config.model_of("web") == config.model_of(None) == "offline"


def test_ids_are_compared_as_the_platform_writes_them(yaml: Yaml) -> None:
    text = PIGEON + "    allow: {dm: [u1]}\nowners: ['pigeon:u2', 'web:me']\n"
    config = yaml.load(text, {"TOKEN": SECRET})
    policy = config.channels["pigeon"].policy
    assert policy.lists(policy.allow.dm, "U1")
    assert not policy.lists(policy.allow.dm, "U11")
    assert policy.lists(("*",), "anybody")
    exact = ChannelPolicy(scope="chat")
    assert exact.lists(("u1",), "u1")
    assert not exact.lists(("u1",), "U1")
    assert config.is_owner("pigeon", "U2")
    assert config.is_owner("web", "me")
    assert not config.is_owner("web", "ME")
    assert not config.is_owner("pigeon", "me")


def test_secrets_are_nowhere_to_be_seen(yaml: Yaml) -> None:
    more = (
        "    app_token: ${TOKEN}2\nweb: {token: hidden-1}\nproviders: {zai: {api_key: hidden-2}}\n"
    )
    config = yaml.load(PIGEON + more, {"TOKEN": SECRET})
    shown = repr(config) + str(config) + config.model_dump_json() + repr(config.channels)
    assert SECRET not in shown
    assert "hidden-" not in shown
    assert {s.get_secret_value() for s in config.secrets()} == {
        SECRET,
        SECRET + "2",
        "hidden-1",
        "hidden-2",
    }


@pytest.mark.parametrize(
    "text",
    [
        PIGEON.replace("${TOKEN}", f"[{SECRET}]"),
        PIGEON + f"    height: {SECRET}\n    mention: {SECRET}\n    lofts: {SECRET}\n",
        PIGEON.replace("${TOKEN}", f"*{SECRET}"),
        PIGEON.replace("${TOKEN}", f'"{SECRET}'),
        PIGEON.replace("${TOKEN}", f"{SECRET}: {SECRET}: x"),
        PIGEON.replace("${TOKEN}", f"!{SECRET} x"),
        GOOD + f"model: {SECRET}\n",
        GOOD + f"providers: {{a: {{api_key: {SECRET}, base_url: {SECRET}}}}}\n",
    ],
)
def test_no_complaint_repeats_a_value(yaml: Yaml, text: str) -> None:
    assert SECRET not in "\n".join(yaml.problems(text, {"TOKEN": SECRET}))


def test_the_development_config_needs_nothing_around_it() -> None:
    config = load_config(FOLDER / "clawbot.dev.yaml", environ={})
    assert config.model == "offline"
    assert config.state_dir == FOLDER.parent / ".run"
    assert not config.channels


def test_links_on_the_way_to_directories_are_settled_when_the_file_is_read(tmp_path: Path) -> None:
    real = tmp_path / "disk"
    (real / "team").mkdir(parents=True)
    (tmp_path / "link").symlink_to("disk")
    (tmp_path / "clawbot.yaml").write_text(
        "state_dir: link/state\nmodel: offline\nchannels:\n  slack: {mode: http, bot_token: x, "
        "signing_secret: y, shared_dirs: [link/team]}\n"
    )
    config = load_config(tmp_path / "clawbot.yaml")
    assert config.state_dir == real / "state"
    assert config.channels["slack"].shared_dirs == (real / "team",)
