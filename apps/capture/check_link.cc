// SPDX-License-Identifier: Apache-2.0
// ARP, and what link and network layer have to agree about.
#include "absl/strings/str_cat.h"
#include "apps/capture/inspection.h"

namespace tapwire::capture {
namespace {

constexpr uint32_t kLimitedBroadcast = 0xffffffff;

// A host number of all ones in any subnet of at most 30 prefix bits. Prefixes are not in a capture,
// so every such address is given the benefit of the doubt.
bool MayBeBroadcast(const Address& address) { return !address.v6 && (address.v4() & 3) == 3; }

bool IsV4Mapped(const Address& address) {
  const Bytes octets(address.octets);
  return address.v6 && octets.First(10).AllZero() && octets.U16(10) == 0xffff;
}

// Who may send from the unspecified address: a DHCP client, IGMP and MLD before there is an address
// (RFC 9776 §4.2.13, RFC 9777 §5.2.14), router solicitation and duplicate address detection.
bool MaySendUnspecified(const IpPacket& ip) {
  if (!ip.source.v6) {
    return ip.protocol == Protocol::kIgmp ||
           (ip.protocol == Protocol::kUdp && ip.payload.U16(2) == 67);
  }
  const uint8_t type = ip.payload.U8(0);
  return ip.protocol == Protocol::kIcmpv6 &&
         (type == 133 || type == 135 || type == 131 || type == 132 || type == 143);
}

const char* WhyMartianSource(const Inspection& inspection, const IpPacket& ip) {
  const Address& source = ip.source;
  if (source.is_multicast()) return "multicast";
  if (source.is_loopback() && !inspection.loopback) return "loopback";
  if (IsV4Mapped(source)) return "IPv4-mapped";
  if (source.is_unspecified()) return MaySendUnspecified(ip) ? nullptr : "unspecified";
  if (source.v6) return nullptr;
  if (source.v4() == kLimitedBroadcast) return "broadcast";
  if (source.octets[0] == 0) return "in 0/8";
  if (source.octets[0] >= 240) return "in 240/4";
  return nullptr;
}

const char* WhyMartianDestination(const Inspection& inspection, const IpPacket& ip) {
  const Address& destination = ip.destination;
  if (destination.is_loopback() && !inspection.loopback) return "loopback";
  if (destination.is_unspecified()) return "unspecified";
  if (IsV4Mapped(destination)) return "IPv4-mapped";
  if (destination == ip.source && !inspection.loopback) return "the source itself";
  if (!destination.v6) {
    if (destination.octets[0] == 0) return "in 0/8";
    if (destination.octets[0] >= 240 && destination.v4() != kLimitedBroadcast) return "in 240/4";
    return nullptr;
  }
  // RFC 4291 §2.7: scope 0 is reserved, scope 1 never leaves the interface.
  if (destination.is_multicast() && (destination.octets[1] & 0x0f) < 2)
    return "multicast of scope 0 or 1";
  return nullptr;
}

// RFC 1112 §6.4, RFC 2464 §7.
bool IsGroupMac(Bytes mac, const Address& group) {
  const Bytes octets(group.octets);
  if (group.v6) return mac.U16(0) == 0x3333 && mac.U32(2) == octets.U32(12);
  return mac.U32(0) == (0x01005e00u | (octets.U8(1) & 0x7fu)) && mac.U16(4) == octets.U16(2);
}

// RFC 1122 §3.3.6: a link-layer broadcast carries an IP broadcast or multicast only.
const char* WhyLinkMisfits(const Inspection& inspection, const Address& destination) {
  if (inspection.link_broadcast()) {
    if (destination.v6) return "IPv6 knows no link-layer broadcast";
    if (!destination.is_multicast() && !MayBeBroadcast(destination))
      return "IP unicast in a link-layer broadcast";
    return nullptr;
  }
  if (!inspection.link_multicast()) return nullptr;
  if (!destination.is_multicast()) return "no IP multicast in a link-layer multicast";
  return IsGroupMac(inspection.eth_destination, destination) ? nullptr : "MAC of another group";
}

void CheckArpAddresses(Inspection& inspection, Bytes packet) {
  const Bytes sender_mac = packet.From(8).First(6);
  const Address sender = Address::V4(packet.From(14));
  const Address target = Address::V4(packet.From(24));
  const bool is_request = packet.U16(6) == 1;
  if (sender_mac.AllZero() || (sender_mac.U8(0) & 1) != 0) {
    inspection.Report(Rule::kArpSender, absl::StrCat("sender MAC is ", MacToString(sender_mac)));
  } else if (MacToString(sender_mac) != MacToString(inspection.eth_source)) {
    inspection.Report(Rule::kArpSender,
                      absl::StrCat("sender MAC ", MacToString(sender_mac), " in a frame from ",
                                   MacToString(inspection.eth_source)));
  }
  // RFC 5227 §2.1.1: an ARP probe has an all-zero sender address; a reply never does.
  const bool probe = sender.is_unspecified();
  if ((probe && !is_request) || (!probe && sender.octets[0] == 0) || sender.is_loopback() ||
      sender.octets[0] >= 224) {
    inspection.Report(Rule::kArpSender, absl::StrCat("sender address is ", sender.ToString()));
  }
  // The answer to a probe goes to the address it came from: none (RFC 826, RFC 5227 §2.1.1).
  const bool answers_probe = !is_request && target.is_unspecified();
  if ((target.octets[0] == 0 && !answers_probe) || target.is_loopback() ||
      target.octets[0] >= 224) {
    inspection.Report(Rule::kArp, absl::StrCat("target address is ", target.ToString()));
  }
}

}  // namespace

void CheckArp(Inspection& inspection, Bytes packet) {
  constexpr uint32_t kLength = 28;
  if (packet.size() < kLength) {
    if (!inspection.snapped) {
      inspection.Report(Rule::kFrameShort, absl::StrCat("ARP packet of ", packet.size(), " bytes"));
    }
    return;
  }
  CheckTrailer(inspection, packet, kLength);
  if (packet.U16(0) != 1 || packet.U16(2) != 0x0800 || packet.U8(4) != 6 || packet.U8(5) != 4) {
    return inspection.Report(
        Rule::kArp, absl::StrCat("not IPv4 over Ethernet: types ", packet.U16(0), "/",
                                 packet.U16(2), ", lengths ", packet.U8(4), "/", packet.U8(5)));
  }
  if (packet.U16(6) != 1 && packet.U16(6) != 2) {
    return inspection.Report(Rule::kArp, absl::StrCat("operation ", packet.U16(6)));
  }
  CheckArpAddresses(inspection, packet);
}

void CheckTrailer(Inspection& inspection, Bytes packet, uint32_t packet_length) {
  if (inspection.snapped || packet.size() <= packet_length) return;
  const Bytes behind = packet.From(packet_length);
  // A tagged frame may be padded to 64 bytes, so that it has 60 when the tag is taken off.
  const uint32_t padded = inspection.link_length + 46;
  if (!inspection.has_link || inspection.link_length + packet.size() > padded) {
    return inspection.Report(
        Rule::kTrailer, absl::StrCat(behind.size(), " bytes behind a packet of ", packet_length));
  }
  if (!behind.AllZero())
    inspection.Report(Rule::kPadding, absl::StrCat(behind.size(), " bytes of padding not zero"));
}

void CheckMtu(Inspection& inspection, uint32_t packet_length) {
  const Frame& frame = inspection.frame;
  // A peer may have a larger MTU than the receiver.
  if (frame.mtu == 0 || frame.gso_size != 0 || frame.direction == Direction::kReceive) return;
  if (packet_length > frame.mtu) {
    inspection.Report(Rule::kMtu,
                      absl::StrCat("packet of ", packet_length, " bytes, MTU ", frame.mtu));
  }
}

void CheckAddresses(Inspection& inspection, const IpPacket& ip) {
  if (const char* why = WhyMartianSource(inspection, ip)) {
    inspection.Report(Rule::kMartianSource,
                      absl::StrCat("source ", ip.source.ToString(), " is ", why));
  }
  if (const char* why = WhyMartianDestination(inspection, ip)) {
    inspection.Report(Rule::kMartianDestination,
                      absl::StrCat("destination ", ip.destination.ToString(), " is ", why));
  }
  if (const char* why = WhyLinkMisfits(inspection, ip.destination)) {
    inspection.Report(Rule::kLinkDestination,
                      absl::StrCat(why, ": ", MacToString(inspection.eth_destination), ", ",
                                   ip.destination.ToString()));
  }
}

}  // namespace tapwire::capture
