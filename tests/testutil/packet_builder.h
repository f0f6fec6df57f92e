// SPDX-License-Identifier: Apache-2.0
// Builds frames for tests, byte by byte and without the codecs under test.
//
//   Frame().Eth(kPeer, kHost).Ipv4({.source = a, .destination = b}).Udp({.source_port = 1,
//       .destination_port = 2}).Payload("hello").Build()
//
// Lengths, checksums and "next protocol" fields are right unless the layer's argument says another
// value: every optional field is such a knob. Layers go from the outside in; a frame may start at
// any layer, so Frame().Ipv4(…)….Build() gives a packet, for an ICMP error to quote.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "netdev/wire/ip_address.h"
#include "netdev/wire/mac_address.h"

namespace tapwire::testutil {

using ByteVector = std::vector<uint8_t>;

// `count` bytes that differ from their neighbours: 0, 1, 2, … modulo 251.
ByteVector Pattern(size_t count, uint8_t first = 0);
// "0800 45" → {0x08, 0x00, 0x45}; white space is skipped.
ByteVector Hex(absl::string_view text);
// The plain loop of RFC 1071 §4.1, complemented: what belongs into a checksum field.
uint16_t SimpleChecksum(std::span<const uint8_t> bytes, uint32_t sum = 0);
// With the pseudo-header of the family.
uint16_t SimpleTransportChecksum(const IpAddress& source, const IpAddress& destination,
                                 uint8_t protocol, std::span<const uint8_t> segment);

struct ArpArgs {
  uint16_t operation = 1;
  MacAddress sender_mac = {};
  Ipv4Address sender_ip = {};
  MacAddress target_mac = {};
  Ipv4Address target_ip = {};
  uint16_t hardware_type = 1, protocol_type = 0x0800;
  uint8_t hardware_length = 6, protocol_length = 4;
};

struct VlanArgs {
  uint16_t vid = 1;
  uint8_t priority = 0;
  bool drop_eligible = false;
  uint16_t tpid = 0x8100;
  std::optional<uint16_t> ether_type = {};
};

struct Ipv4Args {
  Ipv4Address source = {}, destination = {};
  uint8_t ttl = 64;
  uint8_t tos = 0;
  uint16_t id = 0;
  bool dont_fragment = true;
  bool more_fragments = false;
  bool reserved_flag = false;
  uint16_t offset = 0;      // of the fragment, in bytes
  ByteVector options = {};  // padded with zeros to a multiple of 4
  std::optional<uint8_t> version = {}, ihl = {}, protocol = {};
  std::optional<uint16_t> total_length = {}, checksum = {};
};

struct Ipv6Args {
  Ipv6Address source = {}, destination = {};
  uint8_t hop_limit = 64;
  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;
  std::optional<uint8_t> version = {}, next_header = {};
  std::optional<uint16_t> payload_length = {};
};

// Hop-by-hop (0), destination options (60) or another header of their shape.
struct Ipv6OptionsArgs {
  ByteVector options = {};  // padded with Pad1/PadN to a multiple of 8 (with the two bytes before)
  std::optional<uint8_t> next_header = {}, length = {};
};

struct Ipv6RoutingArgs {
  uint8_t type = 4;
  uint8_t segments_left = 0;
  ByteVector data = ByteVector(4);  // with the four bytes before a multiple of 8
  std::optional<uint8_t> next_header = {}, length = {};
};

struct Ipv6FragmentArgs {
  uint16_t offset = 0;  // bytes
  bool more = false;
  uint32_t id = 1;
  uint8_t reserved = 0;
  std::optional<uint8_t> next_header = {};
};

struct UdpArgs {
  uint16_t source_port = 0, destination_port = 0;
  std::optional<uint16_t> length = {}, checksum = {};
};

struct TcpArgs {
  uint16_t source_port = 0, destination_port = 0;
  uint32_t seq = 0, ack = 0;
  absl::string_view flags = "A";  // letters of "FSRPAUEC"
  uint16_t window = 65535;
  uint16_t urgent = 0;
  ByteVector options = {};                  // padded with zeros to a multiple of 4
  std::optional<uint8_t> data_offset = {};  // in words
  std::optional<uint16_t> checksum = {};
};

// Type, code and the 4 bytes behind the checksum.
struct IcmpArgs {
  uint8_t type = 8, code = 0;
  uint32_t rest = 0;
  std::optional<uint16_t> checksum = {};
};

struct EchoArgs {
  bool reply = false;
  uint16_t id = 1, seq = 1;
  uint8_t code = 0;
  std::optional<uint16_t> checksum = {};
};

struct NdArgs {
  Ipv6Address target = {};
  // Source (solicitation) or target (advertisement) link-layer address option.
  std::optional<MacAddress> link_address = {};
  bool router = false, solicited = false, override_flag = false;  // of an advertisement
  ByteVector more_options = {};
  uint8_t code = 0;
  std::optional<uint16_t> checksum = {};
};

struct IgmpArgs {
  uint8_t type = 0x11, max_response = 0;
  Ipv4Address group = {};  // or the 4 bytes behind the checksum
  std::optional<uint16_t> checksum = {};
};

class Frame {
 public:
  Frame& Eth(const MacAddress& source, const MacAddress& destination,
             std::optional<uint16_t> ether_type = {});
  Frame& Vlan(const VlanArgs& args);
  Frame& Arp(const ArpArgs& args);
  Frame& Ipv4(const Ipv4Args& args);
  Frame& Ipv6(const Ipv6Args& args);
  Frame& HopByHop(const Ipv6OptionsArgs& args);
  // Hop-by-hop with the router alert option for MLD (RFC 2711).
  Frame& RouterAlert6();
  Frame& DestinationOptions(const Ipv6OptionsArgs& args);
  Frame& Routing(const Ipv6RoutingArgs& args);
  Frame& Fragment6(const Ipv6FragmentArgs& args);
  Frame& Udp(const UdpArgs& args);
  Frame& Tcp(const TcpArgs& args);
  Frame& Icmpv4(const IcmpArgs& args);
  Frame& Icmpv6(const IcmpArgs& args);
  Frame& Echo4(const EchoArgs& args);
  Frame& Echo6(const EchoArgs& args);
  Frame& NeighborSolicitation(const NdArgs& args);
  Frame& NeighborAdvertisement(const NdArgs& args);
  Frame& Igmp(const IgmpArgs& args);
  // Any header or message of fixed bytes.
  Frame& Raw(std::span<const uint8_t> bytes);
  Frame& Payload(std::span<const uint8_t> bytes) { return Raw(bytes); }
  Frame& Payload(absl::string_view text);

  // Bytes behind the packet that no length counts.
  Frame& Trailer(std::span<const uint8_t> bytes);
  // Zeros behind the packet up to the shortest Ethernet frame.
  Frame& Pad(size_t to = 60);

  ByteVector Build() const;
  // The same cut into fragments of at most `size` bytes of IP payload (a multiple of 8), checksums
  // being those of the whole. The frame holds one IP layer; `id` is the identification. For IPv6
  // everything behind the fixed header is fragmentable.
  std::vector<ByteVector> BuildFragments(size_t size, uint32_t id) const;

 private:
  enum class Kind : uint8_t {
    kEth,
    kVlan,
    kArp,
    kIpv4,
    kIpv6,
    kOptions6,
    kFragment6,
    kUdp,
    kTcp,
    kIcmpv4,
    kIcmpv6,
    kIgmp,
    kRaw,
  };
  struct Layer {
    Kind kind = Kind::kRaw;
    uint8_t protocol = 0;  // what an outer layer says of this one
    uint16_t ether_type = 0;
    ByteVector header;      // with knobs applied, computed fields zero
    bool set_next = false;  // the field that names the next layer is to be computed
    bool set_length = false;
    bool set_checksum = false;
    IpAddress source, destination;  // kIpv4, kIpv6
  };

  Layer& Add(Kind kind, ByteVector header);
  Frame& AddIcmp(Kind kind, const IcmpArgs& args, std::span<const uint8_t> body);
  Frame& AddNd(uint8_t type, uint8_t option, const NdArgs& args);
  Frame& AddOptions(uint8_t protocol, const Ipv6OptionsArgs& args);
  const Layer* IpBefore(size_t index) const;
  void Complete(size_t index, Layer& layer, const ByteVector& inner) const;
  void CompleteChecksum(size_t index, Layer& layer, const ByteVector& inner) const;
  ByteVector BuildFrom(size_t index) const;

  std::vector<Layer> layers_;
  ByteVector trailer_;
  size_t pad_to_ = 0;
};

}  // namespace tapwire::testutil
