"""Records of the testbed: what users submit, what hosts decide, and what orchestrator and agent say to each other.

- `experiment`: the file of an experiment. `policy`: the file of a host.
- `builtins`: arguments of the built-in experiments. `work`: an experiment for one node, as an agent gets it.
- `agent_protocol`: requests and answers between agent and orchestrator. `desired`: a node's whole wanted state.
- `states`: states of a run. `views`, `experiment_views`: the user's interface. `problem`: errors (RFC 9457).
- `quantities`, `identifiers`, `yaml_text`: durations and sizes, names and ids, YAML without its traps.
"""
