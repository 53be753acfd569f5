"""The parser of a command's words: options and positionals in any order."""

from __future__ import annotations

from typing import Any

from avatar3d.cli.options import Parser


class CommandParser(Parser):
    """One command's parser, which takes options and positionals in any order.

    argparse gives an optional positional its default at the first option it meets, and then knows nothing of the word that follows.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        return super().parse_known_args(self._positionals_first(list(args or [])), namespace)

    def _positionals_first(self, words: list[str]) -> list[str]:
        words, rest = (words[: words.index("--")], words[words.index("--") :]) if "--" in words else (words, [])
        options: list[str] = []
        positionals: list[str] = []
        takes_next = False
        for word in words:
            is_option = not takes_next and len(word) > 1 and word[0] == "-"
            (options if is_option or takes_next else positionals).append(word)
            takes_next = is_option and "=" not in word and self._takes_value(word)
        return [*positionals, *options, *rest]

    def _takes_value(self, word: str) -> bool:
        known = self._option_string_actions
        names = [word] if word in known else [name for name in known if word[:2] == "--" and name.startswith(word)]
        return any(known[name].nargs is None for name in names)
