"""The life of a process, whatever it does.

`part`: a process that is one part of the daemon, from its start to its exit code. `hosting`: runs a
part in this process. `stopping`: how it is asked to stop. `notify`: what systemd is told. `child`
and `lifeline`: the supervisor's side of a child, and the tie between both; `children_file`: what
`clawbot status` is told of them.
"""
