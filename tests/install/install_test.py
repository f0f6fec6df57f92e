#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs a build tree and uses it the way a packager and a user would.

The installed tree is moved before use, so that nothing in it may know where it was installed.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys


def run(command, **options):
    print("+", " ".join(str(c) for c in command), flush=True)
    done = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nexit code {done.returncode}")
    return done.stdout


# Headers with short macros for our own sources: a user's program gets those only by including one of
# these itself.
ON_REQUEST = {"netdev/base/check.h", "netdev/base/log.h", "netdev/base/status_util.h"}


def check_headers(prefix):
    """Macros have no namespace: an installed header defines none but those that start with TAPWIRE_."""
    include = prefix / "include" / "tapwire"
    headers = sorted(include.rglob("*.h"))
    if not headers:
        sys.exit(f"no headers below {include}")
    for header in headers:
        text = header.read_text(encoding="utf-8")
        place = str(header.relative_to(include))
        for name in re.findall(r"^\s*#\s*define\s+(\w+)", text, re.MULTILINE):
            if not name.startswith("TAPWIRE_") and not (place in ON_REQUEST and name.startswith("TW_")):
                sys.exit(f"{place}: the macro {name} could be anybody's")
        for other in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.MULTILINE):
            if other in ON_REQUEST:
                sys.exit(f"{place}: brings the TW_ macros of {other} to its users")
    print(f"{len(headers)} headers installed")


def check_relocatable(prefix, first_prefix, build):
    for path in list(prefix.rglob("*.cmake")) + list(prefix.rglob("*.pc")):
        text = path.read_text(encoding="utf-8")
        for place in (first_prefix, build):
            if str(place) in text:
                sys.exit(f"{path.name} names {place}")


def build_with_cmake(arguments, prefix, flags):
    build = arguments.scratch / "with-cmake"
    run(["cmake", "-S", arguments.source, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
         f"-DCMAKE_CXX_COMPILER={arguments.compiler}", f"-DCMAKE_CXX_FLAGS={' '.join(flags)}"])
    run(["cmake", "--build", build])
    return build / "user_program"


def build_with_pkg_config(arguments, prefix, flags):
    program = arguments.scratch / "with-pkg-config"
    directories = [p.parent for p in prefix.rglob("tapwire.pc")]
    environment = {**os.environ, "PKG_CONFIG_PATH": ":".join(str(d) for d in directories)}
    words = run(["pkg-config", "--cflags", "--libs", "tapwire-uv"], env=environment).split()
    run([arguments.compiler, "-std=c++20", *flags, arguments.source / "user_program.cc", "-o", program, *words])
    version = run(["pkg-config", "--modversion", "tapwire"], env=environment).strip()
    if version != arguments.version:
        sys.exit(f"tapwire.pc says {version}, the project {arguments.version}")
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--scratch", type=pathlib.Path, required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--sanitize", default="")
    parser.add_argument("--version", required=True)
    arguments = parser.parse_args()
    shutil.rmtree(arguments.scratch, ignore_errors=True)
    first_prefix, prefix = arguments.scratch / "first", arguments.scratch / "prefix"
    run(["cmake", "--install", arguments.build, "--prefix", first_prefix])
    first_prefix.rename(prefix)
    check_headers(prefix)
    check_relocatable(prefix, first_prefix, arguments.build)
    flags = [f"-fsanitize={arguments.sanitize}"] if arguments.sanitize else []
    for program in (build_with_cmake(arguments, prefix, flags), build_with_pkg_config(arguments, prefix, flags)):
        print(run([program]), end="")
    print(run([prefix / "bin" / "tapwire", "--version"]), end="")
    shutil.rmtree(arguments.scratch)


if __name__ == "__main__":
    main()
