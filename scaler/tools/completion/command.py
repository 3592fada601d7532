"""`scaler completion SHELL`: the script with which a shell completes commands, options and values;
and the answers.

All shells use one engine: the script calls `scaler __complete WORD...`; the last word is the
unfinished one. The answer has the form of kubectl's plugins: `value<TAB>meaning` on each line, then
`:0` if file names may follow, or `:4` if nothing else can. Names of services come from the cluster
(scaler.tools.completion.names)."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stderr
from typing import NamedTuple

from scaler.tools.common.access import place

HELP = """Print what a shell needs to complete commands.

  source <(scaler completion bash)          in ~/.bashrc
  source <(scaler completion zsh)           in ~/.zshrc, after compinit
  scaler completion fish | source           in ~/.config/fish/config.fish

`kubectl scaler` completes by itself where kubectl_complete-scaler is installed beside scaler.

Exit code: 0, 2 usage."""

FILES = 0
NOTHING = 4
_OF_FILES = ("FILE", "RULE", "SCENARIO", "DIR")
Load = Callable[[str], argparse.ArgumentParser]


class Candidates(NamedTuple):
    """The completions of a word, each with its meaning; `directive` is FILES or NOTHING."""

    found: list[tuple[str, str]]
    directive: int = NOTHING
    asked: str = ""
    """A function of scaler.tools.completion.names that reads completions from the cluster."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="whose")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    sys.stdout.write(_SCRIPTS[args.shell])
    return 0


def complete(words: Sequence[str], commands: Iterable[tuple[str, str]], load: Load) -> str:
    """The answer to a shell; `words` are all words after the program's name, the last one
    unfinished. `load` returns the parser of a command; ImportError when it cannot be loaded."""
    found, directive, _ = _candidates(list(words) or [""], list(commands), load)
    lines = [f"{value}\t{' '.join(meaning.split())}".rstrip() for value, meaning in found]
    return "\n".join([*lines, f":{directive}"]) + "\n"


def _candidates(words: list[str], commands: list[tuple[str, str]], load: Load) -> Candidates:
    *before, word = words
    if not before:
        options = [("--help", "all commands"), ("--version", "")] if word.startswith("-") else []
        return Candidates(_fitting([*commands, *options], word))
    if before == ["help"]:
        return Candidates(_fitting(commands, word))
    if before[0] not in dict(commands) or before[0] in ("help", "version"):
        return Candidates([])
    parser = load(before[0])
    given = [one for one in before[1:] if one != "="]
    for action in parser._actions:  # a command with subcommands
        if isinstance(action, argparse._SubParsersAction) and given and given[0] in action.choices:
            parser = action.choices[given[0]]
            given = given[1:]
    candidates = _of_command(parser._actions, given, word)
    return (
        Candidates(_fitting(_of_cluster(parser, given, candidates.asked), word))
        if candidates.asked
        else candidates
    )


def _of_cluster(
    parser: argparse.ArgumentParser, given: list[str], asked: str
) -> Iterable[tuple[str, str]]:
    """Completions from the cluster that the words before name; none while these words are no
    complete command."""
    # The client is loaded only when needed.
    from scaler.tools.completion import names  # noqa: PLC0415

    ask = {
        "namespaces": names.namespaces,
        "services": names.services,
        "jobs": names.jobs,
        "nodes": names.nodes,
    }[asked]
    known = given[:-1] if asked == "namespaces" else given
    for words in ([*known, "x"], known):  # with a placeholder if a name is required
        try:
            with redirect_stderr(io.StringIO()):
                args = parser.parse_args(words)
        except SystemExit:
            continue
        return ask(args)
    return []


def _of_command(actions: list[argparse.Action], before: list[str], word: str) -> Candidates:
    options = {}
    for action in actions:
        if action.help != argparse.SUPPRESS:
            options.update(dict.fromkeys(action.option_strings, action))
    name, equals, value = word.partition("=")
    if equals and name in options:
        found = _values(options[name], value)
        return Candidates(
            [(f"{name}={one}", meaning) for one, meaning in found.found], found.directive
        )
    last = options.get(before[-1]) if before else None
    if last is not None and last.nargs != 0:
        return _values(last, "" if word == "=" else word)
    if word.startswith("-"):
        return Candidates(
            _fitting(((one, _meaning(options[one])) for one in sorted(options)), word)
        )
    return _positional(actions, options, before, word)


def _positional(
    actions: list[argparse.Action],
    options: dict[str, argparse.Action],
    before: list[str],
    word: str,
) -> Candidates:
    places = [action for action in actions if not action.option_strings]
    given = 0
    previous = ""
    for one in before:
        is_value = _takes_value(options.get(previous))
        if not one.startswith("-") and not is_value:
            given += 1
        previous = one
    if not places:
        return Candidates([])
    last = places[-1]
    if given >= len(places) and last.nargs not in ("+", "*"):
        return Candidates([])
    return _values(places[min(given, len(places) - 1)], word)


def _takes_value(action: argparse.Action | None) -> bool:
    return action is not None and action.nargs != 0


def _values(action: argparse.Action, word: str) -> Candidates:
    if action.choices is not None:
        return Candidates(_fitting(((str(choice), "") for choice in action.choices), word))
    if action.type is place:
        return Candidates([], asked="services" if action.metavar == "SERVICE" else "jobs")
    if action.metavar == "NODE":
        return Candidates([], asked="nodes")
    if action.dest == "namespace":
        return Candidates([], asked="namespaces")
    metavar = str(action.metavar or "")
    return Candidates([], FILES if metavar.startswith(_OF_FILES) else NOTHING)


def _fitting(known: Iterable[tuple[str, str]], word: str) -> list[tuple[str, str]]:
    return [one for one in known if one[0].startswith(word)]


def _meaning(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%") if action.help != argparse.SUPPRESS else ""


_BASH = r"""# bash completion for scaler
_scaler_complete() {
    local answer line
    answer=$(scaler __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) || return
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :*) [ "$line" = ":0" ] && compopt -o default 2>/dev/null ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done <<<"$answer"
}
complete -F _scaler_complete scaler
"""

_ZSH = r"""#compdef scaler
# zsh completion for scaler
_scaler() {
    local -a found
    local line answer directive=4
    answer=$(scaler __complete "${(@)words[2,CURRENT]}" 2>/dev/null) || return 1
    for line in "${(@f)answer}"; do
        case $line in
            :*) directive=${line#:} ;;
            *$'\t'*) found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
            ?*) found+=("${line//:/\\:}") ;;
        esac
    done
    (( $#found )) && _describe 'scaler' found
    [[ $directive = 0 ]] && _files
    return 0
}
if [ "$funcstack[1]" = "_scaler" ]; then
    _scaler
else
    compdef _scaler scaler
fi
"""

_FISH = r"""# fish completion for scaler
function __scaler_answer
    set -l words (commandline -opc) (commandline -ct)
    scaler __complete $words[2..-1] 2>/dev/null
end
function __scaler_complete
    __scaler_answer | string match -v -r '^:[0-9]+$'
end
function __scaler_wants_files
    __scaler_answer | string match -q ':0'
end
complete -c scaler -f
complete -c scaler -a '(__scaler_complete)'
complete -c scaler -F -n __scaler_wants_files
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
