"""What commands and the gate say to people, in English and Chinese."""

from __future__ import annotations

import re

from clawbot.commands.approval_texts import APPROVAL_TEXTS
from clawbot.commands.setting_answers import SETTING_TEXTS

_CJK = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")

_TEXTS = {
    **APPROVAL_TEXTS,
    **SETTING_TEXTS,
    "help": (
        (
            "Write to me and I answer; each conversation has its own memory.\n\n"
            "- `/new` begins a new conversation\n"
            "- `/stop` stops what I am doing here, `/stop all` everything (owners only)\n"
            "- `/status` tells what I am doing here\n"
            "- `/task new ID` opens a conversation beside this one, `/task done` closes it\n"
            "- `/sessions` lists the conversations here, `/use ID` goes to one, `/unread` reads\n"
            "- `/approve` allows what I ask about, `/deny` refuses it, `/approve list` shows what "
            "is allowed for longer\n"
            "- `/context` tells how full my memory of this conversation is, `/compact` summarises "
            "it\n"
            "- `/remind TIME TEXT` begins something at a time, `/remind` lists what is planned\n"
            "- `/plan on` lets me work by a plan, box by box; `/plan off` ends it\n"
            "- `/model` tells which model answers here, `/model NAME` chooses another one\n"
            "- `/cost` tells what this conversation cost, `/cost all` everything (owners only)\n"
            "- `/help` shows this\n\n"
            "Where a message must not begin with `/`, write `!stop` instead."
        ),
        (
            "直接给我发消息即可，每个对话有各自的记忆。\n\n"
            "- `/new` 开始新对话\n"
            "- `/stop` 停止当前任务，`/stop all` 停止所有任务（仅限管理者）\n"
            "- `/status` 查看当前状态\n"
            "- `/task new 编号` 另开一个会话，`/task done` 结束它\n"
            "- `/sessions` 列出这里的会话，`/use 编号` 切换，`/unread` 查看未读\n"
            "- `/approve` 批准我询问的操作，`/deny` 拒绝，`/approve list` 查看长期批准\n"
            "- `/context` 查看会话记忆的用量，`/compact` 压缩会话\n"
            "- `/remind 时间 内容` 定时执行，`/remind` 查看计划\n"
            "- `/plan on` 按计划逐项执行，`/plan off` 关闭\n"
            "- `/model` 查看当前模型，`/model 名称` 切换模型\n"
            "- `/cost` 查看此会话的费用，`/cost all` 查看全部费用（仅限管理者）\n"
            "- `/help` 显示本说明\n\n"
            "如果消息不能以 `/` 开头，请写 `!stop`。"
        ),
    ),
    "stopped": ("Stopped.", "已停止。"),
    "stopped_withdrawn": (
        "Stopped; {count} waiting message(s) withdrawn.",
        "已停止，并撤回了 {count} 条等待中的消息。",
    ),
    "nothing_to_stop": ("Nothing is running here.", "当前没有正在运行的任务。"),
    "stopped_all": (
        "Stopped in {count} conversation(s):\n{lines}",
        "已停止 {count} 个会话：\n{lines}",
    ),
    "stopped_one": (
        "- `{session}`: {turns} running, {waiting} waiting message(s)",
        "- `{session}`：{turns} 个运行中，{waiting} 条等待中的消息",
    ),
    "stopped_more": ("- and {count} more", "- 另外 {count} 个"),
    "nothing_to_stop_anywhere": ("Nothing is running anywhere.", "当前没有任何正在运行的任务。"),
    "owners_only": (
        "Only an owner may do this; `/stop` stops what runs here.",
        "仅限管理者操作；用 `/stop` 停止当前会话。",
    ),
    "owners_only_cost": (
        "Only an owner may see this; `/cost` tells about this conversation.",
        "仅限管理者查看；用 `/cost` 查看此会话的费用。",
    ),
    "remind_set": (
        "I will do so at {at}. `!remind delete {id}` cancels it, `!remind` lists what is planned.",
        "好的，时间：{at}。`!remind delete {id}` 可取消，`!remind` 查看全部计划。",
    ),
    "remind_what": (
        "What shall I do then? For example: `!remind tomorrow 9:00 send me the report`.",
        "到时要做什么？例如：`!remind 明天9点 发我报告`。",
    ),
    "remind_bad_time": (
        (
            "I cannot read this time. For example: `!remind 30m …`, `!remind tomorrow 9:00 …`, "
            "`!remind 2030-01-31 12:00 …`, `!remind weekdays 18:30 …`, "
            "`!remind every monday 9:00 …`, `!remind cron 0 9 * * 1-5 …`."
        ),
        (
            "无法识别这个时间。例如：`!remind 30分钟后 …`、`!remind 明天9点 …`、"
            "`!remind 2030-01-31 12:00 …`、`!remind 工作日18:30 …`、`!remind 每周一9点 …`、"
            "`!remind cron 0 9 * * 1-5 …`。"
        ),
    ),
    "remind_bad_past": ("This time has passed.", "这个时间已经过去了。"),
    "remind_bad_step": (
        "Times must be at least a minute and at most a year apart.",
        "间隔至少一分钟，至多一年。",
    ),
    "remind_bad_cron": (
        "This is no cron line of five fields whose time ever comes, such as `cron 0 9 * * 1-5`.",
        "这不是有效的五段 cron 表达式，例如 `cron 0 9 * * 1-5`。",
    ),
    "remind_many": (
        "{count} things are planned here already; delete some first (`!remind` lists them).",
        "这里已有 {count} 个计划，请先删除一些（`!remind` 查看）。",
    ),
    "remind_none": (
        "Nothing is planned here. For example: `!remind tomorrow 9:00 send me the report`.",
        "这里没有计划。例如：`!remind 明天9点 发我报告`。",
    ),
    "remind_list": ("Planned here:\n{lines}", "这里的计划：\n{lines}"),
    "remind_one": ("- `{id}` at {at}: {text}", "- `{id}` {at}：{text}"),
    "remind_one_of_many": (
        "- `{id}` repeatedly, next at {at}: {text}",
        "- `{id}` 重复，下次 {at}：{text}",
    ),
    "remind_deleted": ("`{id}` is cancelled.", "`{id}` 已取消。"),
    "remind_unknown": (
        "There is no plan `{id}` of yours here; `!remind` lists them.",
        "这里没有编号为 `{id}` 的计划；`!remind` 查看全部。",
    ),
    "file_not_sent": (
        "(The file {name}, {size}, could not be sent to this chat.)",
        "（文件 {name}（{size}）无法发送到此会话。）",
    ),
    "choice_stop": ("Stop {number}", "停止 {number}"),
    "choice_made": ("{label} ({by}): {outcome}", "{label}（{by}）：{outcome}"),
    "new": ("A new conversation begins.", "已开始新对话。"),
    "status_idle": ("Idle. Model: {model}.", "空闲。模型：{model}。"),
    "status_running": (
        "Working for {seconds} s; {count} message(s) wait. Model: {model}.",
        "已运行 {seconds} 秒，{count} 条消息等待中。模型：{model}。",
    ),
    "status_model_fails": (
        "That model does not work at the moment; another one answers meanwhile.",
        "该模型目前不可用，暂由备用模型回答。",
    ),
    "status_tasks": ("Tasks beside it: {tasks}.", "另有任务：{tasks}。"),
    "chat_running": (
        (
            "{count} conversation(s) are running in this chat:\n{sessions}\n"
            "Write `!stop` in the thread that shall stop, or `!stop` and the name of one here."
        ),
        (
            "此群聊中有 {count} 个正在运行的对话：\n{sessions}\n"
            "请在要停止的话题中发送 `!stop`，或在此发送 `!stop` 加上其名称。"
        ),
    ),
    "failed_model_down": (
        "I cannot reach my language model now. Please try again later. (error {error_id})",
        "暂时无法连接语言模型，请稍后再试。（错误编号 {error_id}）",
    ),
    "failed_model_busy": (
        "My language model is overloaded now. Please try again in a minute. (error {error_id})",
        "语言模型当前繁忙，请稍后再试。（错误编号 {error_id}）",
    ),
    "failed_too_long": (
        (
            "This conversation has become too long for my language model. "
            "Begin a new one with `/new`. (error {error_id})"
        ),
        "对话过长，语言模型无法处理。请用 `/new` 开始新对话。（错误编号 {error_id}）",
    ),
    "failed_no_room": (
        (
            "My instructions and documents leave no room for a conversation with this language "
            "model. Please tell an admin the error id. (error {error_id})"
        ),
        "系统说明和文档已占满语言模型的上下文，请把错误编号告诉管理员。（错误编号 {error_id}）",
    ),
    "context": (
        (
            "Context of this conversation at its last request, in estimated tokens of `{model}`: "
            "{used} of {window} ({percent} %).\n\n{lines}\n\n{summary}"
        ),
        (
            "此会话最近一次请求的上下文（`{model}` 的估算 token 数）："
            "{used} / {window}（{percent}%）。\n\n{lines}\n\n{summary}"
        ),
    ),
    "context_rules": ("- rules and instructions: {tokens}", "- 规则和说明：{tokens}"),
    "context_documents": ("- documents: {tokens}", "- 文档：{tokens}"),
    "context_summary": ("- summary: {tokens}", "- 摘要：{tokens}"),
    "context_tools": ("- tools: {tokens}", "- 工具：{tokens}"),
    "context_earlier": ("- earlier messages: {tokens}", "- 之前的消息：{tokens}"),
    "context_turn": ("- the last turn: {tokens}", "- 最近一轮：{tokens}"),
    "context_output": ("- kept free for the answer: {tokens}", "- 为回答预留：{tokens}"),
    "context_whole": (
        "Nothing of the conversation is left out.",
        "会话内容全部保留。",
    ),
    "context_cut": (
        "The beginning of the conversation is not sent any more.",
        "会话开头的内容已不再发送。",
    ),
    "context_summarised": (
        "The beginning of the conversation is sent as a summary.",
        "会话开头的内容以摘要形式发送。",
    ),
    "context_none": (
        "Nothing has been sent to the language model in this conversation yet.",
        "此会话尚未向语言模型发送任何内容。",
    ),
    "compact": (
        "I will summarise this conversation before your next message.",
        "将在您的下一条消息之前压缩此会话。",
    ),
    "compact_none": (
        "There is nothing to summarise in this conversation.",
        "此会话没有可压缩的内容。",
    ),
    "cost": (
        "What my language models cost in this conversation:\n\n{lines}",
        "此会话的语言模型费用：\n\n{lines}",
    ),
    "cost_all": (
        "What my language models cost in all conversations:\n\n{lines}",
        "所有会话的语言模型费用：\n\n{lines}",
    ),
    "cost_conversation": ("- since it began: {told}", "- 会话至今：{told}"),
    "cost_today": ("- today: {told}", "- 今天：{told}"),
    "cost_month": ("- this month: {told}", "- 本月：{told}"),
    "cost_by_model": ("This month by model:", "本月按模型："),
    "cost_by_user": ("This month by person:", "本月按用户："),
    "cost_by_session": ("This month by conversation:", "本月按会话："),
    "cost_nobody": ("summaries", "摘要"),
    "cost_nothing": ("nothing", "无"),
    "cost_unknown": ("price unknown", "价格未知"),
    "cost_partly": (
        "at least {price} (the price of {count} call(s) is unknown)",
        "至少 {price}（其中 {count} 次调用价格未知）",
    ),
    "cost_told": (
        "{price}, {calls} call(s){failed}, {input} tokens in ({cached} cached), {output} out",
        "{price}，调用 {calls} 次{failed}，输入 {input} token（缓存 {cached}），输出 {output}",
    ),
    "cost_failed": (" ({count} failed)", "（失败 {count} 次）"),
    "failed_budget_session": (
        (
            "The budget of this conversation is spent, so I stop here. `/new` begins another one; "
            "an admin can raise the budget. (error {error_id})"
        ),
        "此会话的预算已用完。可用 `/new` 开始新对话，或请管理员提高预算。（错误编号 {error_id}）",
    ),
    "failed_budget_user": (
        (
            "Your budget for today is spent, so I stop here. Please go on tomorrow, or ask an "
            "admin to raise it. (error {error_id})"
        ),
        "您今天的预算已用完，已停止。请明天再试，或请管理员提高预算。（错误编号 {error_id}）",
    ),
    "failed_budget_day": (
        (
            "The budget for today is spent, so I stop here. Please go on tomorrow, or ask an "
            "admin to raise it. (error {error_id})"
        ),
        "今天的总预算已用完，已停止。请明天再试，或请管理员提高预算。（错误编号 {error_id}）",
    ),
    "failed_refused": (
        "My language model refuses to answer this. (error {error_id})",
        "语言模型拒绝回答此问题。（错误编号 {error_id}）",
    ),
    "failed_timeout": (
        "This took too long, so I stopped. Please try a smaller step. (error {error_id})",
        "处理时间过长，已停止。请尝试更小的步骤。（错误编号 {error_id}）",
    ),
    "failed_crashed": (
        (
            "Something went wrong on my side. Please try again; if it stays so, tell an admin the "
            "error id. (error {error_id})"
        ),
        "我这边出了问题，请再试一次；若仍失败，请把错误编号告诉管理员。（错误编号 {error_id}）",
    ),
    "base_name": ("main conversation", "主会话"),
    "task_name": ("task {task}", "任务 {task}"),
    "task_help": (
        "Write `/task new ID`, `/task use ID` or `/task done ID`; an ID is a word or number.",
        "请写 `/task new 编号`、`/task use 编号` 或 `/task done 编号`。",
    ),
    "task_new": (
        "Task {task} is open; what you write here now goes to it. `/use base` goes back.",
        "已打开任务 {task}，接下来的消息都属于它。用 `/use base` 返回主会话。",
    ),
    "task_exists": (
        "There is a task {task} already; `/use {task}` goes to it.",
        "任务 {task} 已存在，用 `/use {task}` 切换过去。",
    ),
    "task_unknown": ("There is no open task {task} here.", "这里没有打开的任务 {task}。"),
    "task_done": ("Task {task} is closed.", "任务 {task} 已结束。"),
    "use": ("You are in: {name}.", "当前会话：{name}。"),
    "use_unknown": (
        "There is no conversation {name} here; `/sessions` lists them.",
        "这里没有会话 {name}，用 `/sessions` 查看列表。",
    ),
    "sessions": ("Conversations here:\n{lines}", "这里的会话：\n{lines}"),
    "mark_active": ("active", "当前"),
    "mark_running": ("working", "运行中"),
    "mark_unread": ("{count} unread", "{count} 条未读"),
    "nothing_unread": ("Nothing is unread.", "没有未读消息。"),
    "footer": ("_Unread: {parts}. Write `/unread`._", "_未读：{parts}。发送 `/unread` 查看。_"),
    "footer_part": ("{name} ({count})", "{name}（{count}）"),
    "footer_joint": (", ", "，"),
    "settings": (
        "Settings: model {model}; in groups {mention}; what comes while I work: {queue}.",
        "设置：模型 {model}；群聊中{mention}；处理期间收到的消息：{queue}。",
    ),
    "mention_required": ("I answer when I am mentioned", "需要提及我"),
    "mention_never": ("I answer everything", "无需提及我"),
    "choose_on_page": (
        "Choose the conversation in the list, or open a new one there.",
        "请在列表中选择会话，或新建一个。",
    ),
    "queue_full": (
        (
            "I am still busy, and too many messages wait already: this one is not taken. "
            "Send it again later, or write `/stop`."
        ),
        "我还在处理，等待中的消息过多，这条未被接收。请稍后重发，或发送 `/stop`。",
    ),
    "rate_sender": (
        (
            "I am busy: you write more than I can take in. What you send within the next minute is "
            "not taken; please send it again later."
        ),
        "我正忙：您的消息太多，我接收不过来。接下来一分钟内的消息可能不会被接收，请稍后重发。",
    ),
    "rate_chat": (
        (
            "I am busy: more is written here than I can take in. What is sent within the next "
            "minute is not taken; please send it again later."
        ),
        "我正忙：这里的消息太多，我接收不过来。接下来一分钟内的消息可能不会被接收，请稍后重发。",
    ),
    "dm_denied": (
        (
            "I may not talk with you yet. An admin can add your id `{sender}` to "
            "`channels.{channel}.allow.dm` in the configuration."
        ),
        (
            "我暂时不能与您对话。管理员可以在配置的 `channels.{channel}.allow.dm` 中"
            "加入您的 ID：`{sender}`。"
        ),
    ),
}


def answer(name: str, /, *, like: str, **values: object) -> str:
    """The text `name` in the language of `like` (Chinese when it holds Chinese characters)."""
    english, chinese = _TEXTS[name]
    return (chinese if _CJK.search(like) else english).format(**values)
