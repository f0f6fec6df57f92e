// SPDX-License-Identifier: Apache-2.0
//
// Frames that find out whether a kernel takes super-packets of one kind. Kernel updates have come
// to refuse, with EINVAL, what they took before, so the version number proves nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "drivers/tap/vnet_hdr.h"
#include "netdev/wire/mac_address.h"

namespace tapwire::drivers {

enum class ProbeKind : uint8_t { kTcpv4, kTcpv6, kUdpL4 };
inline constexpr ProbeKind kProbeKinds[] = {ProbeKind::kTcpv4, ProbeKind::kTcpv6,
                                            ProbeKind::kUdpL4};

struct ProbeFrame {
  VnetHdr hdr;
  std::vector<uint8_t> bytes;  // from the Ethernet header on, headers complete
};

// A super-packet of one and a half segments, the uneven tail being what kernels trip over. Source
// and destination are both `mac`, our own: the kernel's end takes it for somebody else's frame, and
// a bridge does not send it back to the port that it just learned the address on. Addresses are
// those for documentation (RFC 5737, RFC 3849), TTL 1.
ProbeFrame MakeProbeFrame(ProbeKind kind, const MacAddress& mac);

}  // namespace tapwire::drivers
