// SPDX-License-Identifier: Apache-2.0
// Between packets of a script and IP datagrams. Here sequence numbers are those on the wire; Flow
// translates.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "apps/pkt/ast.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::pkt {

// The bytes that the peer's stream has at a sequence number of the script: so that what is read can
// be told from what should have been.
constexpr uint8_t PeerByte(uint32_t seq) { return static_cast<uint8_t>(seq * 7 + (seq >> 8)); }

// Source and destination of a datagram.
struct Ends {
  Endpoint source, destination;
};

// Builds an IP datagram from `packet`; `first_byte` is the peer's stream position of the payload.
// A segment beyond the 65,535 bytes of a datagram is split by the caller.
std::vector<uint8_t> BuildDatagram(const Ends& ends, const PacketSpec& packet, uint32_t first_byte);
// An ICMP error about a packet of ours that went from quoted.source to quoted.destination; sent by
// the destination. None: the family has no such message.
std::optional<std::vector<uint8_t>> BuildIcmp(const Ends& quoted, const IpSpec& ip,
                                              const IcmpSpec& icmp);

// A datagram that the stack sent.
struct ParsedDatagram {
  Ends ends;
  PacketSpec packet;
  std::vector<uint8_t> payload;
  // Why it must not be on a wire (wrong checksum, broken header); empty: it is sound.
  std::string damage;
};
// None: neither TCP, UDP nor an ICMP message that scripts speak of (neighbour discovery, groups).
std::optional<ParsedDatagram> ParseDatagram(std::span<const uint8_t> bytes);

// The options of a TCP header, one by one.
std::vector<OptionSpec> ParseOptionBytes(std::span<const uint8_t> bytes);
std::vector<uint8_t> BuildOptionBytes(const std::vector<OptionSpec>& options);

}  // namespace tapwire::pkt
