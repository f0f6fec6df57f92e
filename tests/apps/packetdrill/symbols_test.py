#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The plug-in exports its entry and nothing else, has no sanitizer, and needs no symbol that its
own libraries do not give; the preload library exports what it stands in front of.

  symbols_test.py PLUGIN PRELOAD
"""

import re
import subprocess
import sys


def names(path, *options):
    out = subprocess.run(["nm", "-D", *options, path], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines()}


def check(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {sorted(found)}, wanted {sorted(wanted)}")


def main():
    plugin, preload = sys.argv[1:]
    check("exported by the plug-in", names(plugin, "--defined-only"), {"packetdrill_interface_init"})
    check(
        "exported by the preload library",
        names(preload, "--defined-only"),
        {"close", "getsockopt", "sendfile", "sendfile64", "tapwire_packetdrill_register"},
    )
    for path in (plugin, preload):
        runtime = {n for n in names(path, "--undefined-only") if re.match(r"__(asan|ubsan|tsan|msan|lsan)_", n)}
        check(f"sanitizer symbols of {path}", runtime, set())


if __name__ == "__main__":
    main()
