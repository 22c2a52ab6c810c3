"""The command line: one file per command group; it translates between the terminal and the library, no more."""
