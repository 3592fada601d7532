"""`scaler plan`: what a rule decides for given counts, without a cluster. Reads files, prints,
decides nothing itself.

Must not import the cluster side (kubernetes_asyncio, aiohttp): loading it takes longer than the
answer."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterable, Iterator

import msgspec

from scaler.rules.rule import Rule
from scaler.tools.common.counts import MOST, Case, decide, unknown_groups
from scaler.tools.common.ladder import in_words, table
from scaler.tools.common.output import add_output, converted, in_one_line
from scaler.tools.common.usage import content_of, wrong
from scaler.tools.plan.rulefile import RuleFileError, load_rule

HELP = """Say what a rule decides for given counts, or on given nodes.

RULE is a file with the ConfigMap (YAML) or its bare JSON, or - for standard input. Counts are
GROUP=NUMBER,...; a group that is not mentioned has none. In-flight instances count as admitted with
no pod on a node yet.

  scaler plan rule.yaml --running group0=1 --held group0=1,group1=1
  scaler plan rule.yaml --replicas 3 --running group0=2,group1=1     with so many instances wanted
  scaler plan rule.yaml --table
  scaler plan rule.yaml --cases cases.jsonl
                                     one {"running": {}, "in_flight": {}, "held": {}} per line
  scaler plan '20x rule.yaml' big.yaml \\
              --nodes '40x huawei.com/Ascend910=8,pool=a' --nodes nodes.yaml

With --nodes, every RULE is a service with all jobs of its largest ratio, `20x RULE` twenty of them,
earlier ones older. They start on empty nodes, each pod with 8 huawei.com/Ascend910 unless --needs
or --jobs say otherwise.

Exit code: 0 answered, 1 the rule or a case is bad, 2 usage."""

EXIT_BAD_INPUT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "rules",
        metavar="RULE",
        nargs="+",
        help="file with the rule's ConfigMap or its bare JSON; - = standard input",
    )
    for name, meaning in (
        ("running", "that run"),
        ("in-flight", "that were admitted and do not run yet"),
        ("held", "that wait for an admission"),
    ):
        parser.add_argument(
            f"--{name}",
            type=_counts,
            metavar="GROUP=N,...",
            help=f"instances {meaning} (default: none)",
        )
    parser.add_argument(
        "--replicas",
        type=_number,
        metavar="N",
        help="instances wanted in all, as kubectl scale sets it (default: all)",
    )
    parser.add_argument(
        "--cases",
        metavar="FILE",
        help="answer each JSON line of FILE (- = standard input) with one",
    )
    parser.add_argument(
        "--table", action="store_true", help="print every state of the ladder and what it admits"
    )
    nodes = parser.add_argument_group("several services on the same nodes")
    for name, metavar, meaning in (
        (
            "nodes",
            "NODES",
            (
                "'40x RESOURCE=N,LABEL=VALUE,...', '9x4x RESOURCE=N' for nine super-pods of four,"
                " or a file as 'kubectl get nodes,hypernodes -o yaml' writes it"
            ),
        ),
        (
            "needs",
            "[GROUP:]NEEDS",
            "what each pod (of the group) asks for: RESOURCE=N,... and its node selector",
        ),
        (
            "jobs",
            "FILE",
            "AscendJobs, Volcano Jobs, or a folder: what instances of their rule and group ask for",
        ),
    ):
        nodes.add_argument(f"--{name}", action="append", metavar=metavar, default=[], help=meaning)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Print the answer on standard output, errors on standard error; the exit code is in HELP."""
    conflict = _conflict(args)
    if conflict:
        return _usage(conflict)
    if args.nodes:
        return _answer_nodes(args)
    try:
        loaded = load_rule(args.rules[0])
    except RuleFileError as error:
        sys.stderr.write(str(error))
        return EXIT_BAD_INPUT
    rule = loaded.rule
    paused = loaded.options.paused
    if args.cases:
        return _answer_cases(rule, args.cases, paused=paused)
    if args.table:
        sys.stdout.write(table(rule))
        return 0
    return _answer(rule, args, paused=paused)


def _conflict(args: argparse.Namespace) -> str:
    """Which options exclude each other; "" when none do."""
    counted = any(counts is not None for counts in (args.running, args.in_flight, args.held))
    if args.nodes:
        return (
            "--nodes starts with nothing running; leave out counts, --cases and --table"
            if (counted or args.cases or args.table)
            else ""
        )
    if len(args.rules) > 1 or args.needs or args.jobs:
        return (
            "several rules, --needs and --jobs are about nodes; say which with --nodes '40x"
            " huawei.com/Ascend910=8'"
        )
    if args.cases and args.table:
        return "--cases and --table are two different questions; ask one at a time"
    if args.replicas is not None and (args.cases or args.table):
        return (
            "--replicas asks about one number; --table shows what each means, lines of --cases may"
            ' say {"replicas": N}'
        )
    if counted and (args.cases or args.table):
        return (
            "--running, --in-flight and --held ask about one state; leave them out with --cases or"
            " --table"
        )
    if args.table and args.format != "text":
        return "--table is for people and has no JSON form; use --cases for programs"
    if args.cases == "-" == args.rules[0]:
        return "RULE and --cases cannot both be standard input; write one of them to a file"
    return ""


def _counts(text: str) -> dict[str, int]:
    """`group0=1,group1=2`; argparse turns the error into a usage message with the option's name."""
    counts: dict[str, int] = {}
    for part in text.split(",") if text.strip() else ():
        name, equals, number = (word.strip() for word in part.rpartition("="))
        if not name or not equals:
            raise argparse.ArgumentTypeError(
                f"'{part}' is not GROUP=NUMBER; write for example group0=1,group1=2"
            )
        if name in counts:
            raise argparse.ArgumentTypeError(
                f"group '{name}' is counted twice; write each group once"
            )
        counts[name] = _number(number, f" in '{part}'")
    return counts


def _number(text: str, where: str = "") -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 7 or int(text) > MOST:
        raise argparse.ArgumentTypeError(f"'{text}'{where} is not a whole number from 0 to {MOST}")
    return int(text)


def _wanted(args: argparse.Namespace) -> int:
    return MOST if args.replicas is None else int(args.replicas)


def _answer(rule: Rule, args: argparse.Namespace, *, paused: bool) -> int:
    case = Case(args.running or {}, args.in_flight or {}, args.held or {}, _wanted(args))
    unknown = unknown_groups(rule, case)
    if unknown:
        return _usage("; ".join(_unknown_words(rule, unknown)))
    decision = decide(rule, case, paused=paused)
    as_text = args.format == "text"
    sys.stdout.write(
        in_words(rule, decision) if as_text else converted(in_one_line(decision), args.format)
    )
    return 0


def _answer_nodes(args: argparse.Namespace) -> int:
    """The answer about nodes. Its modules are loaded only here: an answer about counts does not
    need them."""
    from scaler.tools.common import whatif  # noqa: PLC0415
    from scaler.tools.plan import nodes  # noqa: PLC0415
    from scaler.tools.plan.whatif_text import in_words as in_words_of_nodes  # noqa: PLC0415

    try:
        found = nodes.read_nodes(args.nodes)
        services = nodes.services(
            args.rules,
            needs=args.needs,
            jobs=nodes.read_jobs(args.jobs),
            by_chips=any(node.chips for node in found),
        )
        services = [msgspec.structs.replace(one, replicas=_wanted(args)) for one in services]
        nodes.check_labels(found, services)
    except RuleFileError as error:
        sys.stderr.write(str(error))
        return EXIT_BAD_INPUT
    except nodes.BadInputError as error:
        sys.stderr.write(f"scaler plan: {error}\n")
        return EXIT_BAD_INPUT
    answer = whatif.what_if(services, found)
    as_text = args.format == "text"
    sys.stdout.write(
        in_words_of_nodes(answer) if as_text else converted(in_one_line(answer), args.format)
    )
    return 0


def _answer_cases(rule: Rule, file: str, *, paused: bool) -> int:
    """One line of output per input line, in order; an invalid line gets an error and makes the exit
    code 1."""
    lines: Iterable[bytes] = sys.stdin.buffer if file == "-" else io.BytesIO(content_of(file))
    failed = 0
    for answer, bad in answers(rule, lines, paused=paused):
        sys.stdout.write(answer)
        failed += bad
    if failed:
        sys.stderr.write(
            f"scaler plan: {failed} cases could not be answered; their lines say why\n"
        )
    return EXIT_BAD_INPUT if failed else 0


def answers(rule: Rule, lines: Iterable[bytes], *, paused: bool) -> Iterator[tuple[str, bool]]:
    """Each answer with its line end, and whether it is an error."""
    decoder = msgspec.json.Decoder(Case)
    for number, line in enumerate(lines, start=1):
        try:
            case = decoder.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            hint = (
                'write {"running": {"GROUP": N}, "in_flight": {}, "held": {}} with whole numbers'
                " from 0"
            )
            yield _complaint(number, str(error), hint), True
            continue
        unknown = unknown_groups(rule, case)
        if unknown:
            yield _complaint(number, *_unknown_words(rule, unknown)), True
        else:
            yield in_one_line(decide(rule, case, paused=paused)), False


def _complaint(line: int, message: str, hint: str) -> str:
    return in_one_line({"error": {"line": line, "message": message, "hint": hint}})


def _unknown_words(rule: Rule, unknown: tuple[str, ...]) -> tuple[str, str]:
    """What was found, and what to write."""
    found = ", ".join(f"'{name}'" for name in unknown)
    return f"no ratio of the rule names group {found}", f"its groups are {', '.join(rule.groups)}"


def _usage(message: str) -> int:
    return wrong("plan", message)
