// SPDX-License-Identifier: Apache-2.0
#include "apps/capture/tcp_tracker.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tapwire::capture {
namespace {

constexpr uint8_t kFin = 0x01, kSyn = 0x02, kRst = 0x04, kAck = 0x10;
constexpr uint8_t kPureAckMask = 0x27;  // what a pure acknowledgment has not: FIN, SYN, RST, URG
constexpr int64_t kMillisecond = 1'000'000;
// An RTO need not grow beyond this (RFC 6298 §2.5).
constexpr int64_t kLongestBackOff = 59'000 * kMillisecond;
// Hosts take a smaller MSS for an attack and use one of their own.
constexpr uint32_t kSmallestMssJudged = 88;

// RFC 9293 §3.4: a - b in sequence space.
int32_t Minus(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b); }

bool IsPureAck(const TcpSegment& s) {
  return (s.flags & kAck) != 0 && (s.flags & kPureAckMask) == 0 && s.length == 0;
}
uint32_t End(const TcpSegment& s) {
  return s.seq + s.length + ((s.flags & kSyn) != 0 ? 1u : 0u) + ((s.flags & kFin) != 0 ? 1u : 0u);
}

void ReadOptions(Bytes options, TcpSegment& s) {
  for (size_t at = 0; at < options.size();) {
    const uint8_t kind = options.U8(at);
    if (kind == 0) return;
    if (kind == 1) {
      ++at;
      continue;
    }
    const size_t length = options.U8(at + 1);
    if (length < 2 || at + length > options.size()) return;
    if (kind == 2 && length == 4) s.mss = options.U16(at + 2);
    if (kind == 3 && length == 3) s.window_scale = std::min<uint8_t>(options.U8(at + 2), 14);
    if (kind == 5) s.has_sack = true;
    if (kind == 8 && length == 10) s.tsval = options.U32(at + 2);
    at += length;
  }
}

}  // namespace

TcpSegment ReadTcpSegment(const Address& source, const Address& destination, Bytes segment,
                          uint32_t length) {
  const uint32_t header = (segment.U8(12) >> 4) * 4u;
  TcpSegment s;
  s.source = {source, segment.U16(0)};
  s.destination = {destination, segment.U16(2)};
  s.seq = segment.U32(4);
  s.ack = segment.U32(8);
  s.flags = segment.U8(13);
  s.window = segment.U16(14);
  s.length = length - std::min(length, header);
  s.segment_size = s.length;
  s.option_length = header - std::min(header, 20u);
  ReadOptions(segment.First(header).From(20), s);
  return s;
}

TcpTracker::Flow& TcpTracker::Find(const Key& key) {
  if (const auto it = flows_.find(key); it != flows_.end()) {
    by_age_.splice(by_age_.end(), by_age_, it->second.age);
    return it->second;
  }
  if (flows_.size() >= kMaxFlows) {
    flows_.erase(by_age_.front());
    by_age_.pop_front();
  }
  by_age_.push_back(key);
  Flow& flow = flows_[key];
  flow.age = std::prev(by_age_.end());
  return flow;
}

std::vector<TcpTracker::Breach> TcpTracker::Add(const TcpSegment& segment, Direction direction,
                                                uint32_t interface) {
  Key key{interface, direction == Direction::kUnknown, segment.source, segment.destination};
  const auto order = [](const TcpSegment::End& end) {
    return std::tie(end.address.v6, end.address.octets, end.port);
  };
  // 0: the host whose view it is, or the lower end.
  const bool second = direction == Direction::kReceive ||
                      (key.between && order(segment.destination) < order(segment.source));
  if (second) std::swap(key.local, key.remote);
  Flow& flow = Find(key);
  std::vector<Breach> breaches;
  const Step step{segment, flow.sides[second ? 1 : 0], flow.sides[second ? 0 : 1],
                  direction == Direction::kTransmit, breaches};
  if (direction == Direction::kReceive) {
    flow.since = Judge(flow, segment);
    flow.last_received_ns = segment.time_ns;
    flow.reset.reset();
    if ((segment.flags & kRst) != 0) flow.reset = segment;
  }
  if ((segment.flags & kSyn) != 0) {
    OnSyn(flow, step);
  } else if ((segment.flags & kRst) != 0) {
    CheckResetAnswer(flow, step);
  } else if (flow.ready && (segment.flags & kAck) != 0) {
    CheckWindowEdge(step);
    CheckData(step);
    CheckBackOff(step);
    CheckAnswer(flow, step);
    Update(step);
  }
  if (step.exact) {
    flow.since = Since::kNothing;
    flow.reset.reset();
  }
  return breaches;
}

// A SYN with a new number begins a connection as far as its sender goes.
void TcpTracker::OnSyn(Flow& flow, const Step& step) {
  const TcpSegment& s = step.segment;
  if (!step.from.syn_seen || step.from.iss != s.seq) {
    step.from = Side();
    step.from.syn_seen = true;
    step.from.iss = s.seq;
    step.from.max_end = s.seq + 1;
    step.from.syn_window = s.window;
    step.from.offered_scale = s.window_scale;
    step.from.tsval = s.tsval;
    // RFC 9293 MUST-15, §3.7.1.
    step.from.mss = s.mss.value_or(s.source.address.v6 ? 1220 : 536);
    flow.ready = false;
  }
  if ((s.flags & kAck) == 0 || flow.ready) return;
  if (step.to.syn_seen && s.ack == step.to.iss + 1) Pair(flow, step.from, step.to);
}

void TcpTracker::Pair(Flow& flow, Side& a, Side& b) {
  flow.ready = true;
  const bool scaled = a.offered_scale && b.offered_scale;
  if (!a.tsval || !b.tsval) a.tsval = b.tsval = std::nullopt;
  for (Side* side : {&a, &b}) {
    Side& other = side == &a ? b : a;
    side->scale = scaled ? *side->offered_scale : uint8_t{0};
    // RFC 7323 §2.2: the window of a SYN is never scaled.
    side->edge = other.iss + 1 + side->syn_window;
    side->has_edge = true;
    side->max_ack = side->last_ack = other.iss + 1;
  }
}

// RFC 9293 SHLD-14. Rounding to the scale may take up to one unit.
void TcpTracker::CheckWindowEdge(const Step& step) {
  const TcpSegment& s = step.segment;
  Side& from = step.from;
  if (!step.exact && Minus(s.ack, from.max_ack) <= 0) return;  // maybe out of order
  const uint32_t edge = s.ack + (uint32_t{s.window} << from.scale);
  const int32_t lost = Minus(from.edge, edge);
  if (lost < (1 << from.scale)) return;
  step.breaches.push_back(
      {Rule::kTcpWindowShrunk, absl::StrCat("right edge moved left by ", lost, " bytes")});
}

// RFC 9293 MUST-16 and §3.8.6. One byte may probe a closed window (§3.8.6.1).
void TcpTracker::CheckData(const Step& step) {
  const TcpSegment& s = step.segment;
  if (s.length == 0) return;
  const Side& to = step.to;
  const uint32_t with_options = s.segment_size + s.option_length;
  // Elsewhere than at the sender a super-packet may not be marked as one.
  if (step.exact && to.mss >= kSmallestMssJudged && with_options > to.mss) {
    step.breaches.push_back(
        {Rule::kTcpMss, absl::StrCat(s.segment_size, " bytes and ", s.option_length,
                                     " of options, but the peer's MSS is ", to.mss)});
  }
  const int32_t beyond = Minus(s.seq + s.length, to.edge);
  if (to.has_edge && beyond > 0 && s.length > 1) {
    step.breaches.push_back(
        {Rule::kTcpBeyondWindow, absl::StrCat("data ", beyond, " bytes beyond the peer's window")});
  }
}

// RFC 6298 §5.5: the first unacknowledged segment, while nothing new is acknowledged.
void TcpTracker::CheckBackOff(const Step& step) {
  const TcpSegment& s = step.segment;
  if (s.length == 0 || s.seq != step.to.max_ack) return;
  Side::Run& run = step.from.run;
  const int64_t gap = s.time_ns - run.last_ns;
  if (!step.exact && run.sends > 0 && gap < 10 * kMillisecond) return;  // maybe a copy on the way
  const bool again = run.sends > 0 && run.seq == s.seq;
  const bool longer = gap >= kLongestBackOff || (gap > 0 && gap / 3 >= run.gap_ns / 2);
  if (!again || longer || s.length < run.length) {
    run = {s.seq, s.length, s.time_ns, again ? gap : 0, 1};
    return;
  }
  run.last_ns = s.time_ns;
  run.gap_ns = gap;
  if (++run.sends != kMaxSendsWithoutBackOff + 1) return;
  step.breaches.push_back(
      {Rule::kTcpNoBackOff, absl::StrFormat("same segment %d times, the last after %.1f ms",
                                            run.sends, static_cast<double>(gap) / 1e6)});
}

// RFC 9293 §3.10.7.4: an acceptable acknowledgment without text needs no answer, nor does a reset.
void TcpTracker::CheckAnswer(const Flow& flow, const Step& step) {
  const TcpSegment& s = step.segment;
  const Side& from = step.from;
  if (!step.exact || !IsPureAck(s) || s.has_sack) return;
  if (s.time_ns - flow.last_received_ns > kMillisecond) return;
  // One that tells something new has another reason.
  if (s.seq != from.max_end || s.ack != from.last_ack || s.window != from.last_window) return;
  if (flow.since == Since::kQuiet)
    step.breaches.push_back({Rule::kTcpAckAnswered, "acknowledgment answered by the same again"});
  if (flow.since == Since::kQuietReset)
    step.breaches.push_back({Rule::kTcpResetAnswered, "reset answered by an acknowledgment"});
}

// The reset that §3.10.7.1 would build for the one that was received.
void TcpTracker::CheckResetAnswer(const Flow& flow, const Step& step) {
  if (!step.exact || !flow.reset) return;
  const TcpSegment& s = step.segment;
  const TcpSegment& got = *flow.reset;
  if (s.time_ns - got.time_ns > kMillisecond) return;
  const bool got_ack = (got.flags & kAck) != 0;
  const bool has_ack = (s.flags & kAck) != 0;
  const bool answer = got_ack ? !has_ack && s.seq == got.ack
                              : has_ack && s.seq == 0 && s.ack == got.seq + got.length;
  if (answer) step.breaches.push_back({Rule::kTcpResetAnswered, "reset answered by a reset"});
}

// Whether what arrived leaves the host without a reason to say anything.
TcpTracker::Since TcpTracker::Judge(const Flow& flow, const TcpSegment& received) {
  if (!flow.ready || flow.since == Since::kLoud) return Since::kLoud;
  const Side& local = flow.sides[0];
  const Side& remote = flow.sides[1];
  if ((received.flags & kRst) != 0) {
    // RFC 5961 §3.2: only one inside the window, and not at its start, asks for an answer.
    const int32_t at = Minus(received.seq, local.last_ack);
    const bool outside = at < 0 || Minus(received.seq, local.edge) >= 0;
    return at == 0 || outside ? Since::kQuietReset : Since::kLoud;
  }
  const bool quiet = IsPureAck(received) && received.seq == local.last_ack &&
                     Minus(received.ack, remote.max_ack) >= 0 &&
                     Minus(received.ack, local.max_end) <= 0 &&
                     remote.tsval.has_value() == received.tsval.has_value() &&
                     (!received.tsval || Minus(*received.tsval, *remote.tsval) >= 0);
  if (!quiet) return Since::kLoud;
  return flow.since == Since::kQuietReset ? Since::kQuietReset : Since::kQuiet;
}

void TcpTracker::Update(const Step& step) {
  const TcpSegment& s = step.segment;
  Side& from = step.from;
  const uint32_t edge = s.ack + (uint32_t{s.window} << from.scale);
  if (Minus(edge, from.edge) > 0) from.edge = edge;
  if (Minus(s.ack, from.max_ack) > 0) from.max_ack = s.ack;
  if (Minus(End(s), from.max_end) > 0) from.max_end = End(s);
  from.last_ack = s.ack;
  from.last_window = s.window;
  if (s.tsval) from.tsval = s.tsval;
}

}  // namespace tapwire::capture
