// SPDX-License-Identifier: Apache-2.0
#include "apps/perf/iperf3_meter.h"

#include <algorithm>

namespace tapwire::apps::iperf3 {
namespace {

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

void NoteSample(const TcpSample& sample, StreamTotals& total) {
  total.max_cwnd = std::max(total.max_cwnd, sample.cwnd);
  total.max_snd_wnd = std::max(total.max_snd_wnd, sample.snd_wnd);
  total.max_rtt_us = std::max(total.max_rtt_us, sample.rtt_us);
  total.min_rtt_us = total.samples == 0 ? sample.rtt_us : std::min(total.min_rtt_us, sample.rtt_us);
  total.sum_rtt_us += sample.rtt_us;
  ++total.samples;
}

}  // namespace

std::vector<StreamInfo> Meter::infos() const {
  std::vector<StreamInfo> infos;
  for (const Stream& stream : streams_) infos.push_back(stream.info);
  return infos;
}

void Meter::Start(Time now, bool omit) {
  start_ = interval_start_ = now;
  started_ = true;
  omitting_ = omit;
  for (Stream& stream : streams_) {
    stream.total = {};
    stream.interval_bytes = 0;
  }
}

Interval Meter::EndInterval(Time now, const std::vector<TcpSample>& samples) {
  Interval interval{.streams = {}, .omitted = omitting_};
  for (size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    StreamInterval entry{.start_s = Seconds(interval_start_ - start_),
                         .end_s = Seconds(now - start_),
                         .bytes = stream.interval_bytes,
                         .tcp = samples[i]};
    if (stream.info.sender) {
      entry.retransmits = samples[i].retransmits - stream.retransmits_before;
      stream.retransmits_before = samples[i].retransmits;
      NoteSample(samples[i], stream.total);
    }
    stream.interval_bytes = 0;
    interval.streams.push_back(entry);
  }
  interval_start_ = now;
  return interval;
}

void Meter::EndOmit(Time now, const std::vector<TcpSample>& samples) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    streams_[i].retransmits_at_start = streams_[i].retransmits_before = samples[i].retransmits;
  }
  Start(now, false);
}

void Meter::Finish(Time now, const std::vector<TcpSample>& samples) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    stream.total.seconds = Seconds(now - start_);
    stream.total.retransmits = samples[i].retransmits - stream.retransmits_at_start;
  }
}

double Meter::SecondsSinceStart(Time now) const { return Seconds(now - start_); }

double Meter::SecondsOfInterval(Time now) const { return Seconds(now - interval_start_); }

uint64_t Meter::interval_bytes() const {
  uint64_t bytes = 0;
  for (const Stream& stream : streams_) bytes += stream.interval_bytes;
  return bytes;
}

uint64_t Meter::total_bytes(bool sender) const {
  uint64_t bytes = 0;
  for (const Stream& stream : streams_) {
    if (stream.info.sender == sender) bytes += stream.total.bytes;
  }
  return bytes;
}

std::vector<StreamResult> Meter::ToResults() const {
  std::vector<StreamResult> results;
  for (const Stream& stream : streams_) {
    StreamResult result{.id = stream.info.id, .bytes = stream.total.bytes};
    if (stream.info.sender) result.retransmits = static_cast<int64_t>(stream.total.retransmits);
    result.end_s = stream.total.seconds;
    results.push_back(result);
  }
  return results;
}

}  // namespace tapwire::apps::iperf3
