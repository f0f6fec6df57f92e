// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/flow.h"

#include <algorithm>

namespace tapwire::pkt {
namespace {

constexpr uint8_t kSyn = 0x02;

}  // namespace

bool Flow::Owns(const Ends& ends, bool udp) {
  if (udp != udp_ || ends.destination != remote_) return false;
  if (local_.port != 0 && ends.source.port != local_.port) return false;
  local_.port = ends.source.port;
  local_.address = ends.source.address;
  return true;
}

uint32_t Flow::EchoToWire(uint32_t script) const {
  if (script == 0 || timestamps_.empty()) return script;
  for (auto it = timestamps_.rbegin(); it != timestamps_.rend(); ++it) {
    if (it->first == script) return it->second;
  }
  return *PredictTimestamp(script);
}

TcpSpec Flow::ToWire(const TcpSpec& script) {
  TcpSpec wire = script;
  if ((script.flags & kSyn) != 0) {
    first_peer_byte_ = script.seq + 1;
    bytes_read = 0;
    new_incarnation_ = true;
  }
  if (script.urgent) urgent_seen = true;
  if (wire.ack) *wire.ack += local_offset_;
  for (OptionSpec& option : wire.options) {
    if (option.kind == OptionKind::kTimestamps) option.echo = EchoToWire(option.echo);
    for (auto& [left, right] : option.sacks) {
      left += local_offset_;
      right += local_offset_;
    }
  }
  return wire;
}

void Flow::LearnIsn(const TcpSpec& expected, const TcpSpec& actual) {
  if ((expected.flags & kSyn) == 0 || (actual.flags & kSyn) == 0) return;
  const bool same = isn_known_ && actual.seq - local_offset_ == expected.seq;
  if (same || (isn_known_ && !new_incarnation_)) return;
  isn_known_ = true;
  new_incarnation_ = false;
  script_isn_ = expected.seq;
  local_offset_ = actual.seq - expected.seq;
  written.clear();
}

TcpSpec Flow::ToScript(const TcpSpec& wire) const {
  TcpSpec script = wire;
  script.seq -= local_offset_;
  return script;
}

void Flow::LearnTimestamp(uint32_t script, uint32_t wire) {
  timestamps_.emplace_back(script, wire);
}

std::optional<uint32_t> Flow::PredictTimestamp(uint32_t script) const {
  if (timestamps_.empty()) return std::nullopt;
  const auto& [first_script, first_wire] = timestamps_.front();
  return first_wire + (script - first_script);
}

std::optional<uint32_t> Flow::StreamOffset(uint32_t seq) const {
  if (!isn_known_) return std::nullopt;
  return seq - script_isn_ - 1;
}

}  // namespace tapwire::pkt
