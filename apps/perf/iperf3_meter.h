// SPDX-License-Identifier: Apache-2.0
// Counters of the streams of one test, by interval and in total, without input and output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "apps/perf/iperf3_protocol.h"
#include "netdev/base/time.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::apps::iperf3 {

struct StreamInfo {
  int id = 0;      // on the wire
  int number = 0;  // in reports
  bool sender = false;
  Endpoint local, remote;
};

// What a connection says of itself; retransmits are segments since it began.
struct TcpSample {
  uint64_t retransmits = 0;
  uint64_t cwnd = 0;  // bytes
  uint64_t snd_wnd = 0;
  uint32_t rtt_us = 0, rttvar_us = 0;
  uint32_t pmtu = 0;
};

struct StreamInterval {
  double start_s = 0, end_s = 0;
  uint64_t bytes = 0;
  uint64_t retransmits = 0;  // within the interval; of a sender
  TcpSample tcp;
  double seconds() const { return end_s - start_s; }
};

struct Interval {
  std::vector<StreamInterval> streams;  // in the order of the streams
  bool omitted = false;
};

struct StreamTotals {
  uint64_t bytes = 0;
  double seconds = 0;
  uint64_t retransmits = 0;
  uint64_t max_cwnd = 0, max_snd_wnd = 0;
  uint32_t max_rtt_us = 0, min_rtt_us = 0;
  uint64_t sum_rtt_us = 0, samples = 0;
  uint32_t mean_rtt_us() const {
    return samples == 0 ? 0 : static_cast<uint32_t>(sum_rtt_us / samples);
  }
};

class Meter {
 public:
  // Called once per stream before Start().
  void AddStream(const StreamInfo& info) { streams_.push_back({.info = info}); }
  size_t size() const { return streams_.size(); }
  const StreamInfo& info(size_t stream) const { return streams_[stream].info; }
  std::vector<StreamInfo> infos() const;

  // The clock and all counters start here. `omit`: until EndOmit() nothing counts in the totals.
  void Start(Time now, bool omit);
  void Add(size_t stream, size_t bytes) {
    streams_[stream].total.bytes += bytes;
    streams_[stream].interval_bytes += bytes;
  }
  // Ends the running interval of every stream. One sample per stream; of receivers ignored.
  Interval EndInterval(Time now, const std::vector<TcpSample>& samples);
  // Starts everything again at zero.
  void EndOmit(Time now, const std::vector<TcpSample>& samples);
  // Fixes the end of the totals. The interval that runs is to be ended before.
  void Finish(Time now, const std::vector<TcpSample>& samples);

  bool started() const { return started_; }
  bool omitting() const { return omitting_; }
  double SecondsSinceStart(Time now) const;
  double SecondsOfInterval(Time now) const;
  // Bytes of the interval that runs, of all streams.
  uint64_t interval_bytes() const;
  // Of all senders or all receivers since the start (or the end of the omitted part).
  uint64_t total_bytes(bool sender) const;
  const StreamTotals& totals(size_t stream) const { return streams_[stream].total; }

  // This side's part of the result exchange.
  std::vector<StreamResult> ToResults() const;

 private:
  struct Stream {
    StreamInfo info = {};
    StreamTotals total = {};
    uint64_t interval_bytes = 0;
    uint64_t retransmits_at_start = 0;
    uint64_t retransmits_before = 0;  // at the end of the last interval
  };

  std::vector<Stream> streams_;
  Time start_, interval_start_;
  bool started_ = false;
  bool omitting_ = false;
};

}  // namespace tapwire::apps::iperf3
