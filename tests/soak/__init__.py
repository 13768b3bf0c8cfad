"""`python -m tests.soak --minutes 10`: one daemon with several platforms, load, and all that fails.

`clawbot run` as people run it, in front of simulated Slack, Feishu, WeCom and WeChat at once. Many
chats talk all the time, while calls fail, links break, tokens end, any process is killed, the
daemon itself is killed or restarted, and the database dies or has no room. Then it may calm down,
and it is counted what was lost or doubled, what memory the processes took, and what was left over.
Exits with 0 when every promise was kept.
"""
