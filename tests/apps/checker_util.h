// SPDX-License-Identifier: Apache-2.0
// What the tests of the capture checker share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/capture/checker.h"
#include "tests/testutil/packet_builder.h"

namespace tapwire::capture {

using testutil::ByteVector;
// The builder, under a name that is free here.
using Build = testutil::Frame;

inline constexpr MacAddress kMacA(2, 0, 0, 0, 0, 0xaa);
inline constexpr MacAddress kMacB(2, 0, 0, 0, 0, 0xbb);
inline constexpr Ipv4Address kA(10, 0, 0, 1);
inline constexpr Ipv4Address kB(10, 0, 0, 2);
inline constexpr Ipv6Address kA6 = Ipv6Address::FromGroups({0xfd00, 0, 0, 0, 0, 0, 0, 1});
inline constexpr Ipv6Address kB6 = Ipv6Address::FromGroups({0xfd00, 0, 0, 0, 0, 0, 0, 2});
inline constexpr Ipv6Address kLinkLocal = Ipv6Address::FromGroups({0xfe80, 0, 0, 0, 0, 0, 0, 1});

// Names of the rules, notes left out, that the checker reported about the frames, in order.
inline std::vector<std::string> Breaches(const std::vector<ByteVector>& frames, Frame about = {},
                                         CheckerOptions options = {}) {
  CaptureChecker checker(std::move(options));
  if (about.direction == Direction::kUnknown) about.direction = Direction::kTransmit;
  for (const ByteVector& bytes : frames) {
    about.bytes = bytes;
    checker.Check(about);
    about.time_ns += 1'000'000;
  }
  std::vector<std::string> names;
  for (const Finding& finding : checker.report().findings) {
    if (finding.severity != Severity::kNote) names.emplace_back(RuleName(finding.rule));
  }
  return names;
}
inline std::vector<std::string> Breaches(const ByteVector& frame, const Frame& about = {},
                                         CheckerOptions options = {}) {
  return Breaches(std::vector<ByteVector>{frame}, about, std::move(options));
}

inline ByteVector First(ByteVector bytes, size_t count) {
  bytes.resize(count);
  return bytes;
}

inline Build Udp4() {
  return Build()
      .Eth(kMacA, kMacB)
      .Ipv4({.source = kA, .destination = kB})
      .Udp({.source_port = 1000, .destination_port = 2000});
}
inline Build Udp6() {
  return Build()
      .Eth(kMacA, kMacB)
      .Ipv6({.source = kA6, .destination = kB6})
      .Udp({.source_port = 1000, .destination_port = 2000});
}
inline Build Ip4(testutil::Ipv4Args args) {
  if (args.source == Ipv4Address()) args.source = kA;
  if (args.destination == Ipv4Address()) args.destination = kB;
  return Build().Eth(kMacA, kMacB).Ipv4(args);
}
inline Build Ip6(testutil::Ipv6Args args) {
  if (args.source == Ipv6Address()) args.source = kA6;
  if (args.destination == Ipv6Address()) args.destination = kB6;
  return Build().Eth(kMacA, kMacB).Ipv6(args);
}
inline Build Tcp4(const testutil::TcpArgs& args) {
  testutil::TcpArgs tcp = args;
  if (tcp.source_port == 0) tcp.source_port = 1000;
  if (tcp.destination_port == 0) tcp.destination_port = 80;
  return Ip4({}).Tcp(tcp);
}

}  // namespace tapwire::capture
