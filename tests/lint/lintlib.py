# SPDX-License-Identifier: Apache-2.0
"""What the lint scripts share: finding files, blanking comments and strings, and a small scanner of
C++ scopes that finds functions, test cases and variables.

The scanner is no compiler. It follows braces, parentheses and the text before a brace, which is
enough for code in one style; what it cannot read it leaves out rather than reports.
"""

import argparse
import functools
import pathlib
import re
import sys
import tempfile
from dataclasses import dataclass, field

SOURCE_DIRS = ("netdev", "drivers", "stack", "apps", "tests", "bench", "examples")
LIBRARY_DIRS = ("netdev", "drivers", "stack")


def files(root, dirs=SOURCE_DIRS, suffixes=(".h", ".cc")):
    """Repository paths (posix, sorted) of the files with one of the suffixes below the folders."""
    found = []
    for folder in dirs:
        base = pathlib.Path(root) / folder
        if base.is_dir():
            found += [p for p in base.rglob("*") if p.is_file() and p.suffix in suffixes]
    return sorted(p.relative_to(root).as_posix() for p in found if "__pycache__" not in p.parts)


def read(root, path):
    return (pathlib.Path(root) / path).read_text(encoding="utf-8", errors="replace")


_TOKEN = re.compile(
    r"""(?P<line>//(?:[^\n\\]|\\.|\\\n)*)
      | (?P<block>/\*.*?\*/)
      | (?P<raw>R"(?P<delim>[^()\\\s]*)\(.*?\)(?P=delim)")
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<char>(?<![0-9A-Za-z_])'(?:[^'\\\n]|\\.)+')
    """,
    re.VERBOSE | re.DOTALL,
)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def code_only(text):
    """The text with comments and the insides of literals blanked; same length, same lines."""

    def replace(match):
        token = match.group(0)
        if match.group("line") or match.group("block"):
            return _blank(token)
        return token[0] + _blank(token[1:-1]) + token[-1]

    return _TOKEN.sub(replace, text)


def comments(text):
    """(first line number, text) of every comment."""
    return [
        (text.count("\n", 0, m.start()) + 1, m.group(0))
        for m in _TOKEN.finditer(text)
        if m.group("line") or m.group("block")
    ]


def without_preprocessor(code):
    """Blanks preprocessor lines with their continuations."""
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: _blank(m.group(0)), code, flags=re.MULTILINE)


@dataclass
class Function:
    name: str  # qualified as written; "Suite.Name" for a test case
    first_line: int
    last_line: int
    is_test: bool


@dataclass
class Statement:
    text: str  # up to the initializer
    line: int
    scope: str  # "namespace", "class" or "function"


@dataclass
class Scan:
    functions: list = field(default_factory=list)
    statements: list = field(default_factory=list)


@dataclass
class _Scope:
    kind: str  # namespace, class, enum, function, block, init
    head: str
    line: int
    parens: int  # depth of the enclosing scope's parentheses, restored at the end


def _strip_prefixes(head):
    head = " ".join(head.split())
    while True:
        before = head
        head = re.sub(r"^(?:public|private|protected)\s*:(?!:)\s*", "", head)
        head = re.sub(r"^\[\[.*?\]\]\s*", "", head)
        head = re.sub(r"\balignas\s*\([^()]*\)\s*", "", head)
        if head.startswith("template"):
            head = re.sub(r"^template\s*", "", _drop_angles(head))
        if head == before:
            return head


def _drop_angles(text):
    """Removes template argument lists, innermost first; operators with < or > do not count."""
    text = re.sub(r"operator\s*(?:<=>|<<=?|>>=?|->\*?|<=?|>=?)", "operator_", text)
    text = text.replace("->", "  ").replace("<=", "  ").replace(">=", "  ")
    while True:
        shorter = re.sub(r"<[^<>;{}]*>", "", text)
        if shorter == text:
            return text
        text = shorter


def _classify(head, in_parens):
    """What an opening brace starts, at namespace or class scope, from the text before it."""
    text = _strip_prefixes(head)
    if in_parens:
        return "init"
    if re.match(r"(?:inline\s+)?namespace\b|extern\s+\"", text):
        return "namespace"
    if re.match(r"enum\b", text):
        return "enum"
    if re.match(r"(?:class|struct|union)\b", text):
        return "class"
    plain = re.sub(r"operator\s*[^\s\w(]+", "operator_", _drop_angles(text))
    if "(" not in plain:
        return "init"
    if re.search(r"(?<![=!<>+\-*/%&|^])=(?!=)", re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)", "()", plain)):
        return "init"
    # A brace after `Foo() : member` initializes the member; after `)` or `}` it is the body.
    if re.search(r"\)[\w\s()]*(?<!:):(?!:)", plain) and re.search(r"[\w>]\s*$", text):
        return "init"
    return "function"


def _function_name(head):
    text = _strip_prefixes(head)
    test = re.match(r"(TEST|TEST_F|TEST_P|TYPED_TEST|BENCHMARK_F)\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)", text)
    if test:
        return f"{test.group(2)}.{test.group(3)}", True
    name = re.search(r"((?:~?\w+\s*::\s*)*(?:operator\s*(?:\(\)|[^\s(]+)|~?\w+))\s*\(", _drop_angles(text))
    return (re.sub(r"\s", "", name.group(1)) if name else text[:40]), False


class _Scanner:
    def __init__(self, text):
        self.text = without_preprocessor(code_only(text))
        self.scan = Scan()
        self.scopes = []
        self.head = []
        self.head_line = 0
        self.parens = 0
        self.line = 1

    def outer(self):
        """The kind of scope that statements now belong to."""
        for scope in reversed(self.scopes):
            if scope.kind in ("function", "namespace", "class", "enum"):
                return scope.kind
        return "namespace"

    def clear_head(self):
        self.head = []
        self.head_line = 0

    def add(self, char):
        if not self.head and char.isspace():
            return
        if not self.head:
            self.head_line = self.line
        self.head.append(char)

    def note_statement(self):
        text = "".join(self.head)
        if text.strip() and self.outer() != "enum":
            self.scan.statements.append(Statement(_strip_prefixes(text), self.head_line, self.outer()))

    def open_brace(self):
        head = "".join(self.head)
        kind = "block" if self.outer() == "function" else _classify(head, self.parens > 0)
        if any(scope.kind == "init" for scope in self.scopes):
            kind = "init"
        if kind == "block" and re.match(r"\s*(?:static|thread_local)\b", head):
            self.note_statement()
        self.scopes.append(_Scope(kind, head, self.head_line or self.line, self.parens))
        if kind != "init":
            self.clear_head()
            self.parens = 0

    def close_brace(self):
        if not self.scopes:
            return
        scope = self.scopes.pop()
        self.parens = scope.parens
        if scope.kind == "init":
            self.head.append("{}")
            return
        self.clear_head()
        if scope.kind == "function":
            name, is_test = _function_name(scope.head)
            self.scan.functions.append(Function(name, scope.line, self.line, is_test))
        elif scope.kind in ("class", "enum"):
            self.head, self.head_line = list(scope.kind + " {}"), self.line

    def run(self):
        for char in self.text:
            if char == "\n":
                self.line += 1
            if char == "{":
                self.open_brace()
            elif char == "}":
                self.close_brace()
            elif char == ";" and self.parens == 0 and not self._in_init():
                self.note_statement()
                self.clear_head()
            elif not self._in_init():
                self.parens += {"(": 1, ")": -1}.get(char, 0)
                self.parens = max(self.parens, 0)
                self.add(char)
        return self.scan

    def _in_init(self):
        return bool(self.scopes) and self.scopes[-1].kind == "init"


@functools.lru_cache(maxsize=None)
def scan(text):
    """Functions (with test cases) and statements of one C++ file."""
    return _Scanner(text).run()


def is_mutable_variable(statement):
    """Whether the statement declares a variable that can change and outlives its scope."""
    text = statement.text
    # Checked by keyword: each of these starts something that is no variable.
    if re.match(r"(?:using|typedef|class|struct|union|enum|extern|static_assert|friend|namespace|concept|return)\b", text):
        return False
    storage = bool(re.match(r"(?:(?:inline|constinit)\s+)*(?:static|thread_local)\b", text))
    if statement.scope in ("class", "function") and not storage:
        return False
    declarator = re.split(r"=|\{", _drop_angles(text), maxsplit=1)[0].strip()
    if re.search(r"\bconstexpr\b|\boperator", declarator):
        return False
    if "(" in declarator:
        if statement.scope != "function":
            return False
        declarator = declarator.split("(", 1)[0].strip()
    if not re.match(r"(?:[\w:]+[\s*&]+)+\w+(?:\s*\[[^\]]*\])*$", declarator):
        return False
    if "*" in declarator:
        return not re.search(r"\*\s*const\b[^*]*$", declarator)
    return not re.search(r"\bconst\b", declarator)


class BadTree:
    """A small tree in a temporary directory, for the self-tests."""

    def __init__(self, contents):
        self.contents = contents

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory()
        for path, text in self.contents.items():
            target = pathlib.Path(self.directory.name) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        return self.directory.name

    def __exit__(self, *unused):
        self.directory.cleanup()


def expect(check, contents, *wanted):
    """The check on this tree finds exactly one problem per wanted text, in order."""
    with BadTree(contents) as root:
        problems = check(root)
    missing = [w for w, p in zip(wanted, problems) if w not in p]
    if missing or len(problems) != len(wanted):
        listing = "\n  ".join(problems) or "(none)"
        raise AssertionError(f"wanted {list(wanted)}, found:\n  {listing}")


def main(check, self_test, add_arguments=None, description=None):
    """Runs check(root) -> problems, or the self-test. Exit code 0: none, 1: some."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--self-test", action="store_true", help="prove that each rule can fail")
    if add_arguments:
        add_arguments(parser)
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        print("self-test: every rule can fail")
        return 0
    problems = check(arguments.root) if not add_arguments else check(arguments.root, arguments)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"{len(problems)} problem(s)", file=sys.stderr)
        return 1
    return 0
