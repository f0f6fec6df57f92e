// SPDX-License-Identifier: Apache-2.0
// Initial sequence numbers and timestamp offsets: a clock plus a keyed function of the connection
// (RFC 9293 §3.4.1, MUST-8, MUST-9; RFC 7323 §5.4).
#pragma once

#include <cstdint>

#include "netdev/base/random.h"
#include "netdev/base/siphash.h"
#include "netdev/base/time.h"
#include "stack/flow_key.h"
#include "stack/tcp/seq.h"

namespace tapwire::tcp {

class IsnGenerator {
 public:
  explicit IsnGenerator(Random& random);

  // ISN = M + F(local, remote, secret), where M advances by one each 4 µs.
  Seq Isn(const FlowKey& flow, Time now) const;
  // Added to the millisecond clock to make TSval: the same for all connections of a flow key, so
  // that timestamps go on rising when the key is used again (RFC 6191), and unrelated between keys.
  uint32_t TimestampOffset(const FlowKey& flow) const;

 private:
  SipKey isn_key_;
  SipKey timestamp_key_;
};

}  // namespace tapwire::tcp
