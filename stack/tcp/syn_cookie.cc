// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/syn_cookie.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "netdev/base/byteorder.h"

namespace tapwire::tcp {
namespace {

// Rounded down, so that no segment is larger than the peer said: the floor of Config::min_mss, the
// defaults of both families (RFC 9293 MUST-15), Ethernet with IPv6 and IPv4, jumbo frames.
constexpr std::array<uint16_t, 6> kMss = {88, 536, 1220, 1440, 1460, 8940};

constexpr uint32_t kLowMask = (1u << 24) - 1;
constexpr uint32_t kMinuteMask = 0xff;

// The mark: window scale, or 15 for none, and SACK permitted.
constexpr uint32_t kScaleMask = 0x0f;
constexpr uint32_t kNoScale = 0x0f;
constexpr uint32_t kSackBit = 0x10;
constexpr uint32_t kMarkMask = (1u << SynCookies::kMarkBits) - 1;

uint32_t Minute(Time now) {
  return static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::minutes>(now.time_since_epoch()).count());
}

uint32_t Hash(const SipKey& key, const FlowKey& flow, uint32_t extra) {
  std::array<uint8_t, 40> bytes{};  // 16 + 16 + 2 + 2 + 4; IPv4 leaves zeros
  std::ranges::copy(flow.local.bytes(), bytes.begin());
  std::ranges::copy(flow.remote.bytes(), bytes.begin() + 16);
  StoreBe16(bytes.data() + 32, flow.local_port);
  StoreBe16(bytes.data() + 34, flow.remote_port);
  StoreBe32(bytes.data() + 36, extra);
  return static_cast<uint32_t>(SipHash24(key, bytes));
}

}  // namespace

SynCookies::SynCookies(Random& random)
    : flow_key_(SipKey::Generate(random)), minute_key_(SipKey::Generate(random)) {}

uint32_t SynCookies::FlowHash(const FlowKey& flow) const { return Hash(flow_key_, flow, 0); }

uint32_t SynCookies::MinuteHash(const FlowKey& flow, uint32_t minute) const {
  return Hash(minute_key_, flow, minute);
}

Seq SynCookies::Make(const Segment& syn, uint16_t mss, Time now) const {
  const auto above = std::upper_bound(kMss.begin() + 1, kMss.end(), mss);
  const auto index = static_cast<uint32_t>(above - kMss.begin() - 1);
  const uint32_t minute = Minute(now);
  return Seq(FlowHash(syn.flow) + syn.seq.value() + (minute << 24) +
             ((MinuteHash(syn.flow, minute) + index) & kLowMask));
}

std::optional<uint16_t> SynCookies::Check(const Segment& ack, Time now) const {
  const uint32_t irs = ack.seq.value() - 1;
  const uint32_t cookie = ack.ack.value() - 1 - FlowHash(ack.flow) - irs;
  const uint32_t minute = Minute(now);
  const uint32_t age = (minute - (cookie >> 24)) & kMinuteMask;
  if (age >= kLifetimeMinutes) return std::nullopt;
  const uint32_t index = (cookie - MinuteHash(ack.flow, minute - age)) & kLowMask;
  if (index >= kMss.size()) return std::nullopt;
  return kMss[index];
}

uint32_t SynCookies::Mark(const wire::TcpOptions& syn) {
  // RFC 7323 §2.3: 14 at most, so 15 is free.
  const uint32_t scale =
      syn.window_scale ? std::min<uint32_t>(*syn.window_scale, kNoScale - 1) : kNoScale;
  return scale | (syn.sack_permitted ? kSackBit : 0);
}

uint32_t SynCookies::MarkedTimestamp(uint32_t now, uint32_t mark) {
  const uint32_t marked = (now & ~kMarkMask) | mark;
  // Never ahead of the clock: the connection's timestamps go on from here and must not fall.
  return static_cast<int32_t>(marked - now) > 0 ? marked - (1u << kMarkBits) : marked;
}

wire::TcpOptions SynCookies::OptionsFrom(const wire::TcpOptions& ack, uint16_t mss) {
  wire::TcpOptions syn;
  syn.mss = mss;
  if (!ack.timestamps) return syn;
  syn.timestamps = ack.timestamps;
  const uint32_t mark = ack.timestamps->tsecr & kMarkMask;
  syn.sack_permitted = (mark & kSackBit) != 0;
  if ((mark & kScaleMask) != kNoScale) {
    syn.window_scale = static_cast<uint8_t>(mark & kScaleMask);
  }
  return syn;
}

}  // namespace tapwire::tcp
