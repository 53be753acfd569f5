"""The command line: the parser and its commands, one file each. Heavy imports wait for their command."""

from avatar3d.cli.program import EXIT_INTERRUPTED, build_parser, main

__all__ = ["EXIT_INTERRUPTED", "build_parser", "main"]
