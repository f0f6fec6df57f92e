#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a persistent TAP for another user, through a device node of the caller's choice.

`ip tuntap` can only use /dev/net/tun; this names the file and the errno when it fails.
"""

import argparse
import errno
import fcntl
import os
import struct
import sys

TUNSETIFF, TUNSETPERSIST, TUNSETOWNER = 0x400454CA, 0x400454CB, 0x400454CC
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("node", help="device node, such as /dev/net/tun")
    parser.add_argument("name", help="interface name")
    parser.add_argument("uid", type=int, help="user who may attach")
    arguments = parser.parse_args()
    what = f"open {arguments.node}"
    try:
        tap = os.open(arguments.node, os.O_RDWR)
        what = f"TUNSETIFF {arguments.name} on {arguments.node}"
        request = struct.pack("16sH22x", arguments.name.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR)
        fcntl.ioctl(tap, TUNSETIFF, request)
        what = f"TUNSETOWNER on {arguments.name}"
        fcntl.ioctl(tap, TUNSETOWNER, arguments.uid)
        what = f"TUNSETPERSIST on {arguments.name}"
        fcntl.ioctl(tap, TUNSETPERSIST, 1)
    except OSError as error:
        print(f"{what}: {error.strerror} ({errno.errorcode.get(error.errno, error.errno)})", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
