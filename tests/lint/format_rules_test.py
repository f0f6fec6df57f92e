#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules of form: the licence line, TODO(#n), how an RFC is cited, and nothing that holds on one
machine only."""

import pathlib
import re
import sys

import lintlib

SPDX = "SPDX-License-Identifier: Apache-2.0"
SOURCES = (".h", ".cc", ".py")
SCRIPT_DIRS = ("scripts", ".ci")

UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b(?!\(#\d+\))|\bTODO\(#\d+\)(?!: \S)")
NOT_BUILT = re.compile(r"\bnot (?:yet )?implemented\b", re.IGNORECASE)

# Replaced documents and what to cite instead; a line that says "obsolete" may name them.
OBSOLETE = {
    793: 9293, 879: 9293, 6429: 9293, 6528: 9293, 6691: 9293, 1323: 7323, 2581: 5681, 2988: 6298, 3517: 6675,
    6937: 9937, 8312: 9438, 1981: 8201, 2460: 8200, 2461: 4861, 2462: 4862, 2463: 4443, 3376: 9776, 3810: 9777,
    3041: 8981, 4941: 8981, 3484: 6724, 5006: 8106, 6106: 8106, 3315: 9915, 8415: 9915, 1885: 4443,
}
ANY_RFC = re.compile(r"\bRFCs?[\s-]*(\d{2,5})\b(?P<rest>[^\n]{0,24})", re.IGNORECASE)
GOOD_SECTION = re.compile(r",? §§?[A-Z\d]")
BAD_SECTION = re.compile(r"^,?\s*(?:§\s|§(?![§A-Z\d])|(?<! )§|sections?\b|sec\b|s\.\s?\d|ch(?:apter)?\b|\d+\.\d)", re.IGNORECASE)
DRAFT = re.compile(r"\bdraft-(?:ietf|irtf)-[\w-]+")

# A path from the root is fine when every Linux system has it.
ABSOLUTE_PATH = re.compile(r"(?:(?<=^)|(?<=[\s\"'`(=]))/([a-zA-Z][\w.-]*)/[\w.{$-]")
SYSTEM_DIRS = {"bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "tmp", "usr", "var", "path", "nonexistent"}
REGISTRY_HOST = re.compile(r"\b(?:deb|security|snapshot|registry|proxy|pypi|files)\.[a-z-]+\.(?:org|com|net|io)\b")
TEXT_SUFFIXES = (".h", ".cc", ".py", ".sh", ".cmake", ".md", ".txt", ".tsv", ".json", ".in", ".toml", "")
TEXT_DIRS = lintlib.SOURCE_DIRS + ("scripts", ".ci", "cmake", "docs")


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def check_licence(path, text):
    lines = text.splitlines()
    if lines and lines[0].startswith("#!"):
        lines = lines[1:]
    if not lines or lines[0] not in (f"// {SPDX}", f"# {SPDX}"):
        return [f"{path}:1: the first line (after #!) is the licence: {SPDX}"]
    return []


def check_unfinished(path, text):
    problems = [
        f"{path}:{line_of(text, m.start())}: write TODO(#issue): what, or do it now" for m in UNFINISHED.finditer(text)
    ]
    problems += [
        f"{path}:{line_of(text, m.start())}: say what happens instead of '{m.group(0)}'" for m in NOT_BUILT.finditer(text)
    ]
    return problems


def check_citation(path, text, match):
    where = f"{path}:{line_of(text, match.start())}"
    number, rest = match.group(1), match.group("rest")
    if match.group(0)[: len(f"RFC {number}")] != f"RFC {number}" and not match.group(0).startswith("RFCs "):
        return f"{where}: write RFC {number} with capitals and one blank"
    if BAD_SECTION.match(rest) and not GOOD_SECTION.match(rest):
        return f"{where}: cite a section as RFC {number} §x.y"
    # The whole sentence may stand over two lines.
    around = text[max(0, match.start() - 160) : match.end() + 100]
    if int(number) in OBSOLETE and "obsolete" not in around.lower():
        return f"{where}: RFC {number} was replaced: cite RFC {OBSOLETE[int(number)]}"
    return None


def check_citations(path, text):
    problems = [p for p in (check_citation(path, text, m) for m in ANY_RFC.finditer(text)) if p]
    for match in DRAFT.finditer(text):
        problems.append(f"{path}:{line_of(text, match.start())}: cite an RFC, not {match.group(0)}")
    return problems


def check_places(path, text):
    problems = []
    for match in ABSOLUTE_PATH.finditer(text):
        if match.group(1) not in SYSTEM_DIRS:
            problems.append(f"{path}:{line_of(text, match.start())}: /{match.group(1)}/ exists on one machine only")
    for match in REGISTRY_HOST.finditer(text):
        problems.append(f"{path}:{line_of(text, match.start())}: {match.group(0)}: a host name of a package registry")
    return problems


def text_files(root):
    top = [p.name for p in pathlib.Path(root).iterdir() if p.is_file() and p.suffix in (*TEXT_SUFFIXES, ".yaml")]
    return sorted(top) + lintlib.files(root, TEXT_DIRS, TEXT_SUFFIXES)


def is_source(path):
    return path.endswith(SOURCES) or (path.startswith(SCRIPT_DIRS) and "." not in path.rsplit("/", 1)[1])


def check(root):
    problems = []
    for path in text_files(root):
        # The rules' own words stand in this file; a fuzz corpus is bytes, not text.
        if path.startswith("tests/fuzz/corpus/") or path in ("tests/lint/format_rules_test.py", "LICENSE"):
            continue
        text = lintlib.read(root, path)
        if is_source(path):
            problems += check_licence(path, text) + check_unfinished(path, text)
        if path.endswith((".h", ".cc")):
            problems += check_citations(path, text)
        problems += check_places(path, text)
    return problems


def self_test():
    head = f"// {SPDX}\n"
    good = {
        "netdev/a.h": head + "// RFC 1122 §3.2.1.3: no answer. RFC 791 §3.1 (TODO(#12): options) and RFC 8200.\n",
        "netdev/b.h": head + "// RFC 793 was obsoleted by RFC 9293 §1. RFC 4861 Appendix C, RFC 5227 §§2.1-2.4.\n",
        "netdev/c.cc": head + "// As RFC 9293 MUST-60 asks.\nint a = b /c/ d;\nauto* p = \"/dev/net/tun\";\n",
        "scripts/x": f"#!/usr/bin/env bash\n# {SPDX}\ncat /proc/self/stat\n",
        "docs/a.md": "Addresses like 10.9.0.2/24 and build/<preset>/bin/tapwire, and/or `tests/x`.\n",
    }
    lintlib.expect(check, good)
    for path, text, wanted in [
        ("netdev/x.h", "#pragma once\n", "licence"),
        ("scripts/y", "#!/usr/bin/env bash\ntrue\n", "licence"),
        ("netdev/x.h", head + "// TODO: later\n", "TODO(#issue)"),
        ("netdev/x.h", head + "// FIXME(#3): later\n" .replace("(#3)", ""), "TODO(#issue)"),
        ("netdev/x.h", head + "// not yet implemented\n", "say what happens"),
        ("netdev/x.h", head + "// RFC1122 §3\n", "one blank"),
        ("netdev/x.h", head + "// rfc 1122 §3\n", "one blank"),
        ("netdev/x.h", head + "// RFC 1122 section 3.2\n", "cite a section"),
        ("netdev/x.h", head + "// RFC 1122, sec. 3.2\n", "cite a section"),
        ("netdev/x.h", head + "// RFC 1122 § 3.2\n", "cite a section"),
        ("netdev/x.h", head + "// RFC 1122 3.2.1\n", "cite a section"),
        ("netdev/x.h", head + "// RFC 2460 §4.5\n", "cite RFC 8200"),
        ("netdev/x.h", head + "// draft-ietf-tcpm-rack-08\n", "not draft-"),
        ("docs/x.md", "see /home/me/notes/a\n", "/home/ exists"),
        ("CMakeLists.txt", 'set(x "/opt/thing/lib")\n', "/opt/ exists"),
        ("docs/x.md", "from deb.example.org\n", "package registry"),
    ]:
        lintlib.expect(check, {**good, path: text}, wanted)


if __name__ == "__main__":
    sys.exit(lintlib.main(check, self_test, description=__doc__))
