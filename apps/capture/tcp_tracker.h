// SPDX-License-Identifier: Apache-2.0
// Follows TCP connections of a capture and sees what no single segment shows: windows that shrink,
// data beyond the peer's window or MSS, answers to what must not be answered, the same segment
// again and again.
//
// What a rule may conclude depends on where the capture was taken. At a sender (direction known)
// all of its segments are there, in order, and so is everything it can have answered. In between
// segments may be missing or out of order; rules that this would deceive are silent there.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "apps/capture/bytes.h"
#include "apps/capture/checker.h"

namespace tapwire::capture {

// One segment, read.
struct TcpSegment {
  struct End {
    Address address;
    uint16_t port = 0;
    friend bool operator==(const End&, const End&) = default;
    template <typename H>
    friend H AbslHashValue(H state, const End& end) {
      return H::combine(std::move(state), end.address, end.port);
    }
  };
  End source, destination;
  uint32_t seq = 0, ack = 0;
  uint16_t window = 0;  // the field
  uint8_t flags = 0;
  uint32_t length = 0;         // of the payload
  uint32_t segment_size = 0;   // payload of one segment of a super-packet, else `length`
  uint32_t option_length = 0;  // bytes, padding included
  bool has_sack = false;
  std::optional<uint16_t> mss = {};
  std::optional<uint8_t> window_scale = {};
  std::optional<uint32_t> tsval = {};
  int64_t time_ns = 0;
};
// The header must be whole.
TcpSegment ReadTcpSegment(const Address& source, const Address& destination, Bytes segment,
                          uint32_t length);

class TcpTracker {
 public:
  // More connections than that: the one unseen for longest is forgotten.
  static constexpr size_t kMaxFlows = 4096;
  // The same first unacknowledged segment may be sent so many times in a row without a longer wait
  // or a smaller size: fast retransmit, timeout, a path MTU that shrank, and one to spare.
  static constexpr int kMaxSendsWithoutBackOff = 4;

  struct Breach {
    Rule rule;
    std::string reason;
  };
  // Whose view the capture is: kTransmit the sender's, kReceive the receiver's, kUnknown neither's.
  // What the sender of a received segment did wrong is told too.
  std::vector<Breach> Add(const TcpSegment& segment, Direction direction, uint32_t interface);

 private:
  // What one end has said.
  struct Side {
    bool syn_seen = false;
    uint32_t iss = 0;
    uint16_t syn_window = 0;
    uint32_t mss = 0;
    std::optional<uint8_t> offered_scale;
    uint8_t scale = 0;
    bool has_edge = false;
    uint32_t edge = 0;     // right edge of the window it advertised, the furthest
    uint32_t max_ack = 0;  // what it acknowledged
    uint32_t max_end = 0;  // one past the highest number it sent
    uint32_t last_ack = 0;
    uint16_t last_window = 0;
    std::optional<uint32_t> tsval;
    struct Run {  // of one sequence number
      uint32_t seq = 0;
      uint32_t length = 0;
      int64_t last_ns = 0, gap_ns = 0;
      int sends = 0;
    } run;
  };
  // What arrived at the host whose view this is since it last sent something.
  enum class Since : uint8_t { kNothing, kQuiet, kQuietReset, kLoud };
  struct Key {
    uint32_t interface = 0;
    bool between = false;
    TcpSegment::End local, remote;  // between: in any order
    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H state, const Key& key) {
      return H::combine(std::move(state), key.interface, key.between, key.local, key.remote);
    }
  };
  struct Flow {
    Side sides[2];
    bool ready = false;  // both SYNs were seen and belong together
    Since since = Since::kNothing;
    int64_t last_received_ns = 0;
    std::optional<TcpSegment> reset;  // the last thing received, if a reset
    std::list<Key>::iterator age;
  };
  // One segment on its way through a flow.
  struct Step {
    const TcpSegment& segment;
    Side& from;
    Side& to;
    bool exact;  // seen at its sender
    std::vector<Breach>& breaches;
  };

  Flow& Find(const Key& key);
  static void OnSyn(Flow& flow, const Step& step);
  static void Pair(Flow& flow, Side& a, Side& b);
  static void CheckWindowEdge(const Step& step);
  static void CheckData(const Step& step);
  static void CheckBackOff(const Step& step);
  static void CheckAnswer(const Flow& flow, const Step& step);
  static void CheckResetAnswer(const Flow& flow, const Step& step);
  static Since Judge(const Flow& flow, const TcpSegment& received);
  static void Update(const Step& step);

  absl::flat_hash_map<Key, Flow> flows_;
  std::list<Key> by_age_;  // longest unseen first
};

}  // namespace tapwire::capture
