// SPDX-License-Identifier: Apache-2.0
// Neighbor Discovery for one interface (RFC 4861, host side without router discovery) with
// duplicate address detection (RFC 4862 §5.4, RFC 7527) and unsolicited advertisements (RFC 4861
// §7.2.6). Timers: one per address being checked or announced.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "netdev/base/log_every_n.h"
#include "netdev/packet/packet.h"
#include "netdev/wire/ndp.h"
#include "stack/ip.h"
#include "stack/neighbor.h"

namespace tapwire {

class Interface;

class Ndp final : public NeighborResolver {
 public:
  explicit Ndp(Interface& interface);
  ~Ndp() override;

  // A received ICMPv6 message of types 133–137 with a good checksum; data() at the ICMPv6 header.
  // Validates per RFC 4861 §6.1, §7.1, §8.1 (hop limit 255 in info.ttl, not reassembled: RFC 6980).
  DropReason Input(PacketPtr packet, const IpPacketInfo& info);

  // RFC 4862 §5.4: random delay, NS with source ::, then Interface::OnAddressChecked once.
  void StartDad(const Ipv6Address& address);
  // Stops checking and announcing it (address removed, interface down).
  void Cancel(const Ipv6Address& address);
  // Unsolicited advertisements to all nodes, so that caches learn a new MAC.
  void Announce(const Ipv6Address& address);

  void Solicit(const IpAddress& target, std::optional<MacAddress> unicast_to,
               const IpAddress& source) override;
  void ReportUnreachable(PacketPtr packet, const IpAddress& target) override;

 private:
  struct Check;
  DropReason Validate(const Packet& packet, const IpPacketInfo& info) const;
  DropReason Dispatch(std::span<const uint8_t> message, const IpPacketInfo& info);
  DropReason OnSolicitation(const wire::NeighborSolicitationHeader& ns, const IpPacketInfo& info);
  DropReason OnAdvertisement(const wire::NeighborAdvertisementHeader& na, const IpPacketInfo& info);
  DropReason OnTentativeSolicited(Check& check, const wire::NdpOptions& options,
                                  const IpPacketInfo& info);
  DropReason OnOwnAddressAdvertised(const Ipv6Address& target);
  void Answer(const Ipv6Address& target, const IpPacketInfo& info);

  struct Advertise {
    Ipv6Address target, destination;
    bool solicited = false;
  };
  void SendAdvertisement(const Advertise& request);
  void SendDadProbe(Check& check);
  void SendMessage(PacketPtr packet, const Ipv6Address& source, const Ipv6Address& destination);
  std::optional<Ipv6Address> SolicitSource(const IpAddress& source) const;
  Check* Find(const Ipv6Address& address);
  void OnTimer(Check& check);
  void Erase(const Check& check);

  Interface& interface_;
  std::vector<std::unique_ptr<Check>> checks_;
  LogEveryN conflict_log_;
};

}  // namespace tapwire
