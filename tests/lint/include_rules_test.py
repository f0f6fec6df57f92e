#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom (docs/architecture.md, dependency rules), and no state outside objects.

Rules, by number: 1 base and wire know only base; 2 netdev never includes stack; 3 drivers include
netdev and drivers/bus; 4 tcp and udp are apart, tcp's leaves know neither connection nor tcb;
5 libuv, libpcap and operating-system headers only where they belong, and no clock below the
runner; 6 no mutable variable of static storage.
"""

import re
import sys

import lintlib

CORE = ("stack/eth/", "stack/arp/", "stack/ipv4/", "stack/ipv6/", "stack/icmp/", "stack/ndp/")
STACK_ROOT = r"stack/[^/]+$"
ANY_LAYER = ("netdev/", "drivers/", "stack/", "apps/")

# (folder, what its files may include, rule). The first folder that fits counts. An entry that is
# no plain prefix is a regular expression for the whole path.
LAYERS = [
    ("netdev/base/", ("netdev/base/",), 1),
    ("netdev/wire/", ("netdev/wire/", "netdev/base/"), 1),
    ("netdev/packet/", ("netdev/packet/", "netdev/base/"), 1),
    ("netdev/", ("netdev/",), 2),
    ("drivers/bus/", ("drivers/bus/", "netdev/"), 3),
    ("drivers/bgmac/", ("drivers/bgmac/", r"drivers/bus/(mmio|dma|irq)\.h$", "netdev/"), 3),
    ("stack/tcp/", ("stack/tcp/", STACK_ROOT, "netdev/"), 4),
    ("stack/udp/", ("stack/udp/", STACK_ROOT, "netdev/"), 4),
    # The only library with libuv; it runs a context and knows no stack.
    ("stack/sockets/uv/", ("stack/sockets/uv/", "netdev/"), 5),
    ("stack/sockets/", (r"stack/(?!sockets/uv/).*", "netdev/"), 4),
    ("stack/", (STACK_ROOT, *CORE, "netdev/"), 4),
    # The capture checker reads captures of any stack: it must not share code with ours.
    ("apps/capture/", ("apps/capture/", "netdev/wire/", "netdev/base/"), 1),
    ("apps/", ANY_LAYER, 4),
    ("examples/", (*ANY_LAYER, "examples/"), 4),
    ("bench/", (*ANY_LAYER, "bench/", "tests/testutil/"), 4),
    ("tests/", (*ANY_LAYER, "tests/"), 4),
]

TCP_LEAF = re.compile(
    r"stack/tcp/(seq|rtt_estimator|rack|tlp|sack_scoreboard|rtx_queue|reassembly|cc_\w+)\.(h|cc)$"
)

# Header name -> the files that may include it.
APPS_ONLY = r"(apps|bench|tests/apps|tests/interop)/"
PLACED_HEADERS = [
    (r"uv(/.*)?\.h$", r"(stack/sockets/uv/|stack/sockets/uv_runner|apps/|bench/|examples/|tests/)", "libuv"),
    (r"pcap(/.*)?(\.h)?$", r"(drivers/pcap/|apps/)", "libpcap"),
    (r"(gtest|gmock)/", r"tests/", "GoogleTest"),
    (r"benchmark/", r"bench/", "google-benchmark"),
    (r"(CLI|nlohmann|toml\+\+|toml)(/|\.)", APPS_ONLY, "CLI11, nlohmann-json and tomlplusplus"),
]

OS_HEADER_PLACES = re.compile(
    r"netdev/pipe\.cc$|netdev/packet/chunk_source\.cc$|drivers/"
    r"|stack/sockets/(socket_table|socket_options|uv_runner|thread_runner|system_environment)[^/]*$|stack/sockets/uv/"
    r"|apps/|tests/|examples/|bench/"
)
# Of the compiler, not of the system: vector instructions, their detection, sanitizers.
COMPILER_HEADERS = {
    "immintrin.h", "x86intrin.h", "cpuid.h", "arm_neon.h",
    "sanitizer/asan_interface.h", "sanitizer/tsan_interface.h",
}
C_HEADERS = {"assert.h", "errno.h", "inttypes.h", "limits.h", "stdarg.h", "stddef.h", "stdint.h", "string.h"}

# Time comes from the context; only a runner, which connects it to the world, reads a clock.
CLOCK = re.compile(
    r"\b\w*_clock\s*::\s*now\b|\bclock_gettime\s*\(|\bgettimeofday\s*\(|\btime\s*\(\s*(?:nullptr|NULL|0)\s*\)"
    r"|\bsleep_(?:for|until)\b|\brandom_device\b"
)
CLOCK_PLACES = re.compile(r"stack/sockets/(uv/|uv_runner|thread_runner|system_environment)")

# Rule 6's exceptions: file -> pattern of the variable's declaration.
STATE_ALLOWED = [
    (r"netdev/base/log(_\w+)?\.(h|cc)$", r"verbosity|level|sink"),
    (r"netdev/wire/checksum\w*\.(h|cc)$", r"."),
]

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def layer_of(path):
    for folder, allowed, rule in LAYERS:
        if path.startswith(folder):
            return folder, allowed, rule
    driver = re.match(r"drivers/[^/]+/", path)
    if driver:
        return driver.group(0), (driver.group(0), "drivers/bus/", "netdev/"), 3
    return None, (), 0


def fits(target, allowed):
    return any(target.startswith(a) or re.fullmatch(a, target) for a in allowed)


def check_project_include(root, path, target):
    if not (lintlib.pathlib.Path(root) / target).is_file():
        return "rule 0: not a file of the repository; write the path from its root"
    _, allowed, rule = layer_of(path)
    if not fits(target, allowed):
        return f"rule {rule}: {path.rsplit('/', 1)[0]} may include only {', '.join(allowed)}"
    if TCP_LEAF.match(path) and target in ("stack/tcp/connection.h", "stack/tcp/tcb.h"):
        return "rule 4: a leaf algorithm takes its inputs as parameters"
    return None


def check_foreign_include(path, bracket, target):
    if target.startswith("absl/"):
        return None if bracket == '"' else "rule 0: write abseil's headers in quotes"
    for header, places, what in PLACED_HEADERS:
        if re.match(header, target):
            return None if re.match(places, path) else f"rule 5: {what} has no place here"
    if bracket == '"':
        return "project"
    standard = "." not in target and "/" not in target
    if standard or target in COMPILER_HEADERS or target in C_HEADERS or OS_HEADER_PLACES.match(path):
        return None
    return "rule 5: an operating-system header has no place here"


def check_includes(root, path, text):
    problems = []
    # The include lines are read from the text itself: in code_only their quotes would be empty.
    live = lintlib.code_only(text)
    for match in INCLUDE.finditer(text):
        if live[match.start(1)] == " ":
            continue  # inside a comment
        bracket, target = match.groups()
        wrong = check_foreign_include(path, bracket, target)
        if wrong == "project":
            wrong = check_project_include(root, path, target)
        if wrong:
            line = text.count("\n", 0, match.start(1)) + 1
            problems.append(f"{path}:{line}: includes {target}: {wrong}")
    return problems


def check_clocks(path, text):
    if not path.startswith(lintlib.LIBRARY_DIRS) or CLOCK_PLACES.match(path):
        return []
    code = lintlib.code_only(text)
    return [
        f"{path}:{code.count(chr(10), 0, m.start()) + 1}: rule 5: {m.group(0).strip()} reads a clock or randomness"
        " of the system; take both from the context"
        for m in CLOCK.finditer(code)
    ]


def check_state(path, text):
    if not path.startswith(lintlib.LIBRARY_DIRS):
        return []
    problems = []
    for statement in lintlib.scan(text).statements:
        if not lintlib.is_mutable_variable(statement):
            continue
        if any(re.match(f, path) and re.search(v, statement.text) for f, v in STATE_ALLOWED):
            continue
        problems.append(
            f"{path}:{statement.line}: rule 6: mutable variable of static storage: {statement.text[:60]}"
        )
    return problems


def check(root):
    problems = []
    for path in lintlib.files(root):
        text = lintlib.read(root, path)
        problems += check_includes(root, path, text) + check_clocks(path, text) + check_state(path, text)
    return problems


GOOD = {
    "netdev/base/time.h": "#include <chrono>\n",
    "netdev/wire/tcp.h": '#include "netdev/base/time.h"\n#include <immintrin.h>\n',
    "netdev/packet/packet.h": '#include "absl/strings/string_view.h"\n',
    "netdev/pipe.cc": "#include <sys/eventfd.h>\n",
    "stack/stack.h": '#include "netdev/packet/packet.h"\n',
    "stack/ipv4/ipv4.h": "",
    "stack/tcp/tcb.h": "",
    "stack/tcp/rack.h": '// #include "stack/tcp/tcb.h"\n',
    "stack/sockets/uv/uv_runner.cc": "#include <uv.h>\nint F() { return std::chrono::steady_clock::now(); }\n",
    "stack/state.cc": (
        "namespace tapwire {\nconstexpr int kA = 1;\nconst char* const kB[] = {\"x\"};\nint Count(int n);\n"
        "class C {\n  static constexpr int kD = 2;\n  static int Make(int x);\n  int member_ = 0;\n};\n"
        "int Count(int n) {\n  static const int kTable[] = {1, 2};\n  for (int i = 0; i < n; ++i) {}\n"
        "  return kTable[0];\n}\nusing F = int (*)(int);\n}\n"
    ),
    "netdev/base/log.cc": "int g_verbosity = 0;\n",
    "tests/a_test.cc": '#include <sys/socket.h>\n#include <gtest/gtest.h>\n#include "stack/stack.h"\nint g = 0;\n',
}


def self_test():
    lintlib.expect(check, GOOD)
    for path, text, wanted in [
        ("netdev/base/x.h", '#include "netdev/wire/tcp.h"\n', "rule 1"),
        ("netdev/wire/x.h", '#include "netdev/packet/packet.h"\n', "rule 1"),
        ("netdev/x.h", '#include "stack/stack.h"\n', "rule 2"),
        ("drivers/tap/x.h", '#include "stack/stack.h"\n', "rule 3"),
        ("stack/tcp/x.h", '#include "stack/ipv4/ipv4.h"\n', "rule 4"),
        ("stack/udp/x.h", '#include "stack/tcp/tcb.h"\n', "rule 4"),
        ("stack/udp/x.h", '#include "stack/ipv4/ipv4.h"\n', "rule 4"),
        ("stack/tcp/rack.cc", '#include "stack/tcp/tcb.h"\n', "rule 4: a leaf"),
        ("stack/x.h", "#include <uv.h>\n", "libuv"),
        ("stack/x.h", "#include <sys/socket.h>\n", "operating-system"),
        ("apps/capture/x.cc", '#include "stack/stack.h"\n', "rule 1"),
        ("drivers/tap/x.cc", "#include <pcap/pcap.h>\n", "libpcap"),
        ("netdev/x.h", "#include <gtest/gtest.h>\n", "GoogleTest"),
        ("netdev/x.h", '#include "tcp.h"\n', "rule 0"),
        ("netdev/x.cc", "int F() { return std::chrono::steady_clock::now(); }\n", "reads a clock"),
        ("stack/x.cc", "namespace a {\nint g_count = 0;\n}\n", "rule 6"),
        ("stack/x.cc", "namespace {\nstd::vector<int> g_list;\n}\n", "rule 6"),
        ("stack/x.cc", 'const char* g_name = "a";\n', "rule 6"),
        ("stack/x.cc", "int F() {\n  static int calls = 0;\n  return ++calls;\n}\n", "rule 6"),
        ("stack/x.cc", "int F() {\n  static Foo foo{1};\n  return 1;\n}\n", "rule 6"),
        ("stack/x.h", "class C {\n  inline static int n_ = 0;\n};\n", "rule 6"),
        ("stack/x.h", "thread_local int t_depth = 0;\n", "rule 6"),
    ]:
        lintlib.expect(check, {**GOOD, path: text}, wanted)


if __name__ == "__main__":
    sys.exit(lintlib.main(check, self_test, description=__doc__))
