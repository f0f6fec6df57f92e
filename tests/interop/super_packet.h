// SPDX-License-Identifier: Apache-2.0
// Random super-packets for comparisons with the kernel's segmentation: frames and the virtio-net
// header that goes before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "drivers/tap/vnet_hdr.h"
#include "netdev/base/random.h"
#include "netdev/packet/packet.h"
#include "tests/testutil/packet_builder.h"

namespace tapwire::interop {

using testutil::ByteVector;

// What is not left to chance.
struct SuperPacketSpec {
  bool v6 = false;
  bool udp = false;
  bool plain = false;          // no options, no extension headers, no tag
  bool complete = false;       // no partial checksum; the field holds anything (TCP)
  bool zero_checksum = false;  // one of the segments sums up to 0xffff
};

struct SuperPacket {
  SuperPacketSpec spec;
  ByteVector frame;  // from the Ethernet header on
  drivers::VnetHdr hdr;
  size_t network_offset = 0;
  size_t transport_offset = 0;
  size_t payload_offset = 0;
  std::string description;

  bool is_complete() const { return (hdr.flags & drivers::VnetHdr::kNeedsCsum) == 0; }
  GsoInfo gso() const;  // as the header has it
};

// 2 to about 700 segments: random sizes, addresses, identifications, flags, options, extension
// headers, at times a VLAN tag.
SuperPacket RandomSuperPacket(const SuperPacketSpec& spec, Random& random);

// Puts the sum of the pseudo-header into the checksum field, as a sender does that leaves the rest
// to the device; again after a change of the frame.
void PrepareChecksum(SuperPacket& super);

// Addresses of all frames that are sent here: one station to another that no bridge knows.
void PutLinkHeader(std::span<uint8_t> frame, uint16_t ether_type);
bool IsFromUs(std::span<const uint8_t> frame);

}  // namespace tapwire::interop
