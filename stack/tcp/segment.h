// SPDX-License-Identifier: Apache-2.0
// Segment: one received TCP segment, parsed once, under the names of RFC 9293 §3.3.1 (SEG.SEQ …).
#pragma once

#include <cstdint>

#include "netdev/base/time.h"
#include "netdev/packet/packet.h"
#include "netdev/wire/tcp.h"
#include "stack/flow_key.h"
#include "stack/ip.h"
#include "stack/tcp/seq.h"

namespace tapwire::tcp {

struct Segment {
  FlowKey flow;  // local is ours
  Seq seq;
  Seq ack;           // meaningful with the ACK flag
  uint16_t wnd = 0;  // the field, not scaled
  uint16_t urgent_pointer = 0;
  wire::TcpFlags flags;
  uint8_t tos = 0;
  bool late = false;  // rx_time is not the arrival (PacketMeta::late)
  uint32_t payload_length = 0;
  uint32_t ifindex = 0;
  Time rx_time{};
  wire::TcpOptions options;
  PacketPtr packet;  // data() at the payload, cut to payload_length

  // SEG.LEN: SYN and FIN take one number each.
  uint32_t len() const {
    return payload_length + (flags.syn() ? 1u : 0u) + (flags.fin() ? 1u : 0u);
  }
  Seq end() const { return seq + len(); }
};

}  // namespace tapwire::tcp
