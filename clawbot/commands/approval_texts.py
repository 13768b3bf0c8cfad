"""What people are told about questions for approval, in English and Chinese; see `answers`."""

from __future__ import annotations

APPROVAL_TEXTS = {
    "approval_question": (
        "May I do this? {question}\n\n**{tool}**\n{arguments}",
        "请确认是否执行：{question}\n\n**{tool}**\n{arguments}",
    ),
    "approval_how": (
        (
            "Answer `!approve {id}` or `!deny {id}` (or with `/`) within {minutes} min; "
            "`!approve {id} always` or `… 2h` allows the same call for longer."
        ),
        (
            "请在 {minutes} 分钟内回复 `!approve {id}` 批准，或 `!deny {id}` 拒绝（也可用 `/`）；"
            "`!approve {id} 始终` 或 `… 2小时` 可在更长时间内批准同样的操作。"
        ),
    ),
    "approval_ends_approved": ("✅ Approved by {by}.", "✅ {by} 已批准。"),
    "approval_ends_approved_session": (
        "✅ Approved by {by} for this conversation.",
        "✅ {by} 已批准，在本对话内有效。",
    ),
    "approval_ends_approved_until": (
        "✅ Approved by {by} until {until}.",
        "✅ {by} 已批准，有效至 {until}。",
    ),
    "approval_ends_denied": ("❌ Refused by {by}.", "❌ {by} 已拒绝。"),
    "approval_ends_expired": ("⌛ Nobody decided in time.", "⌛ 已超过确认时间。"),
    "approval_ends_cancelled": ("⏹ Taken back: it was stopped.", "⏹ 已随停止而取消。"),
    "choice_approve": ("Approve", "批准"),
    "choice_session": ("For this conversation", "本对话内批准"),
    "choice_hour": ("For 1 hour", "批准 1 小时"),
    "choice_deny": ("Deny", "拒绝"),
    "approval_given": ("Approved: {tool}.", "已批准：{tool}。"),
    "approval_given_session": (
        "Approved: {tool}, and the same call again until /new. `!deny {id}` takes it back.",
        "已批准：{tool}；在 /new 之前，同样的操作不再询问。用 `!deny {id}` 撤回。",
    ),
    "approval_given_until": (
        "Approved: {tool}, and the same call again until {until}. `!deny {id}` takes it back.",
        "已批准：{tool}；{until} 之前，同样的操作不再询问。用 `!deny {id}` 撤回。",
    ),
    "approval_bad_words": (
        (
            "I cannot read for how long, so nothing is decided yet. Write `!approve {id}` for this "
            "once, or with `always`, `2h`, `for 30 minutes` or `until 18:00` behind it "
            "({days} days at most)."
        ),
        (
            "无法识别有效期，尚未批准。请写 `!approve {id}` 仅批准这一次，或在其后加 "
            "`始终`、`2小时`、`到18:00`（最长 {days} 天）。"
        ),
    ),
    "approval_list": (
        "Allowed here without asking again:\n{lines}\n`!deny ID` takes one of them back.",
        "这里不再询问的操作：\n{lines}\n用 `!deny 编号` 撤回。",
    ),
    "approval_list_none": (
        "Nothing is allowed here for longer than once.",
        "这里没有长期批准的操作。",
    ),
    "approval_listed_session": (
        "- `{id}` {tool}, until /new: {subject}",
        "- `{id}` {tool}，在 /new 之前有效：{subject}",
    ),
    "approval_listed_until": (
        "- `{id}` {tool}, until {until}: {subject}",
        "- `{id}` {tool}，有效至 {until}：{subject}",
    ),
    "approval_revoked": (
        "{tool} is not allowed any longer: I shall ask again.",
        "已撤回对 {tool} 的批准，之后会再次询问。",
    ),
    "approval_refused": ("Refused: {tool}.", "已拒绝：{tool}。"),
    "approval_none": ("I have no open question here.", "这里没有等待确认的操作。"),
    "approval_several": (
        "Several questions are open here; name one: {ids}.",
        "有多个操作等待确认，请指明编号：{ids}。",
    ),
    "approval_unknown": ("There is no question {id} here.", "这里没有编号为 {id} 的询问。"),
    "approval_not_yours": (
        "Only the person who asked for {tool}, or an owner, may decide this.",
        "只有发起 {tool} 的人或管理者可以决定。",
    ),
    "approval_approved": ("{tool} was approved before.", "{tool} 此前已批准。"),
    "approval_denied": ("{tool} was refused before.", "{tool} 此前已拒绝。"),
    "approval_expired": ("The time to decide about {tool} is over.", "{tool} 的确认时间已过。"),
    "approval_cancelled": (
        "The question about {tool} was taken back when it was stopped.",
        "{tool} 的询问已随停止而取消。",
    ),
    "status_parked": (
        "Waiting for a decision: `/approve {id}` or `/deny {id}`. Model: {model}.",
        "等待确认：`/approve {id}` 或 `/deny {id}`。模型：{model}。",
    ),
}
