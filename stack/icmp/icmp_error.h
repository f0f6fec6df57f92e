// SPDX-License-Identifier: Apache-2.0
// ICMP errors that we send: whether one may be sent at all (RFC 1122 §3.2.2, RFC 4443 §2.4(e)), how
// much of the offending datagram it quotes, and the rate (RFC 4443 §2.4(f), token bucket).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "netdev/base/time.h"
#include "netdev/packet/packet.h"
#include "stack/ip.h"

namespace tapwire {

class Stack;
struct Route;

class IcmpErrors {
 public:
  explicit IcmpErrors(Stack& stack);
  // See Stack::SendIcmpError. Errors that are not sent are counted: kIcmpErrorSuppressed,
  // kIcmpRateLimited, kTxNoRoute or kTxNoBuffer.
  void Send(const Packet& offending, const IpPacketInfo& info, IcmpErrorKind kind, uint32_t value);

 private:
  struct Message;  // type, code and the four bytes behind the checksum

  static std::optional<Message> MessageFor(IpFamily family, IcmpErrorKind kind, uint32_t value);
  bool MayAnswer(const IpPacketInfo& info, IcmpErrorKind kind,
                 std::span<const uint8_t> quote) const;
  bool MayAnswer4(const IpPacketInfo& info, std::span<const uint8_t> quote) const;
  bool MayAnswer6(const IpPacketInfo& info, IcmpErrorKind kind,
                  std::span<const uint8_t> quote) const;
  bool TakeToken();
  std::optional<Route> RouteBack(const IpPacketInfo& info);
  void Transmit(PacketPtr packet, const Route& route, const Message& message);
  void CountSent(IpFamily family, const Message& message);

  Stack& stack_;
  double tokens_;
  Time last_refill_;
};

}  // namespace tapwire
