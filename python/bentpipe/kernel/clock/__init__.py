"""The handover clock of this host, which loaded controllers read.

| module | content |
|---|---|
| `record` | the clock in the kernel's maps: written, renewed, withdrawn, read |
| `sockets` | statistics of this network namespace's TCP sockets (`inet_diag`) |
| `learning` | the clock from these: `bentpipe clock --learn` |
| `profile` | the clock of an emulated Profile, and its handovers ahead of time |
| `dish` | the clock of a terminal's network |
| `daemon` | the program that keeps it |
"""
