// SPDX-License-Identifier: Apache-2.0
//
// Link layer, IP, TCP, UDP and ARP. Every layer reads through the tolerant views, so whatever a
// view refuses prints as "[|name]", tcpdump's sign for a cut-off header.
#include "netdev/wire/pretty_print.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "netdev/wire/arp.h"
#include "netdev/wire/ethernet.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/ipv6.h"
#include "netdev/wire/ipv6_ext.h"
#include "netdev/wire/pretty_print_internal.h"
#include "netdev/wire/tcp.h"
#include "netdev/wire/udp.h"
#include "netdev/wire/vlan.h"

namespace tapwire::wire {
namespace {

using internal::PrintedMessage;

// Tags printed before giving up: real frames have two at most.
constexpr int kMaxVlanTags = 4;

std::string FlagLetters(TcpFlags flags) {
  if (flags.bits() == 0) return "none";
  // tcpdump's order and letters.
  constexpr absl::string_view kLetters = "FSRP.UEW";
  std::string text;
  for (size_t bit = 0; bit < kLetters.size(); ++bit) {
    if ((flags.bits() >> bit & 1) != 0) text += kLetters[bit];
  }
  return text;
}

// One option whose length bytes lie inside the header, by its name in tcpdump's output.
std::string TcpOptionText(std::span<const uint8_t> option) {
  const uint8_t* p = option.data();
  switch (option[0]) {
    case TcpOptionKind::kMss:
      if (option.size() == 4) return absl::StrCat("mss ", LoadBe16(p + 2));
      break;
    case TcpOptionKind::kWindowScale:
      if (option.size() == 3) return absl::StrCat("wscale ", p[2]);
      break;
    case TcpOptionKind::kSackPermitted:
      if (option.size() == 2) return "sackOK";
      break;
    case TcpOptionKind::kTimestamps:
      if (option.size() == 10) {
        return absl::StrCat("TS val ", LoadBe32(p + 2), " ecr ", LoadBe32(p + 6));
      }
      break;
    case TcpOptionKind::kSack: {
      if (option.size() < 10 || option.size() % 8 != 2) break;
      std::string text = absl::StrCat("sack ", option.size() / 8, " ");
      for (size_t i = 2; i < option.size(); i += 8) {
        absl::StrAppend(&text, "{", LoadBe32(p + i), ":", LoadBe32(p + i + 4), "}");
      }
      return text;
    }
    default:
      break;
  }
  return absl::StrCat("unknown-", option[0]);
}

// The options in the order they stand, comma separated; "[bad opt]" where one is malformed.
std::string TcpOptionsText(std::span<const uint8_t> options) {
  std::string text;
  while (!options.empty()) {
    if (!text.empty()) text += ',';
    if (options[0] == TcpOptionKind::kEndOfList) return text + "eol";
    if (options[0] == TcpOptionKind::kNop) {
      text += "nop";
      options = options.subspan(1);
      continue;
    }
    const size_t length = options.size() >= 2 ? options[1] : 0;
    if (length < 2 || length > options.size()) return text + "[bad opt]";
    text += TcpOptionText(options.first(length));
    options = options.subspan(length);
  }
  return text;
}

void AppendTcp(const PrintedMessage& message, std::string& out) {
  const auto tcp = TcpHeader::Parse(message.bytes);
  if (!tcp) {
    absl::StrAppend(&out, "[|tcp]");
    return;
  }
  const size_t length = std::max(message.length, tcp->header_length()) - tcp->header_length();
  const TcpFlags flags = tcp->flags();
  absl::StrAppend(&out, "Flags [", FlagLetters(flags), "]");
  if (length > 0 || flags.syn() || flags.fin() || flags.rst()) {
    absl::StrAppend(&out, ", seq ", tcp->seq());
    if (length > 0) absl::StrAppend(&out, ":", tcp->seq() + static_cast<uint32_t>(length));
  }
  if (flags.ack()) absl::StrAppend(&out, ", ack ", tcp->ack());
  absl::StrAppend(&out, ", win ", tcp->window());
  if (flags.urg()) absl::StrAppend(&out, ", urg ", tcp->urgent_pointer());
  if (!tcp->options().empty()) {
    absl::StrAppend(&out, ", options [", TcpOptionsText(tcp->options()), "]");
  }
  absl::StrAppend(&out, ", length ", length);
}

void AppendUdp(const PrintedMessage& message, std::string& out) {
  const auto udp = UdpHeader::Parse(message.bytes);
  if (!udp) {
    absl::StrAppend(&out, "[|udp]");
  } else if (udp->length() < UdpHeader::kLength) {
    absl::StrAppend(&out, "UDP, bad length ", udp->length());
  } else {
    absl::StrAppend(&out, "UDP, length ", udp->length() - UdpHeader::kLength);
    if (udp->length() > message.length && !message.is_fragment) {
      absl::StrAppend(&out, " [bad udp length]");
    }
  }
}

// What to call a protocol in "10.0.0.1 > 10.0.0.2: NAME".
std::string ProtocolName(uint8_t protocol) {
  switch (protocol) {
    case IpProtocol::kIcmp:
      return "icmp";
    case IpProtocol::kIgmp:
      return "igmp";
    case IpProtocol::kTcp:
      return "tcp";
    case IpProtocol::kUdp:
      return "udp";
    case IpProtocol::kEsp:
      return "esp";
    case IpProtocol::kIcmpv6:
      return "ipv6-icmp";
    default:
      return absl::StrCat("ip-proto-", protocol);
  }
}

bool HasPorts(uint8_t protocol) {
  return protocol == IpProtocol::kTcp || protocol == IpProtocol::kUdp;
}

// "10.0.0.1.80 > 10.0.0.2.81: ", without ports where there are none to read.
std::string AddressPair(const PrintedMessage& message, bool with_ports) {
  const auto ports = UdpHeader::Parse(message.bytes);  // TCP's ports stand at the same place
  if (!with_ports || !ports) {
    return absl::StrCat(message.src.ToString(), " > ", message.dst.ToString(), ": ");
  }
  return absl::StrCat(message.src.ToString(), ".", ports->src_port(), " > ", message.dst.ToString(),
                      ".", ports->dst_port(), ": ");
}

void AppendUpperLayer(uint8_t protocol, const PrintedMessage& message, std::string& out) {
  switch (protocol) {
    case IpProtocol::kTcp:
      return AppendTcp(message, out);
    case IpProtocol::kUdp:
      return AppendUdp(message, out);
    case IpProtocol::kIcmp:
      return internal::AppendIcmpv4(message, out);
    case IpProtocol::kIcmpv6:
      return internal::AppendIcmpv6(message, out);
    case IpProtocol::kIgmp:
      return internal::AppendIgmp(message, out);
    default:
      absl::StrAppend(&out, ProtocolName(protocol), " ", message.length);
  }
}

void AppendIpv4(std::span<const uint8_t> packet, std::string& out) {
  absl::StrAppend(&out, "IP ");
  const auto ip = Ipv4Header::Parse(packet);
  if (!ip) {
    absl::StrAppend(&out, "[|ip]");
    return;
  }
  if (ip->version() != 4) {
    absl::StrAppend(&out, "[bad version ", ip->version(), "]");
    return;
  }
  const size_t header_length = ip->header_length();
  // Zero stands in super-packets too long for the field: all bytes count.
  const size_t total = ip->total_length() == 0 ? packet.size() : ip->total_length();
  if (total < header_length) {
    absl::StrAppend(&out, "[bad total length ", total, "]");
    return;
  }
  if (total > packet.size()) {
    absl::StrAppend(&out, "truncated-ip - ", total - packet.size(), " bytes missing! ");
  }
  const size_t present = std::min(total, packet.size()) - header_length;
  const PrintedMessage message{.src = ip->source(),
                               .dst = ip->destination(),
                               .bytes = packet.subspan(header_length, present),
                               .length = total - header_length,
                               .is_fragment = ip->IsFragment()};
  const bool first = ip->fragment_offset() == 0;
  absl::StrAppend(&out, AddressPair(message, first && HasPorts(ip->protocol())));
  if (first) {
    AppendUpperLayer(ip->protocol(), message, out);
  } else {
    absl::StrAppend(&out, ProtocolName(ip->protocol()));
  }
  if (ip->IsFragment()) {
    absl::StrAppend(&out, " (frag ", ip->identification(), ":", message.length, "@",
                    ip->fragment_offset(), ip->more_fragments() ? "+)" : ")");
  }
}

// `rest` is how many bytes the IPv6 header declares behind the extension header.
void AppendExtension(const Ipv6Extension& extension, size_t rest, std::string& out) {
  switch (extension.type) {
    case IpProtocol::kIpv6HopByHop:
      absl::StrAppend(&out, "HBH ");
      return;
    case IpProtocol::kIpv6DestOpts:
      absl::StrAppend(&out, "DSTOPT ");
      return;
    case IpProtocol::kAh:
      absl::StrAppend(&out, "AH ");
      return;
    case IpProtocol::kIpv6Routing:
      if (const auto routing = Ipv6RoutingHeader::Parse(extension.bytes)) {
        absl::StrAppend(&out, "RT6 (len=", extension.bytes[1], ", type=", routing->routing_type(),
                        ", segleft=", routing->segments_left(), ") ");
      }
      return;
    default:
      break;
  }
  if (const auto fragment = Ipv6FragmentHeader::Parse(extension.bytes)) {
    absl::StrAppend(&out, "frag (", fragment->fragment_offset(), "|", rest, ") ");
  }
}

// "4000 > 7: ", for ports behind extension headers.
std::string PortPair(const PrintedMessage& message) {
  const auto ports = UdpHeader::Parse(message.bytes);
  return ports ? absl::StrCat(ports->src_port(), " > ", ports->dst_port(), ": ") : "";
}

// What stands behind the last extension header.
void AppendChainEnd(const Ipv6ExtensionIterator& chain, const PrintedMessage& message,
                    std::string& out) {
  switch (chain.end()) {
    case Ipv6ChainEnd::kNoNextHeader:
      absl::StrAppend(&out, "no next header");
      return;
    case Ipv6ChainEnd::kTruncated:
      absl::StrAppend(&out, "[|ip6 ext]");
      return;
    case Ipv6ChainEnd::kTooManyHeaders:
      absl::StrAppend(&out, "[too many extension headers]");
      return;
    case Ipv6ChainEnd::kFragmentPayload:
      absl::StrAppend(&out, ProtocolName(chain.next_header()));
      return;
    case Ipv6ChainEnd::kNone:
    case Ipv6ChainEnd::kUpperLayer:
      AppendUpperLayer(chain.next_header(), message, out);
      return;
  }
}

void AppendIpv6(std::span<const uint8_t> packet, std::string& out) {
  absl::StrAppend(&out, "IP6 ");
  const auto ip = Ipv6Header::Parse(packet);
  if (!ip) {
    absl::StrAppend(&out, "[|ip6]");
    return;
  }
  if (ip->version() != 6) {
    absl::StrAppend(&out, "[bad version ", ip->version(), "]");
    return;
  }
  // Zero stands in super-packets too long for the field: all bytes count.
  const size_t present = packet.size() - Ipv6Header::kLength;
  const size_t declared = ip->payload_length() == 0 ? present : ip->payload_length();
  if (declared > present) {
    absl::StrAppend(&out, "truncated-ip6 - ", declared - present, " bytes missing!");
  }
  const std::span<const uint8_t> payload =
      packet.subspan(Ipv6Header::kLength, std::min(declared, present));

  std::string extensions;
  bool is_fragment = false;
  Ipv6ExtensionIterator chain(ip->next_header(), payload);
  while (const auto extension = chain.Next()) {
    is_fragment |= extension->type == IpProtocol::kIpv6Fragment;
    AppendExtension(*extension, declared + Ipv6Header::kLength - chain.offset(), extensions);
  }
  const size_t skipped = chain.offset() - Ipv6Header::kLength;
  const PrintedMessage message{.src = ip->source(),
                               .dst = ip->destination(),
                               .bytes = chain.payload(),
                               .length = declared - skipped,
                               .is_fragment = is_fragment};
  const bool has_ports = chain.end() == Ipv6ChainEnd::kUpperLayer && HasPorts(chain.next_header());
  absl::StrAppend(&out, AddressPair(message, has_ports && skipped == 0), extensions);
  if (has_ports && skipped != 0) absl::StrAppend(&out, PortPair(message));
  AppendChainEnd(chain, message, out);
}

void AppendArp(std::span<const uint8_t> bytes, std::string& out) {
  absl::StrAppend(&out, "ARP, ");
  const auto arp = ArpHeader::Parse(bytes);
  if (!arp) {
    absl::StrAppend(&out, "[|arp]");
    return;
  }
  const std::string sender = arp->sender_protocol_address().ToString();
  const std::string target = arp->target_protocol_address().ToString();
  if (!arp->IsIpv4OverEthernet()) {
    absl::StrAppend(&out, absl::StrFormat("Unknown hardware %d/%d protocol 0x%04x/%d",
                                          arp->hardware_type(), arp->hardware_length(),
                                          arp->protocol_type(), arp->protocol_length()));
  } else if (arp->operation() == ArpOperation::kRequest) {
    absl::StrAppend(&out, "Request who-has ", target);
    if (!arp->target_hardware_address().IsZero()) {
      absl::StrAppend(&out, " (", arp->target_hardware_address().ToString(), ")");
    }
    absl::StrAppend(&out, " tell ", sender);
  } else if (arp->operation() == ArpOperation::kReply) {
    absl::StrAppend(&out, "Reply ", sender, " is-at ", arp->sender_hardware_address().ToString());
  } else {
    absl::StrAppend(&out, "Unknown (", arp->operation(), ")");
  }
  absl::StrAppend(&out, ", length ", bytes.size());
}

void AppendByType(uint16_t ether_type, std::span<const uint8_t> payload, std::string& out) {
  switch (ether_type) {
    case EtherType::kIpv4:
      return AppendIpv4(payload, out);
    case EtherType::kIpv6:
      return AppendIpv6(payload, out);
    case EtherType::kArp:
      return AppendArp(payload, out);
    default:
      absl::StrAppend(&out,
                      absl::StrFormat("ethertype 0x%04x, length %d", ether_type, payload.size()));
  }
}

}  // namespace

std::string PrettyPrint(std::span<const uint8_t> frame) {
  std::string out;
  const auto ethernet = EthernetHeader::Parse(frame);
  if (!ethernet) return "[|ether]";
  uint16_t ether_type = ethernet->ether_type();
  std::span<const uint8_t> payload = ethernet->payload();
  if (ethernet->IsLengthField()) {
    const auto snap = ParseSnap(*ethernet);
    if (!snap) return absl::StrCat("802.3, length ", ether_type);
    absl::StrAppend(&out, "SNAP, ");
    ether_type = snap->ether_type;
    payload = snap->payload;
  }
  for (int tags = 0; ether_type == EtherType::kVlan || ether_type == EtherType::kQinQ; ++tags) {
    const auto vlan = VlanHeader::Parse(payload);
    if (!vlan || tags == kMaxVlanTags) return out + "[|vlan]";
    absl::StrAppend(&out, "vlan ", vlan->vid(), ", p ", vlan->pcp(),
                    vlan->dei() ? ", DEI, " : ", ");
    ether_type = vlan->ether_type();
    payload = vlan->payload();
  }
  AppendByType(ether_type, payload, out);
  return out;
}

std::string PrettyPrintIp(std::span<const uint8_t> packet) {
  std::string out;
  if (!packet.empty() && packet[0] >> 4 == 6) {
    AppendIpv6(packet, out);
  } else {
    AppendIpv4(packet, out);
  }
  return out;
}

}  // namespace tapwire::wire
