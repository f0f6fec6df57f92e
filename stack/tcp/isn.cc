// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/isn.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "netdev/base/byteorder.h"

namespace tapwire::tcp {
namespace {

// The peer gets to see the results, so the function must not give its key away: SipHash-2-4, as RFC
// 9293 §3.4.1 asks for a pseudorandom function.
uint32_t KeyedHash(const SipKey& key, const FlowKey& flow) {
  std::array<uint8_t, 36> bytes{};  // 16 + 16 + 2 + 2; IPv4 leaves zeros
  std::ranges::copy(flow.local.bytes(), bytes.begin());
  std::ranges::copy(flow.remote.bytes(), bytes.begin() + 16);
  StoreBe16(bytes.data() + 32, flow.local_port);
  StoreBe16(bytes.data() + 34, flow.remote_port);
  return static_cast<uint32_t>(SipHash24(key, bytes));
}

}  // namespace

IsnGenerator::IsnGenerator(Random& random)
    : isn_key_(SipKey::Generate(random)), timestamp_key_(SipKey::Generate(random)) {}

Seq IsnGenerator::Isn(const FlowKey& flow, Time now) const {
  const auto since_start =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  return Seq(static_cast<uint32_t>(since_start.count() / 4)) + KeyedHash(isn_key_, flow);
}

uint32_t IsnGenerator::TimestampOffset(const FlowKey& flow) const {
  return KeyedHash(timestamp_key_, flow);
}

}  // namespace tapwire::tcp
