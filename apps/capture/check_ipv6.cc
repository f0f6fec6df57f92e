// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "apps/capture/inspection.h"

namespace tapwire::capture {
namespace {

constexpr uint32_t kFixedLength = 40;
constexpr uint32_t kMinimumMtu = 1280;  // RFC 8200 §5

// Where the walk along the extension headers stands.
struct Chain {
  IpPacket ip;
  uint8_t next = 0;
  Bytes rest;                        // from the header `next` on
  uint32_t rest_length = 0;          // as the lengths say; rest.size() is less if snapped
  uint32_t position = kFixedLength;  // bytes before `rest`
  bool first = true;
};

bool IsExtension(uint8_t next) {
  return next == Protocol::kHopByHop || next == Protocol::kDestinationOptions ||
         next == Protocol::kRouting || next == Protocol::kFragment || next == Protocol::kAh;
}

uint32_t ExtensionLength(uint8_t next, Bytes rest) {
  if (next == Protocol::kFragment) return 8;
  if (next == Protocol::kAh) return (rest.U8(1) + 2u) * 4;  // RFC 4302 §2.2
  return (rest.U8(1) + 1u) * 8;
}

// RFC 8200 §4.2. True if router alert (RFC 2711) was among the options.
bool CheckOptions(Inspection& inspection, Bytes options) {
  bool router_alert = false;
  for (size_t at = 0; at < options.size();) {
    const uint8_t type = options.U8(at);
    if (type == 0) {
      ++at;
      continue;
    }
    const size_t length = options.U8(at + 1);
    if (at + 2 + length > options.size()) {
      inspection.Report(Rule::kIpv6Extension,
                        absl::StrCat("option ", type, " ends outside its header"));
      return router_alert;
    }
    const Bytes data = options.From(at + 2).First(length);
    if (type == 1 && !data.AllZero())
      inspection.Report(Rule::kPadding, "PadN with bytes that are not zero");
    if (type == 5) {
      router_alert = true;
      if (length != 2)
        inspection.Report(Rule::kIpv6Extension, absl::StrCat("router alert of length ", length));
    }
    at += 2 + length;
  }
  return router_alert;
}

// RFC 8200 §4.5, RFC 7112 §5: the first fragment holds all headers up to the upper layer's.
bool HoldsHeaderChain(uint8_t next, Bytes rest) {
  while (IsExtension(next)) {
    const uint32_t length = ExtensionLength(next, rest);
    if (rest.size() < length) return false;
    next = rest.U8(0);
    rest = rest.From(length);
  }
  switch (next) {
    case Protocol::kTcp:
      return rest.size() >= 20 && rest.size() >= (rest.U8(12) >> 4) * 4u;
    case Protocol::kUdp:
      return rest.size() >= 8;
    case Protocol::kIcmpv6:
      return rest.size() >= 4;
    default:
      return true;
  }
}

bool FragmentIsSound(Inspection& inspection, const Chain& chain) {
  const uint32_t length = chain.rest_length - 8;
  const uint32_t offset = chain.rest.U16(2) & 0xfff8u;
  const bool more = (chain.rest.U16(2) & 1) != 0;
  const char* why = nullptr;
  if (length == 0)
    why = "no data";
  else if (more && length % 8 != 0)
    why = "not the last, and its length is no multiple of 8";
  else if (chain.position - kFixedLength + offset + length > 65535)
    why = "ends beyond 65535";
  else if (inspection.frame.gso_size != 0)
    why = "a fragment is marked as super-packet";
  else if (offset == 0 && chain.rest.size() == chain.rest_length &&
           !HoldsHeaderChain(chain.rest.U8(0), chain.rest.From(8))) {
    why = "first fragment without the whole header chain";
  }
  if (why == nullptr) return true;
  inspection.Report(Rule::kFragment, absl::StrCat(why, ": offset ", offset, ", length ", length));
  return false;
}

void WalkChain(Inspection& inspection, Chain chain);

void CheckFragment(Inspection& inspection, Chain chain) {
  if (!FragmentIsSound(inspection, chain) || chain.rest.size() < chain.rest_length) return;
  const FragmentKey key{.interface = inspection.frame.interface,
                        .direction = inspection.frame.direction,
                        .protocol = 0,
                        .id = chain.rest.U32(4),
                        .source = chain.ip.source,
                        .destination = chain.ip.destination};
  const FragmentPiece piece{.offset = chain.rest.U16(2) & 0xfff8u,
                            .more = (chain.rest.U16(2) & 1) != 0,
                            .payload = chain.rest.From(8),
                            .next_header = chain.rest.U8(0)};
  const FragmentTracker::Verdict verdict =
      inspection.fragments.Add(key, piece, inspection.frame.time_ns);
  if (verdict.overlap) {
    inspection.Report(Rule::kFragmentOverlap,
                      absl::StrCat("identification ", key.id, ", offset ", piece.offset,
                                   ", length ", piece.payload.size()));
  }
  if (verdict.copy) inspection.Report(Rule::kFragmentCopy, absl::StrCat("identification ", key.id));
  if (!verdict.complete.has_value()) return;

  if (chain.position + verdict.complete->size() <= kMinimumMtu) {
    inspection.Report(Rule::kFragmentNeedless,
                      absl::StrCat("the whole datagram has ",
                                   chain.position + verdict.complete->size(), " bytes"));
  }
  chain.ip.was_fragmented = true;
  chain.next = verdict.next_header;
  chain.rest = Bytes(*verdict.complete);
  chain.rest_length = static_cast<uint32_t>(chain.rest.size());
  chain.first = false;
  WalkChain(inspection, chain);
}

// False: the walk ends here.
bool CheckExtension(Inspection& inspection, Chain& chain, uint32_t length) {
  switch (chain.next) {
    case Protocol::kHopByHop:
      if (!chain.first)
        inspection.Report(Rule::kIpv6Extension, "hop-by-hop options not right behind the header");
      chain.ip.router_alert = CheckOptions(inspection, chain.rest.First(length).From(2));
      return true;
    case Protocol::kDestinationOptions:
      CheckOptions(inspection, chain.rest.First(length).From(2));
      return true;
    case Protocol::kRouting:
      // RFC 5095: type 0 must not be used.
      if (chain.rest.U8(2) == 0)
        inspection.Report(Rule::kIpv6Extension, "routing header of type 0");
      if (chain.rest.U8(3) == 0) return true;
      inspection.Report(Rule::kNotJudged,
                        "routing header with segments left: the final destination is not known");
      return false;
    default:
      return true;
  }
}

void WalkChain(Inspection& inspection, Chain chain) {
  while (IsExtension(chain.next)) {
    const uint32_t length = ExtensionLength(chain.next, chain.rest);
    if (chain.rest_length < 8 || chain.rest_length < length) {
      return inspection.Report(Rule::kIpv6Extension,
                               absl::StrCat("header ", chain.next, " ends outside the packet"));
    }
    if (chain.rest.size() < length) return;  // cut by the snap length
    if (chain.next == Protocol::kFragment) {
      if ((chain.rest.U16(2) & 0xfff9) != 0) return CheckFragment(inspection, chain);
      inspection.Report(Rule::kIpv6Atomic, absl::StrCat("identification ", chain.rest.U32(4)));
    }
    if (!CheckExtension(inspection, chain, length)) return;
    chain.first = false;
    chain.next = chain.rest.U8(0);
    chain.rest = chain.rest.From(length);
    chain.rest_length -= length;
    chain.position += length;
  }
  if (chain.next == Protocol::kNoNext) return;  // RFC 8200 §4.7: what follows is nothing
  chain.ip.protocol = chain.next;
  chain.ip.payload = chain.rest;
  chain.ip.length = chain.rest_length;
  chain.ip.header_length = chain.position;
  CheckTransport(inspection, chain.ip);
}

// The upper-layer protocol as far as it can be seen without judging: for the source address rules.
void PeekProtocol(uint8_t next, Bytes rest, IpPacket& ip) {
  while (IsExtension(next) && !rest.empty()) {
    const uint32_t length = ExtensionLength(next, rest);
    next = rest.U8(0);
    rest = rest.From(length);
  }
  ip.protocol = next;
  ip.payload = rest;
}

}  // namespace

void CheckIpv6(Inspection& inspection, Bytes packet) {
  if (packet.size() < kFixedLength) {
    if (!inspection.snapped) {
      inspection.Report(Rule::kFrameShort,
                        absl::StrCat("IPv6 header of ", packet.size(), " bytes"));
    }
    return;
  }
  const uint32_t payload_length = packet.U16(4);
  const size_t present = inspection.snapped
                             ? inspection.frame.original_length - inspection.link_length
                             : packet.size();
  if (packet.U8(0) >> 4 != 6 || kFixedLength + payload_length > present) {
    return inspection.Report(Rule::kIpv6Header,
                             absl::StrCat("version ", packet.U8(0) >> 4, ", payload length ",
                                          payload_length, ", ", present, " bytes in the frame"));
  }
  if (packet.U8(7) == 0) inspection.Report(Rule::kTtl, "hop limit is 0");
  CheckTrailer(inspection, packet, kFixedLength + payload_length);
  CheckMtu(inspection, kFixedLength + payload_length);

  Chain chain;
  chain.ip.source = Address::V6(packet.From(8));
  chain.ip.destination = Address::V6(packet.From(24));
  chain.ip.ttl = packet.U8(7);
  chain.ip.tos = static_cast<uint8_t>(packet.U16(0) >> 4);
  chain.next = packet.U8(6);
  chain.rest = packet.First(kFixedLength + payload_length).From(kFixedLength);
  chain.rest_length = payload_length;
  PeekProtocol(chain.next, chain.rest, chain.ip);
  CheckAddresses(inspection, chain.ip);
  WalkChain(inspection, chain);
}

}  // namespace tapwire::capture
