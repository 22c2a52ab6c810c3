"""Controllers in this machine's kernel: eBPF programs (`bpf/`) that a stock kernel loads.

| module | content |
|---|---|
| `libbpf` | the part of the system's libbpf that is used |
| `requirements` | what a kernel, its limits and this process must have, in one sentence each |
| `controllers` | load, unload, list; set options while sockets use them; what sockets do |
"""
