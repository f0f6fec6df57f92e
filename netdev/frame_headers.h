// SPDX-License-Identifier: Apache-2.0
// Where the headers of an Ethernet frame are, found by reading them. The offload
// decisions of this layer rely on this and not on the offsets in the metadata,
// which an untrusted source of frames may have set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "netdev/wire/ip_address.h"

namespace tapwire::netdev {

// The link header with its VLAN tags.
struct LinkHeaders {
  uint16_t ether_type = 0;  // behind the tags; a tag's own type if the frame ends
  size_t length = 0;        // offset of the network header
  int tags = 0;             // tags in the data
};

// `frame` starts at the Ethernet header and holds at least that.
LinkHeaders ParseLinkHeaders(std::span<const uint8_t> frame);

// Everything in front of the payload of an unfragmented TCP or UDP packet. Offsets
// count from the Ethernet header.
struct TransportHeaders {
  uint16_t ether_type = 0;  // kIpv4 or kIpv6
  uint8_t protocol = 0;     // kTcp or kUdp
  bool ipv6_extensions = false;
  bool dont_fragment = false;  // IPv4 DF
  int tags = 0;
  size_t l3 = 0;
  size_t l4 = 0;
  size_t payload = 0;  // end of the transport header

  size_t checksum_offset() const;  // of the transport checksum, from l4
  size_t network_header_length() const { return l4 - l3; }
};

// nullopt if it is another kind of packet (a fragment, another protocol, a routing
// header that hides the final destination), or a header is malformed or ends beyond
// `frame`, the linear start of the packet.
std::optional<TransportHeaders> ParseTransportHeaders(std::span<const uint8_t> frame);

// The addresses of the pseudo-header of a packet with these headers.
struct AddressPair {
  IpAddress source, destination;
};
AddressPair AddressesOf(const TransportHeaders& headers, std::span<const uint8_t> frame);

}  // namespace tapwire::netdev
