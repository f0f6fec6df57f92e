// SPDX-License-Identifier: Apache-2.0
#include "stack/eth/eth_input.h"

#include <algorithm>
#include <array>
#include <utility>

#include "netdev/wire/ethernet.h"
#include "netdev/wire/vlan.h"
#include "stack/arp/arp.h"
#include "stack/interface.h"
#include "stack/ipv4/ipv4.h"
#include "stack/ipv6/ipv6.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

using wire::EtherType;

bool IsVlanType(uint16_t ether_type) {
  return ether_type == EtherType::kVlan || ether_type == EtherType::kQinQ;
}

// Who may have sent the frame, and whether it is for us. A promiscuous device shows all frames to
// its taps; the protocols take only theirs all the same (RFC 1122 §3.3.6; Linux: PACKET_OTHERHOST).
// A macvlan in passthru mode is sent the frames of any station (LinkTarget::kHost).
DropReason CheckAddresses(const wire::EthernetHeader& header, const netdev::NetDevice& device,
                          LinkTarget target) {
  const MacAddress source = header.source();
  const MacAddress destination = header.destination();
  if (source.IsMulticast()) return DropReason::kLinkSourceMulticast;
  if (source == device.mac()) return DropReason::kLinkSourceOwn;
  if (destination == device.mac() || destination.IsBroadcast()) return DropReason::kNone;
  if (!destination.IsMulticast()) {
    return target == LinkTarget::kHost ? DropReason::kNone : DropReason::kLinkOtherHost;
  }
  return device.HasMulticast(destination) || device.is_promiscuous()
             ? DropReason::kNone
             : DropReason::kLinkMulticastFilter;
}

}  // namespace

class EthInput::Sink final : public netdev::PacketType {
 public:
  Sink(EthInput& owner, Interface& interface, uint16_t ether_type)
      : PacketType(ether_type), owner_(owner), interface_(interface) {}

  void Receive(PacketPtr packet, netdev::NetDevice& /*device*/) override {
    owner_.Receive(std::move(packet), interface_);
  }
  const Interface& interface() const { return interface_; }

 private:
  EthInput& owner_;
  Interface& interface_;
};

EthInput::EthInput(Stack& stack) : stack_(stack) {}
EthInput::~EthInput() = default;

void EthInput::Attach(Interface& interface) {
  // kAllTypes brings 802.3 frames (SNAP) and whatever has to be counted as unknown.
  for (const uint16_t type :
       {EtherType::kIpv4, EtherType::kArp, EtherType::kIpv6, netdev::PacketType::kAllTypes}) {
    sinks_.push_back(std::make_unique<Sink>(*this, interface, type));
    interface.device().AddPacketType(*sinks_.back());
  }
}

void EthInput::Detach(Interface& interface) {
  std::erase_if(
      sinks_, [&](const std::unique_ptr<Sink>& sink) { return &sink->interface() == &interface; });
}

void EthInput::Receive(PacketPtr packet, Interface& interface) {
  const auto bytes = packet->Pull(wire::EthernetHeader::kLength);
  const auto header = bytes ? wire::EthernetHeader::Parse(*bytes) : std::nullopt;
  if (!header) {
    stack_.Drop(std::move(packet), DropReason::kLinkRunt);
    return;
  }
  // It speaks of this reception only: the packet may be sent on.
  const LinkTarget target = std::exchange(packet->meta.link_target, LinkTarget::kByAddress);
  if (target == LinkTarget::kOtherHost) {
    const bool tagged = packet->meta.vlan_present;
    stack_.Drop(std::move(packet),
                tagged ? DropReason::kLinkVlanUnknown : DropReason::kLinkOtherHost);
    return;
  }
  if (interface.needs_resolution()) {
    const DropReason reason = CheckAddresses(*header, interface.device(), target);
    if (reason != DropReason::kNone) {
      stack_.Drop(std::move(packet), reason);
      return;
    }
  }
  uint16_t ether_type = header->ether_type();
  if (header->IsLengthField()) ether_type = PullSnap(*packet);
  packet->set_l3_here();
  Dispatch(std::move(packet), interface, ether_type);
}

// RFC 1042 framing: the 802.3 length says where the data ends, so padding is cut here.
uint16_t EthInput::PullSnap(Packet& packet) {
  constexpr size_t kHeaders = wire::EthernetHeader::kLength + wire::kSnapHeaderLength;
  if (!packet.EnsureLinear(wire::kSnapHeaderLength)) return 0;
  const auto frame = packet.l2_bytes();
  const auto ethernet = wire::EthernetHeader::Parse(frame);
  if (frame.size() < kHeaders || !ethernet) return 0;
  const size_t length = ethernet->ether_type();
  if (length > packet.length()) return 0;
  // Only the head is looked at: the length is checked above, against the whole packet.
  std::array<uint8_t, kHeaders> headers;
  std::copy_n(frame.begin(), kHeaders, headers.begin());
  StoreBe16(headers.data() + 12, wire::kSnapHeaderLength);
  const auto snap = wire::ParseSnap(*wire::EthernetHeader::Parse(headers));
  if (!snap || length < wire::kSnapHeaderLength) return 0;
  packet.Trim(length);
  static_cast<void>(packet.Pull(wire::kSnapHeaderLength));
  return snap->ether_type;
}

void EthInput::Dispatch(PacketPtr packet, Interface& interface, uint16_t ether_type) {
  switch (ether_type) {
    case EtherType::kIpv4:
      stack_.ipv4().Input(std::move(packet), interface);
      return;
    case EtherType::kIpv6:
      stack_.ipv6().Input(std::move(packet), interface);
      return;
    case EtherType::kArp:
      interface.arp().Input(std::move(packet));
      return;
    default:
      break;
  }
  DropReason reason = DropReason::kLinkUnknownEtherType;
  if (IsVlanType(ether_type)) {
    // The receive core takes whole tags out of the data.
    const bool whole = packet->length() >= wire::VlanHeader::kLength;
    reason = whole ? DropReason::kLinkVlanUnknown : DropReason::kLinkVlanMalformed;
  }
  stack_.Drop(std::move(packet), reason);
}

}  // namespace tapwire
