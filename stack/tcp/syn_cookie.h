// SPDX-License-Identifier: Apache-2.0
// SYN cookies (RFC 4987 §3.6): while a listener is flooded, what must be remembered of a SYN goes
// into the sequence number of the SYN-ACK and comes back in its acknowledgment.
//
//   ISS = F(flow) + IRS + (minute << 24) + ((G(flow, minute) + index of the MSS) mod 2^24)
//
// Window scale and SACK fit only into the low bits of the timestamp; without timestamps they are
// not offered. Keys are SipHash's and live as long as the stack.
#pragma once

#include <cstdint>
#include <optional>

#include "netdev/base/random.h"
#include "netdev/base/siphash.h"
#include "netdev/base/time.h"
#include "netdev/wire/tcp_options.h"
#include "stack/flow_key.h"
#include "stack/tcp/segment.h"
#include "stack/tcp/seq.h"

namespace tapwire::tcp {

class SynCookies {
 public:
  // A cookie is good in the minute in which it was made and in the next one.
  static constexpr uint32_t kLifetimeMinutes = 2;
  // Bits of a timestamp that carry options.
  static constexpr int kMarkBits = 6;

  explicit SynCookies(Random& random);

  // The ISS for `syn`, from a peer that takes segments of `mss` bytes. The MSS is kept rounded down
  // to one of a few usual ones.
  Seq Make(const Segment& syn, uint16_t mss, Time now) const;
  // The MSS, if `ack` acknowledges a cookie of ours that is not too old; it must carry the sequence
  // number behind the SYN. A guess is right once in 350 million times.
  std::optional<uint16_t> Check(const Segment& ack, Time now) const;

  // Window scale and SACK of a SYN as the low bits of our timestamp.
  static uint32_t Mark(const wire::TcpOptions& syn);
  // `now`, or a little earlier, with these low bits.
  static uint32_t MarkedTimestamp(uint32_t now, uint32_t mark);
  // The options of the SYN, as far as an acknowledgment's timestamps tell; `mss` is known already.
  static wire::TcpOptions OptionsFrom(const wire::TcpOptions& ack, uint16_t mss);

 private:
  // F, and G for one minute.
  uint32_t FlowHash(const FlowKey& flow) const;
  uint32_t MinuteHash(const FlowKey& flow, uint32_t minute) const;

  SipKey flow_key_;
  SipKey minute_key_;
};

}  // namespace tapwire::tcp
