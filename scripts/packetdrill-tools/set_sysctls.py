#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands for the helper of the same name that comes with script collections, which sets sysctls by
their paths: writes them to the file that the plug-in reads (docs/packetdrill.md).

  set_sysctls.py /proc/sys/net/ipv4/key=value...
"""

import os
import sys


def main():
    path = os.environ.get("TAPWIRE_PACKETDRILL_SETTINGS")
    if not path:
        sys.exit("TAPWIRE_PACKETDRILL_SETTINGS names the file of settings that the plug-in reads")
    with open(path, "a", encoding="utf-8") as file:
        for word in sys.argv[1:]:
            key, equals, value = word.partition("=")
            if equals:
                file.write(f"{key.removeprefix('/proc/sys/').replace('/', '.')}={value}\n")


if __name__ == "__main__":
    main()
