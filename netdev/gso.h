// SPDX-License-Identifier: Apache-2.0
// Software segmentation of super-packets: TCP over IPv4 and IPv6, and UDP payloads
// that are to become many datagrams (kUdpL4). Tunnels, SCTP and IP fragmentation are
// refused.
#pragma once

#include <cstddef>

#include "netdev/base/drop_reason.h"
#include "netdev/features.h"
#include "netdev/packet/packet.h"
#include "netdev/packet/packet_list.h"

namespace tapwire::netdev {

struct SegmentResult {
  PacketList segments;                   // in order; empty with kNone: `packet` may go out as it is
  DropReason error = DropReason::kNone;  // why it could not be segmented
};

inline bool IsGso(const Packet& packet) { return packet.meta.gso.size != 0; }

// The feature bits a device must have to take this packet unsegmented.
FeatureSet RequiredGsoFeatures(const Packet& packet);

// Whether type, size and checksum position can be true of this packet, whatever the
// device: a type needs a size and vice versa, and names a kind; a partial checksum's
// start and field lie behind the link header and inside the data. kNone,
// kTxBadGsoMetadata or kTxBadChecksumMetadata.
DropReason CheckOffloadMetadata(const Packet& packet);

// Moves the headers of a TCP or UDP packet into the linear part if they are not there,
// as far as they can be found. False if there is no memory.
[[nodiscard]] bool LinearizeHeaders(Packet& packet);

// Checks the headers of a super-packet and completes what a device or SegmentPacket()
// relies on: headers in the linear part, segment count, and for TCP the pseudo-header
// sum (state kPartial). UDP must be kPartial already. Returns kNone, or why the packet
// cannot be segmented by anyone.
DropReason PrepareGso(Packet& packet);

// Cuts `packet` (data() at the Ethernet header, headers in the linear part) into frames
// of gso.size payload bytes. With `features` that checksum the protocol the segments
// stay kPartial, otherwise their checksums are complete; with kSg payload is shared,
// otherwise copied. Per segment: lengths, IPv4 header checksum and identification + 1
// (unless kFixedId), TCP sequence, FIN and PSH only on the last, CWR only on the first
// (unless kTcpAccEcn). No segment is a GSO packet. `packet` is not changed. Nothing is
// cut if `features` allow the device to do it.
//
// `with_help` are kinds that the device segments only with kGsoPartial. If they make
// the difference, what comes out is one super-packet of type kPartial of as many whole
// segments as there are, its network header that of its first segment, and a frame
// with the rest.
SegmentResult SegmentPacket(SlabPool& pool, const Packet& packet, FeatureSet features,
                            FeatureSet with_help = {});

}  // namespace tapwire::netdev
