"""`make readable`: refuses what a reader stumbles over. Lines of at most 100 columns and functions
of at most five parameters are asked of ruff, of Python; what is here no tool asks.

    python .ci/readable.py [FOLDER ...]     without any: scaler tests .ci manifests

Prints one line for each place, then how many there are of each rule. The exit code is 1 when there
is one.

packed  `a, b = x, y` where the values have nothing to do with each other. A reader counts commas to
        learn what `b` is. Two lines say it. Allowed: an exchange (`a, b = b, a`), and to unpack
        what one call returns, which is one value.
nested  A comprehension inside a comprehension. It is read from the middle outwards, and neither
        loop has a name. A plain loop, or a function, has one.
asks    A function that asks also writes. Whoever reads `if self._has_to_end(one):` takes it for a
        condition, and does not see that a clock was started. A function asks when its name does
        (`is_`, `has_`, `why_`, `can_`, ...), and when it is annotated with `bool`, a `Reason`
        or a `TypeGuard`, or with `str` and its docstring begins with "Why", whatever its name.
        It writes when it
        - assigns to an attribute or an item of anything that it did not make itself,
        - changes such a thing with a method of Python's containers (`append`, `pop`, ...), or with
          a method that, in each class of ours that has one of this name, returns nothing and
          assigns to its object,
        - calls a function of its module, or a method of its class, that does so to what it is
          given.
        An action that has to say how it went returns a value with a name (an enum, or what it
        made), raises, or returns nothing and leaves an attribute to ask. Only what is `async` may
        return `bool`: it waits for somebody else, so nobody takes it for a condition; its name
        must not ask. What Python calls by itself (`__exit__`) has no choice. `EXCEPTED` names
        two places that exist to remember and to try, with the reason.
dense   More than 2.5 comprehensions in 100 lines of scaler/. One that reads as a sentence is fine,
        a page of them is unpacked line by line. For comparison: kopf has 0.8, structlog 0.2, the
        state machine of dask 0.9.
long    A line of the page (JavaScript, CSS, HTML) with more than 100 columns. Its libraries are not
        looked at."""

from __future__ import annotations

import ast
import asyncio
import gc
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
EVERYTHING = ("scaler", "tests", ".ci", "manifests")
RULES = ("packed", "nested", "asks", "dense", "long")
PAGE = (".js", ".css", ".html")
"""What the page is written in."""
COLUMNS = 100
DENSE = 2.5
"""Comprehensions in 100 lines of scaler/."""

EXCEPTED = {
    "scaler/decide/again.py": "saves time: it remembers answers, which changes none of them",
    "scaler/decide/room/": "tries placements: it puts pods on nodes and takes them back, so that to"
    " ask leaves nothing behind but what saves time",
}
"""Where questions may write, and why. Nobody outside sees that they do."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_ASKS = (
    "is_",
    "are_",
    "has_",
    "have_",
    "why_",
    "can_",
    "may_",
    "must_",
    "needs_",
    "lacks_",
    "fits",
    "affords_",
    "any_",
)
_SAYS_WHY = ("Why ", "Whether ")
"""Docstrings of functions whose text is an answer."""
_ANSWERS = ("bool", "Reason", "TypeGuard", "TypeIs")
_CHANGES = frozenset(
    {
        "add",
        "append",
        "appendleft",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "popleft",
        "remove",
        "reverse",
        "rotate",
        "setdefault",
        "sort",
        "update",
        "__setitem__",
    }
)
"""Methods of Python's own containers that change them."""
_HARMLESS = frozenset(dir(dict) + dir(set) + dir(str) + dir(asyncio.Task)) - _CHANGES
"""Methods that mostly belong to Python's own types, whatever a class of ours does in its own."""
_MAKES = frozenset(
    {
        "list",
        "dict",
        "set",
        "sorted",
        "bytearray",
        "deque",
        "defaultdict",
        "OrderedDict",
        "replace",
        "copy",
        "deepcopy",
        "build_opener",
    }
)
"""Functions and methods whose result is new, besides classes."""


class Place(NamedTuple):
    path: Path
    line: int
    rule: str
    words: str

    def __str__(self) -> str:
        where = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{where}:{self.line}: {self.rule}: {self.words}"


class Source(NamedTuple):
    """A file, read once."""

    path: Path
    lines: int
    tree: ast.Module
    nodes: list[ast.AST]
    """All of the tree."""


def read(path: Path) -> Source:
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    return Source(path, text.count("\n"), tree, nodes_of(tree))


def nodes_of(root: ast.AST) -> list[ast.AST]:
    """As `ast.walk`, in half of its time."""
    nodes = [root]
    for node in nodes:  # the list grows meanwhile
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                nodes.append(value)
            elif isinstance(value, list):
                nodes += [one for one in value if isinstance(one, ast.AST)]
    return nodes


def packed(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Lines and texts of assignments that pack unrelated values."""
    for node in nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
            continue
        values = sorted(map(ast.unparse, node.value.elts))
        for target in node.targets:
            if isinstance(target, ast.Tuple | ast.List):
                exchanged = sorted(map(ast.unparse, target.elts)) == values
                if not exchanged:
                    yield node.lineno, ast.unparse(node)[:60]


def nested(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Lines and texts of comprehensions that hold another one."""
    for node in nodes:
        if isinstance(node, _COMPREHENSIONS):
            inside = (one for one in ast.walk(node) if one is not node)
            if any(isinstance(one, _COMPREHENSIONS) for one in inside):
                yield node.lineno, ast.unparse(node)[:60]


def comprehensions(nodes: Iterable[ast.AST]) -> int:
    return sum(isinstance(node, _COMPREHENSIONS) for node in nodes)


# -- who asks -----------------------------------------------------------------------------------


def asks(function: Function) -> bool:
    """Whether the function is a question by its name, or by what it returns."""
    if function.name.lstrip("_").startswith(_ASKS):
        return True
    waits = isinstance(function, ast.AsyncFunctionDef)
    python_calls_it = function.name.startswith("__") and function.name.endswith("__")
    if waits or python_calls_it:
        return False
    return _is_an_answer(function.returns) or _says_why(function)


def _says_why(function: Function) -> bool:
    """Whether it answers with words, and its docstring begins with what they say."""
    is_text = isinstance(function.returns, ast.Name) and function.returns.id == "str"
    return is_text and (ast.get_docstring(function) or "").startswith(_SAYS_WHY)


def _is_an_answer(returns: ast.expr | None) -> bool:
    match returns:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _ANSWERS
        case ast.Subscript(value=value):
            return _is_an_answer(value)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return all(_is_an_answer(side) or _is_none(side) for side in (left, right))
        case ast.Constant(value=str() as text):
            return _is_an_answer(ast.parse(text, mode="eval").body)
    return False


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


# -- who writes -----------------------------------------------------------------------------------


class Body:
    """What a function or a method does that may change something.

    `changes`: what it surely changes, by the name of a parameter, "" for what else it has not made,
    with what does it. `calls`: functions and methods that it calls."""

    def __init__(self, owner: str, function: Function) -> None:
        self.owner = owner
        self.function = function
        self.parameters = _parameters(function)
        self.changes: dict[str, ast.AST] = {}
        self.calls: list[ast.Call] = []
        nodes = nodes_of(function)
        self._made = _made(nodes) - set(self.parameters)
        for node in nodes:
            if isinstance(node, ast.Attribute | ast.Subscript):
                if not isinstance(node.ctx, ast.Load):
                    self.change(node, node)
            elif isinstance(node, ast.Call):
                self.calls.append(node)
            elif isinstance(node, ast.Global | ast.Nonlocal):
                self.changes.setdefault("", node)

    def change(self, what: ast.expr, by: ast.AST) -> None:
        """Note that `by` changes this, unless the function has made it itself."""
        name = _base(what)
        if name not in self._made:
            self.changes.setdefault(name if name in self.parameters else "", by)


class Module:
    """The functions and methods of one file, by class ("" for none) and name."""

    def __init__(self, path: Path, tree: ast.Module) -> None:
        self.path = path
        self.bodies: dict[tuple[str, str], Body] = {}
        self._bases: dict[str, list[ast.expr]] = {}
        self._collect(tree, "")

    def _collect(self, node: ast.AST, owner: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                key = (owner, child.name)
                self.bodies.setdefault(key, Body(owner, child))  # a getter, not its setter
            elif isinstance(child, ast.ClassDef):
                self._bases[child.name] = child.bases
                self._collect(child, child.name)
            elif isinstance(child, ast.If | ast.Try):
                self._collect(child, owner)

    def method(self, owner: str, name: str) -> Body | None:
        """That of a class, or of a class above it in this file."""
        found = self.bodies.get((owner, name))
        for base in self._bases.get(owner, ()):
            if found is None and isinstance(base, ast.Name):
                found = self.method(base.id, name)
        return found

    def hand_on(self, changers: frozenset[str]) -> int:
        """Add to each function what those that it calls change; the number of changes known."""
        for body in self.bodies.values():
            for call in body.calls:
                self._add(body, call, changers)
        return sum(len(body.changes) for body in self.bodies.values())

    def _add(self, body: Body, call: ast.Call, changers: frozenset[str]) -> None:
        match call.func:
            case ast.Name(id="setattr" | "delattr"):
                body.change(call.args[0], call.func)
            case ast.Name(id=name) if ("", name) in self.bodies:
                _add_what_is_passed(body, call, self.bodies["", name], None)
            case ast.Attribute(value=ast.Name(id="self" | "cls") as itself, attr=name) if (
                called := self.method(body.owner, name)
            ):
                _add_what_is_passed(body, call, called, itself)
            case ast.Attribute(value=value, attr=name) if name in changers:
                body.change(value, call.func)


def _add_what_is_passed(body: Body, call: ast.Call, called: Body, itself: ast.Name | None) -> None:
    """Add what `called` changes of what is handed to it."""
    names = called.parameters
    arguments = [*call.args] if itself is None else [itself, *call.args]
    given = dict(zip(names, arguments, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    for changed in list(called.changes):
        if changed in given:
            body.change(given[changed], call.func)
        elif not changed:
            body.changes.setdefault("", call.func)


def _parameters(function: Function) -> list[str]:
    of = function.args
    return [one.arg for one in (*of.posonlyargs, *of.args, *of.kwonlyargs)]


def _base(node: ast.expr) -> str:
    """`a` of `a.b[c].d`; "" when it is no name."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _made(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that hold nothing but what the function of these nodes itself has made."""
    made: set[str] = set()
    others: set[str] = set()
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                (made if _is_new(value) else others).add(name)
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                (made if _is_new(value) else others).add(name)
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                (made if _is_new(value) else others).add(name)
    return made - others


def _is_new(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Attribute(attr="setdefault"), args=[_, given]):
            return _is_new(given)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _MAKES or name.lstrip("_")[:1].isupper()
        case ast.Call(func=ast.Subscript(value=ast.Name(id=name))):
            return name in _MAKES or name.lstrip("_")[:1].isupper()
        case ast.IfExp(body=body, orelse=orelse):
            return _is_new(body) and _is_new(orelse)
    return isinstance(
        value,
        (*_COMPREHENSIONS, ast.List, ast.Dict, ast.Set, ast.Tuple, ast.Constant, ast.BinOp),
    )


def settle(modules: Sequence[Module]) -> None:
    """Find all that every function changes, until nothing is added."""
    known = -1
    while True:
        changers = _CHANGES | (_commands(modules) - _HARMLESS)
        now = sum(module.hand_on(changers) for module in modules)
        if now == known:
            return
        known = now


def _commands(modules: Sequence[Module]) -> set[str]:
    """Names of methods that return nothing and change their object in each class that has them."""
    commands: set[str] = set()
    others: set[str] = set()
    for module in modules:
        for (owner, name), body in module.bodies.items():
            if owner and _is_none(body.function.returns) and "self" in body.changes:
                commands.add(name)
            elif owner:
                others.add(name)
    return commands - others


def is_excepted(path: Path) -> bool:
    return path.is_relative_to(ROOT) and any(
        path.relative_to(ROOT).as_posix().startswith(place) for place in EXCEPTED
    )


def asks_and_writes(modules: Sequence[Module]) -> Iterator[Place]:
    settle(modules)
    for module in modules:
        for (owner, name), body in module.bodies.items():
            changes = list(body.changes.values())
            if changes and asks(body.function) and not is_excepted(module.path):
                words = f"{owner}.{name}" if owner else name
                line = body.function.lineno
                yield Place(module.path, line, "asks", f"{words} writes {ast.unparse(changes[0])}")


# -- the whole tree -------------------------------------------------------------------------------


def found(sources: Iterable[Source]) -> list[Place]:
    """Every place in these files that a rule refuses, but for `dense`."""
    places = []
    modules = []
    for path, _, tree, nodes in sources:
        modules.append(Module(path, tree))
        places += [Place(path, line, "packed", words) for line, words in packed(nodes)]
        places += [Place(path, line, "nested", words) for line, words in nested(nodes)]
    places += asks_and_writes(modules)
    return places


def long(folder: Path) -> Iterator[Place]:
    """Every line of the page that is longer than those of Python may be; not of libraries."""
    for path in [folder] if folder.is_file() else sorted(folder.rglob("*")):
        if path.suffix not in PAGE or "vendor" in path.parts:
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            if len(line) > COLUMNS:
                yield Place(path, number, "long", f"{len(line)} columns")


def density(sources: Iterable[Source]) -> float:
    """Comprehensions in 100 lines."""
    lines = 0
    count = 0
    for source in sources:
        lines += source.lines
        count += comprehensions(source.nodes)
    return 100 * count / max(lines, 1)


def main(arguments: Sequence[str]) -> int:
    folders = [Path(one) for one in arguments] or [ROOT / one for one in EVERYTHING]
    paths: list[Path] = []
    for folder in folders:
        if folder.is_dir():
            paths += sorted(folder.rglob("*.py"))
        elif folder.suffix == ".py":
            paths.append(folder)
    sources = {path: read(path) for path in paths}
    refused = found(sources.values())
    scaler = sorted((ROOT / "scaler").rglob("*.py"))
    dense = density(sources.get(path) or read(path) for path in scaler)
    for folder in folders:
        refused += long(folder)
    if dense > DENSE:
        words = f"{dense:.3f} comprehensions in 100 lines, {DENSE} are allowed"
        refused.append(Place(ROOT / "scaler", 1, "dense", words))
    for place in sorted(refused):
        print(place)
    counts = Counter(place.rule for place in refused)
    print(", ".join(f"{rule} {counts[rule]}" for rule in RULES))
    return int(bool(refused))


if __name__ == "__main__":
    gc.disable()  # the trees stay until the end: to look for garbage in them took half of the time
    sys.exit(main(sys.argv[1:]))
