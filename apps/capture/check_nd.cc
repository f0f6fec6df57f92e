// SPDX-License-Identifier: Apache-2.0
// Neighbour discovery (RFC 4861).
#include <optional>

#include "absl/strings/str_cat.h"
#include "apps/capture/inspection.h"

namespace tapwire::capture {
namespace {

constexpr uint8_t kRouterSolicitation = 133, kRouterAdvertisement = 134,
                  kNeighborSolicitation = 135, kNeighborAdvertisement = 136, kRedirect = 137;
constexpr uint8_t kSourceLinkAddress = 1, kTargetLinkAddress = 2, kPrefix = 3, kMtu = 5;

// Where the options start.
uint32_t FixedLength(uint8_t type) {
  switch (type) {
    case kRouterSolicitation:
      return 8;
    case kRouterAdvertisement:
      return 16;
    case kRedirect:
      return 40;
    default:
      return 24;
  }
}

// ff02::1:ff00:0/104 with the low 24 bits of `target` (RFC 4291 §2.7.1).
bool IsSolicitedNodeOf(const Address& group, const Address& target) {
  const Bytes g(group.octets), t(target.octets);
  return g.U32(0) == 0xff020000 && g.U32(4) == 0 && g.U32(8) == 1 && g.U8(12) == 0xff &&
         g.U8(13) == t.U8(13) && g.U16(14) == t.U16(14);
}

struct NdOptions {
  std::optional<Bytes> source_mac;
  std::optional<Bytes> target_mac;
};

// Option by option; lengths are counted in units of 8 bytes.
const char* WhyOptionBad(Bytes option) {
  switch (option.U8(0)) {
    case kSourceLinkAddress:
    case kTargetLinkAddress:
      if (option.size() != 8) return "link-layer address option of a length other than 8";
      return (option.U8(2) & 1) != 0 || option.From(2).AllZero()
                 ? "link-layer address is no station"
                 : nullptr;
    case kPrefix:
      return option.size() != 32 || option.U8(2) > 128 ? "bad prefix information" : nullptr;
    case kMtu:
      return option.size() != 8 ? "MTU option of a length other than 8" : nullptr;
    default:
      return nullptr;
  }
}

NdOptions CheckOptions(Inspection& inspection, Bytes options) {
  NdOptions found;
  for (size_t at = 0; at < options.size();) {
    const size_t length = options.U8(at + 1) * size_t{8};
    if (length == 0 || at + length > options.size()) {
      inspection.Report(Rule::kNdOption,
                        absl::StrCat("option ", options.U8(at), " with length ", length));
      break;
    }
    const Bytes option = options.From(at).First(length);
    if (const char* why = WhyOptionBad(option)) inspection.Report(Rule::kNdOption, why);
    if (option.U8(0) == kSourceLinkAddress) found.source_mac = option.From(2);
    if (option.U8(0) == kTargetLinkAddress) found.target_mac = option.From(2);
    at += length;
  }
  return found;
}

// RFC 4861 §7.1.1, §7.2.2.
const char* WhySolicitationBad(const IpPacket& ip, const NdOptions& options) {
  const Address target = Address::V6(ip.payload.From(8));
  if (target.is_multicast()) return "target is multicast";
  if (ip.destination.is_multicast() && !IsSolicitedNodeOf(ip.destination, target)) {
    return "multicast to a group other than the target's solicited-node group";
  }
  if (ip.source.is_unspecified()) {
    if (options.source_mac.has_value())
      return "unspecified source with a source link-layer address";
    return ip.destination.is_multicast() ? nullptr : "unspecified source to a unicast destination";
  }
  return ip.destination.is_multicast() && !options.source_mac.has_value()
             ? "multicast without source link-layer address"
             : nullptr;
}

// RFC 4861 §7.1.2, §7.2.4.
const char* WhyAdvertisementBad(const IpPacket& ip) {
  if (Address::V6(ip.payload.From(8)).is_multicast()) return "target is multicast";
  const bool solicited = (ip.payload.U8(4) & 0x40) != 0;
  return solicited && ip.destination.is_multicast() ? "solicited flag in a multicast" : nullptr;
}

// RFC 4861 §8.1.
const char* WhyRedirectBad(const IpPacket& ip) {
  const Address target = Address::V6(ip.payload.From(8));
  const Address destination = Address::V6(ip.payload.From(24));
  if (!ip.source.is_link_local()) return "source is not link-local";
  if (destination.is_multicast()) return "destination field is multicast";
  return target.is_link_local() || target == destination
             ? nullptr
             : "target is neither link-local nor the destination";
}

const char* WhyMessageBad(const IpPacket& ip, const NdOptions& options) {
  switch (ip.payload.U8(0)) {
    case kRouterSolicitation:
      return ip.source.is_unspecified() && options.source_mac.has_value()
                 ? "unspecified source with a source link-layer address"
                 : nullptr;
    case kRouterAdvertisement:
      return ip.source.is_link_local() ? nullptr : "source is not link-local";
    case kNeighborSolicitation:
      return WhySolicitationBad(ip, options);
    case kNeighborAdvertisement:
      return WhyAdvertisementBad(ip);
    default:
      return WhyRedirectBad(ip);
  }
}

}  // namespace

void CheckNd(Inspection& inspection, const IpPacket& ip) {
  if (ip.was_fragmented)
    inspection.Report(Rule::kNdFragment, absl::StrCat("type ", ip.payload.U8(0)));
  if (ip.ttl != 255) inspection.Report(Rule::kNdHopLimit, absl::StrCat("hop limit ", ip.ttl));
  if (ip.payload.U8(1) != 0)
    inspection.Report(Rule::kNdMessage, absl::StrCat("code ", ip.payload.U8(1)));
  const uint32_t fixed = FixedLength(ip.payload.U8(0));
  if (ip.length < fixed) {
    return inspection.Report(Rule::kNdMessage,
                             absl::StrCat("type ", ip.payload.U8(0), " of ", ip.length, " bytes"));
  }
  const NdOptions options = CheckOptions(inspection, ip.payload.From(fixed));
  if (const char* why = WhyMessageBad(ip, options)) {
    inspection.Report(Rule::kNdMessage, absl::StrCat("type ", ip.payload.U8(0), ": ", why));
  }
  // A proxy may say another station's address; a sender that is known to be the origin may not.
  if (inspection.frame.direction == Direction::kTransmit && inspection.has_link &&
      options.source_mac.has_value() &&
      MacToString(*options.source_mac) != MacToString(inspection.eth_source)) {
    inspection.Report(Rule::kNdMessage,
                      absl::StrCat("source link-layer address ", MacToString(*options.source_mac),
                                   " in a frame from ", MacToString(inspection.eth_source)));
  }
}

}  // namespace tapwire::capture
