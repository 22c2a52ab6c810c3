"""The command line: one file per command group. It parses arguments, calls the library and prints the result."""
