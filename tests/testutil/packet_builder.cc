// SPDX-License-Identifier: Apache-2.0
#include "tests/testutil/packet_builder.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "netdev/base/check.h"

namespace tapwire::testutil {
namespace {

// No helper of the library on purpose: what is under test must not build its own test data.
void Put8(ByteVector& out, uint32_t value) { out.push_back(static_cast<uint8_t>(value)); }
void Put16(ByteVector& out, uint32_t value) {
  Put8(out, value >> 8);
  Put8(out, value & 0xff);
}
void Put32(ByteVector& out, uint32_t value) {
  Put16(out, value >> 16);
  Put16(out, value & 0xffff);
}
void PutBytes(ByteVector& out, std::span<const uint8_t> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}
void Set16(ByteVector& out, size_t at, uint32_t value) {
  out[at] = static_cast<uint8_t>(value >> 8);
  out[at + 1] = static_cast<uint8_t>(value);
}

uint32_t SumWords(std::span<const uint8_t> bytes, uint32_t sum) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    sum += i % 2 == 0 ? uint32_t{bytes[i]} << 8 : uint32_t{bytes[i]};
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return sum;
}

uint8_t TcpFlags(absl::string_view letters) {
  constexpr absl::string_view kLetters = "FSRPAUEC";
  uint8_t flags = 0;
  for (const char letter : letters) {
    const size_t bit = kLetters.find(letter);
    TW_CHECK(bit != absl::string_view::npos, "TCP flags are the letters FSRPAUEC");
    flags = static_cast<uint8_t>(flags | 1u << bit);
  }
  return flags;
}

constexpr uint8_t kHopByHop = 0, kIcmpv4Protocol = 1, kIgmpProtocol = 2, kTcpProtocol = 6,
                  kUdpProtocol = 17, kRoutingHeader = 43, kFragmentHeader = 44,
                  kIcmpv6Protocol = 58, kNoNextHeader = 59, kDestinationOptions = 60;

}  // namespace

ByteVector Pattern(size_t count, uint8_t first) {
  ByteVector bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>((first + i) % 251);
  return bytes;
}

ByteVector Hex(absl::string_view text) {
  ByteVector bytes;
  int digits = 0;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) != 0) continue;
    TW_CHECK(std::isxdigit(static_cast<unsigned char>(c)) != 0, "not a hexadecimal digit");
    const int value = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    if (digits++ % 2 == 0) bytes.push_back(0);
    bytes.back() = static_cast<uint8_t>(bytes.back() << 4 | value);
  }
  TW_CHECK(digits % 2 == 0, "an odd number of hexadecimal digits");
  return bytes;
}

uint16_t SimpleChecksum(std::span<const uint8_t> bytes, uint32_t sum) {
  return static_cast<uint16_t>(~SumWords(bytes, (sum & 0xffff) + (sum >> 16)));
}

uint16_t SimpleTransportChecksum(const IpAddress& source, const IpAddress& destination,
                                 uint8_t protocol, std::span<const uint8_t> segment) {
  ByteVector pseudo;
  PutBytes(pseudo, source.bytes());
  PutBytes(pseudo, destination.bytes());
  Put32(pseudo, static_cast<uint32_t>(segment.size()));
  Put32(pseudo, protocol);
  return SimpleChecksum(segment, SumWords(pseudo, 0));
}

Frame::Layer& Frame::Add(Kind kind, ByteVector header) {
  layers_.push_back({.kind = kind,
                     .protocol = kNoNextHeader,
                     .ether_type = 0,
                     .header = std::move(header),
                     .set_next = false,
                     .set_length = false,
                     .set_checksum = false,
                     .source = {},
                     .destination = {}});
  return layers_.back();
}

Frame& Frame::Eth(const MacAddress& source, const MacAddress& destination,
                  std::optional<uint16_t> ether_type) {
  ByteVector header;
  PutBytes(header, destination.bytes());
  PutBytes(header, source.bytes());
  Put16(header, ether_type.value_or(0));
  Add(Kind::kEth, std::move(header)).set_next = !ether_type.has_value();
  return *this;
}

Frame& Frame::Vlan(const VlanArgs& args) {
  ByteVector header;
  Put16(header, uint32_t{args.priority} << 13 | (args.drop_eligible ? 0x1000u : 0u) | args.vid);
  Put16(header, args.ether_type.value_or(0));
  Layer& layer = Add(Kind::kVlan, std::move(header));
  layer.ether_type = args.tpid;
  layer.set_next = !args.ether_type.has_value();
  return *this;
}

Frame& Frame::Arp(const ArpArgs& args) {
  ByteVector header;
  Put16(header, args.hardware_type);
  Put16(header, args.protocol_type);
  Put8(header, args.hardware_length);
  Put8(header, args.protocol_length);
  Put16(header, args.operation);
  PutBytes(header, args.sender_mac.bytes());
  PutBytes(header, args.sender_ip.bytes());
  PutBytes(header, args.target_mac.bytes());
  PutBytes(header, args.target_ip.bytes());
  Add(Kind::kArp, std::move(header)).ether_type = 0x0806;
  return *this;
}

Frame& Frame::Ipv4(const Ipv4Args& args) {
  ByteVector options = args.options;
  options.resize((options.size() + 3) / 4 * 4);
  const auto words = static_cast<uint32_t>(5 + options.size() / 4);
  ByteVector header;
  Put8(header,
       uint32_t{args.version.value_or(4)} << 4 | args.ihl.value_or(static_cast<uint8_t>(words)));
  Put8(header, args.tos);
  Put16(header, args.total_length.value_or(0));
  Put16(header, args.id);
  Put16(header, (args.reserved_flag ? 0x8000u : 0u) | (args.dont_fragment ? 0x4000u : 0u) |
                    (args.more_fragments ? 0x2000u : 0u) | args.offset / 8u);
  Put8(header, args.ttl);
  Put8(header, args.protocol.value_or(0));
  Put16(header, args.checksum.value_or(0));
  PutBytes(header, args.source.bytes());
  PutBytes(header, args.destination.bytes());
  PutBytes(header, options);
  Layer& layer = Add(Kind::kIpv4, std::move(header));
  layer.ether_type = 0x0800;
  layer.protocol = 4;
  layer.set_next = !args.protocol.has_value();
  layer.set_length = !args.total_length.has_value();
  layer.set_checksum = !args.checksum.has_value();
  layer.source = args.source;
  layer.destination = args.destination;
  return *this;
}

Frame& Frame::Ipv6(const Ipv6Args& args) {
  ByteVector header;
  Put32(header, uint32_t{args.version.value_or(6)} << 28 | uint32_t{args.traffic_class} << 20 |
                    args.flow_label);
  Put16(header, args.payload_length.value_or(0));
  Put8(header, args.next_header.value_or(0));
  Put8(header, args.hop_limit);
  PutBytes(header, args.source.bytes());
  PutBytes(header, args.destination.bytes());
  Layer& layer = Add(Kind::kIpv6, std::move(header));
  layer.ether_type = 0x86dd;
  layer.protocol = 41;
  layer.set_next = !args.next_header.has_value();
  layer.set_length = !args.payload_length.has_value();
  layer.source = args.source;
  layer.destination = args.destination;
  return *this;
}

Frame& Frame::AddOptions(uint8_t protocol, const Ipv6OptionsArgs& args) {
  ByteVector header;
  Put8(header, args.next_header.value_or(0));
  Put8(header, 0);
  PutBytes(header, args.options);
  const size_t missing = (8 - header.size() % 8) % 8;
  if (missing == 1) Put8(header, 0);  // Pad1
  if (missing >= 2) {
    Put8(header, 1);  // PadN
    Put8(header, static_cast<uint32_t>(missing - 2));
    header.resize(header.size() + missing - 2);
  }
  header[1] = args.length.value_or(static_cast<uint8_t>(header.size() / 8 - 1));
  Layer& layer = Add(Kind::kOptions6, std::move(header));
  layer.protocol = protocol;
  layer.set_next = !args.next_header.has_value();
  return *this;
}

Frame& Frame::HopByHop(const Ipv6OptionsArgs& args) { return AddOptions(kHopByHop, args); }
Frame& Frame::DestinationOptions(const Ipv6OptionsArgs& args) {
  return AddOptions(kDestinationOptions, args);
}
Frame& Frame::RouterAlert6() { return HopByHop({.options = {5, 2, 0, 0}}); }

Frame& Frame::Routing(const Ipv6RoutingArgs& args) {
  ByteVector header;
  Put8(header, args.next_header.value_or(0));
  Put8(header, args.length.value_or(static_cast<uint8_t>((args.data.size() + 4) / 8 - 1)));
  Put8(header, args.type);
  Put8(header, args.segments_left);
  PutBytes(header, args.data);
  Layer& layer = Add(Kind::kOptions6, std::move(header));
  layer.protocol = kRoutingHeader;
  layer.set_next = !args.next_header.has_value();
  return *this;
}

Frame& Frame::Fragment6(const Ipv6FragmentArgs& args) {
  ByteVector header;
  Put8(header, args.next_header.value_or(0));
  Put8(header, args.reserved);
  Put16(header, (args.offset & 0xfff8u) | (args.more ? 1u : 0u));
  Put32(header, args.id);
  Layer& layer = Add(Kind::kFragment6, std::move(header));
  layer.protocol = kFragmentHeader;
  layer.set_next = !args.next_header.has_value();
  return *this;
}

Frame& Frame::Udp(const UdpArgs& args) {
  ByteVector header;
  Put16(header, args.source_port);
  Put16(header, args.destination_port);
  Put16(header, args.length.value_or(0));
  Put16(header, args.checksum.value_or(0));
  Layer& layer = Add(Kind::kUdp, std::move(header));
  layer.protocol = kUdpProtocol;
  layer.set_length = !args.length.has_value();
  layer.set_checksum = !args.checksum.has_value();
  return *this;
}

Frame& Frame::Tcp(const TcpArgs& args) {
  ByteVector options = args.options;
  options.resize((options.size() + 3) / 4 * 4);
  ByteVector header;
  Put16(header, args.source_port);
  Put16(header, args.destination_port);
  Put32(header, args.seq);
  Put32(header, args.ack);
  Put8(header,
       uint32_t{args.data_offset.value_or(static_cast<uint8_t>(5 + options.size() / 4))} << 4);
  Put8(header, TcpFlags(args.flags));
  Put16(header, args.window);
  Put16(header, args.checksum.value_or(0));
  Put16(header, args.urgent);
  PutBytes(header, options);
  Layer& layer = Add(Kind::kTcp, std::move(header));
  layer.protocol = kTcpProtocol;
  layer.set_checksum = !args.checksum.has_value();
  return *this;
}

Frame& Frame::AddIcmp(Kind kind, const IcmpArgs& args, std::span<const uint8_t> body) {
  ByteVector header;
  Put8(header, args.type);
  Put8(header, args.code);
  Put16(header, args.checksum.value_or(0));
  Put32(header, args.rest);
  PutBytes(header, body);
  Layer& layer = Add(kind, std::move(header));
  layer.protocol = kind == Kind::kIcmpv4 ? kIcmpv4Protocol
                   : kind == Kind::kIgmp ? kIgmpProtocol
                                         : kIcmpv6Protocol;
  layer.set_checksum = !args.checksum.has_value();
  return *this;
}

Frame& Frame::Icmpv4(const IcmpArgs& args) { return AddIcmp(Kind::kIcmpv4, args, {}); }
Frame& Frame::Icmpv6(const IcmpArgs& args) { return AddIcmp(Kind::kIcmpv6, args, {}); }

Frame& Frame::Echo4(const EchoArgs& args) {
  return Icmpv4({.type = args.reply ? uint8_t{0} : uint8_t{8},
                 .code = args.code,
                 .rest = uint32_t{args.id} << 16 | args.seq,
                 .checksum = args.checksum});
}

Frame& Frame::Echo6(const EchoArgs& args) {
  return Icmpv6({.type = args.reply ? uint8_t{129} : uint8_t{128},
                 .code = args.code,
                 .rest = uint32_t{args.id} << 16 | args.seq,
                 .checksum = args.checksum});
}

Frame& Frame::AddNd(uint8_t type, uint8_t option, const NdArgs& args) {
  ByteVector body;
  PutBytes(body, args.target.bytes());
  if (args.link_address.has_value()) {
    Put8(body, option);
    Put8(body, 1);
    PutBytes(body, args.link_address->bytes());
  }
  PutBytes(body, args.more_options);
  const uint32_t flags = (args.router ? 0x80000000u : 0u) | (args.solicited ? 0x40000000u : 0u) |
                         (args.override_flag ? 0x20000000u : 0u);
  return AddIcmp(Kind::kIcmpv6,
                 {.type = type, .code = args.code, .rest = flags, .checksum = args.checksum}, body);
}

Frame& Frame::NeighborSolicitation(const NdArgs& args) { return AddNd(135, 1, args); }
Frame& Frame::NeighborAdvertisement(const NdArgs& args) { return AddNd(136, 2, args); }

Frame& Frame::Igmp(const IgmpArgs& args) {
  return AddIcmp(Kind::kIgmp,
                 {.type = args.type,
                  .code = args.max_response,
                  .rest = args.group.value(),
                  .checksum = args.checksum},
                 {});
}

Frame& Frame::Raw(std::span<const uint8_t> bytes) {
  Add(Kind::kRaw, ByteVector(bytes.begin(), bytes.end()));
  return *this;
}

Frame& Frame::Payload(absl::string_view text) {
  return Raw({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

Frame& Frame::Trailer(std::span<const uint8_t> bytes) {
  PutBytes(trailer_, bytes);
  return *this;
}

Frame& Frame::Pad(size_t to) {
  pad_to_ = to;
  return *this;
}

const Frame::Layer* Frame::IpBefore(size_t index) const {
  while (index-- > 0) {
    if (layers_[index].kind == Kind::kIpv4 || layers_[index].kind == Kind::kIpv6)
      return &layers_[index];
  }
  return nullptr;
}

void Frame::CompleteChecksum(size_t index, Layer& layer, const ByteVector& inner) const {
  ByteVector message = layer.header;
  PutBytes(message, inner);
  const Layer* ip = IpBefore(index);
  const auto transport = [&] {
    return ip == nullptr
               ? uint16_t{0}
               : SimpleTransportChecksum(ip->source, ip->destination, layer.protocol, message);
  };
  switch (layer.kind) {
    case Kind::kIpv4:
      return Set16(layer.header, 10, SimpleChecksum(layer.header));
    case Kind::kUdp: {
      const uint16_t checksum = transport();
      return Set16(layer.header, 6, checksum == 0 ? 0xffff : checksum);
    }
    case Kind::kTcp:
      return Set16(layer.header, 16, transport());
    case Kind::kIcmpv6:
      return Set16(layer.header, 2, transport());
    case Kind::kIcmpv4:
    case Kind::kIgmp:
      return Set16(layer.header, 2, SimpleChecksum(message));
    default:
      return;
  }
}

void Frame::Complete(size_t index, Layer& layer, const ByteVector& inner) const {
  const Layer* next = index + 1 < layers_.size() ? &layers_[index + 1] : nullptr;
  if (layer.set_next && next != nullptr) {
    switch (layer.kind) {
      case Kind::kEth:
      case Kind::kVlan:
        Set16(layer.header, layer.header.size() - 2, next->ether_type);
        break;
      case Kind::kIpv4:
        layer.header[9] = next->protocol;
        break;
      case Kind::kIpv6:
        layer.header[6] = next->protocol;
        break;
      default:
        layer.header[0] = next->protocol;
        break;
    }
  }
  if (layer.set_length) {
    const size_t length = inner.size() + (layer.kind == Kind::kIpv6 ? 0 : layer.header.size());
    const size_t field = layer.kind == Kind::kIpv4 ? 2 : 4;
    Set16(layer.header, field, static_cast<uint32_t>(length));
  }
  if (layer.set_checksum) CompleteChecksum(index, layer, inner);
}

ByteVector Frame::BuildFrom(size_t index) const {
  ByteVector bytes;
  for (size_t i = layers_.size(); i-- > index;) {
    Layer layer = layers_[i];
    Complete(i, layer, bytes);
    bytes.insert(bytes.begin(), layer.header.begin(), layer.header.end());
  }
  return bytes;
}

ByteVector Frame::Build() const {
  ByteVector bytes = BuildFrom(0);
  PutBytes(bytes, trailer_);
  if (bytes.size() < pad_to_) bytes.resize(pad_to_);
  return bytes;
}

std::vector<ByteVector> Frame::BuildFragments(size_t size, uint32_t id) const {
  TW_CHECK(size >= 8 && size % 8 == 0, "fragments have a multiple of 8 bytes");
  size_t ip_index = 0;
  while (layers_[ip_index].kind != Kind::kIpv4 && layers_[ip_index].kind != Kind::kIpv6) ++ip_index;
  const Layer& ip = layers_[ip_index];
  const ByteVector whole = BuildFrom(ip_index + 1);
  const size_t protocol_at = ip.kind == Kind::kIpv4 ? 9 : 6;
  const uint8_t protocol = ip.set_next ? layers_[ip_index + 1].protocol : ip.header[protocol_at];

  std::vector<ByteVector> frames;
  for (size_t offset = 0; offset < whole.size(); offset += size) {
    const size_t length = std::min(size, whole.size() - offset);
    const bool more = offset + length < whole.size();
    Frame frame;
    frame.layers_.assign(layers_.begin(),
                         layers_.begin() + static_cast<std::ptrdiff_t>(ip_index) + 1);
    Layer& outer = frame.layers_.back();
    if (ip.kind == Kind::kIpv4) {
      outer.header[9] = protocol;
      outer.set_next = false;
      Set16(outer.header, 4, id);
      Set16(outer.header, 6, (more ? 0x2000u : 0u) | static_cast<uint32_t>(offset / 8));
    } else {
      outer.set_next = true;
      frame.Fragment6({.offset = static_cast<uint16_t>(offset),
                       .more = more,
                       .id = id,
                       .reserved = 0,
                       .next_header = protocol});
    }
    frame.Payload(std::span(whole).subspan(offset, length));
    frames.push_back(frame.Build());
  }
  return frames;
}

}  // namespace tapwire::testutil
