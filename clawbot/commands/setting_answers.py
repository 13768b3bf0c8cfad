"""What commands say that change a setting of a conversation; see `clawbot.commands.answers`."""

from __future__ import annotations

SETTING_TEXTS = {
    "model_is": (
        "`{model}` answers here. `!model NAME` chooses another one: {names}.",
        "当前模型：`{model}`。用 `!model 名称` 切换：{names}。",
    ),
    "model_only": (
        "`{model}` answers here; no other is offered (`models` in the configuration).",
        "当前模型：`{model}`；没有其他可选模型（配置中的 `models`）。",
    ),
    "model_set": ("From the next answer on: `{model}`.", "从下一次回答起使用 `{model}`。"),
    "model_unknown": (
        "No model `{name}` is offered; there are: {names}.",
        "没有可选模型 `{name}`；可选：{names}。",
    ),
    "plan_is_on": (
        "Plan mode is on here. `!plan off` ends it.",
        "计划模式已开启。用 `!plan off` 关闭。",
    ),
    "plan_is_off": (
        "Plan mode is off here. `!plan on` lets me work by a plan, box by box.",
        "计划模式未开启。用 `!plan on` 开启，按计划逐项执行。",
    ),
    "plan_on": (
        (
            "Plan mode is on from the next answer on: I make a plan (PLAN.md, TODO.md) and work "
            "through it box by box. Write `continue` to let me go on."
        ),
        (
            "从下一次回答起开启计划模式：先写计划（PLAN.md、TODO.md），再逐项执行。"
            "发送“继续”即可接着执行。"
        ),
    ),
    "plan_off": (
        "Plan mode is off from the next answer on. The plan stays where it is.",
        "从下一次回答起关闭计划模式，已有计划保留。",
    ),
}
