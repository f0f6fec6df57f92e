// SPDX-License-Identifier: Apache-2.0
// What tests may see and set inside a connection.
#pragma once

#include <cstdint>

#include "stack/tcp/connection.h"

namespace tapwire::tcp {

class ConnectionTestPeer {
 public:
  static uint32_t Pipe(const Connection& c) { return c.Pipe(); }
  static uint32_t Cwnd(const Connection& c) { return c.cc_->cwnd(); }
  static uint32_t SegmentSize(const Connection& c) { return c.SegmentSize(); }
  static RecoveryState Recovery(const Connection& c) { return c.recovery_; }
  static Duration Rto(const Connection& c) { return c.Rto(); }
  static size_t SentRanges(const Connection& c) { return c.rtx_.range_count(); }
  static void SetRecoveryPoint(Connection& c, uint32_t number) { c.recovery_point_ = Seq(number); }
  // Before the SYN has left: the sequence number that it will have.
  static void SetIss(Connection& c, uint32_t iss) {
    c.snd_.iss = c.snd_.una = c.snd_.nxt = c.recovery_point_ = Seq(iss);
  }
};

}  // namespace tapwire::tcp
