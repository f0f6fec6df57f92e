// SPDX-License-Identifier: Apache-2.0
#include "netdev/frame_headers.h"

#include <vector>

#include "gtest/gtest.h"
#include "netdev/base/seeded_random.h"
#include "tests/netdev/frame_builder.h"

namespace tapwire::netdev {
namespace {

using testing::BuildFrame;
using testing::FrameSpec;
using testing::LayoutOf;

const FrameSpec kSpecs[] = {
    {},
    {.udp = true},
    {.ipv6 = true},
    {.ipv6 = true, .udp = true, .dest_options = true},
    {.ip_options = 12, .tcp_options = 40},
    {.tags = 2},
    {.ipv6 = true, .tags = 1},
};

TEST(FrameHeadersTest, HeadersAreFound) {
  for (const FrameSpec& spec : kSpecs) {
    const auto at = LayoutOf(spec);
    const auto headers = ParseTransportHeaders(BuildFrame(spec));
    ASSERT_TRUE(headers);
    EXPECT_EQ(headers->ether_type, spec.ipv6 ? 0x86dd : 0x0800);
    EXPECT_EQ(headers->protocol, spec.udp ? 17 : 6);
    EXPECT_EQ(headers->tags, spec.tags);
    EXPECT_EQ(headers->ipv6_extensions, spec.dest_options);
    EXPECT_EQ(headers->l3, at.l3);
    EXPECT_EQ(headers->l4, at.l4);
    EXPECT_EQ(headers->payload, at.payload);
    EXPECT_EQ(headers->l4 + headers->checksum_offset(), at.checksum);
  }
}

TEST(FrameHeadersTest, DontFragmentIsReported) {
  EXPECT_TRUE(ParseTransportHeaders(BuildFrame({.df = true}))->dont_fragment);
  EXPECT_FALSE(ParseTransportHeaders(BuildFrame({.df = false}))->dont_fragment);
}

TEST(FrameHeadersTest, EveryTruncationInsideTheHeadersIsRefused) {
  for (const FrameSpec& spec : kSpecs) {
    const std::vector<uint8_t> frame = BuildFrame(spec);
    const size_t payload = LayoutOf(spec).payload;
    for (size_t n = 0; n <= frame.size(); ++n) {
      // A copy of its own, so that reads beyond it are found.
      const std::vector<uint8_t> cut(frame.begin(), frame.begin() + static_cast<long>(n));
      EXPECT_EQ(ParseTransportHeaders(cut).has_value(), n >= payload) << n;
    }
  }
}

TEST(FrameHeadersTest, NoInputReadsOutside) {
  SeededRandom random(7);
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> frame = BuildFrame(kSpecs[random.Uniform(std::size(kSpecs))]);
    frame.resize(random.Uniform(static_cast<uint32_t>(frame.size()) + 1));
    frame.shrink_to_fit();
    for (int flips = 0; flips < 4 && !frame.empty(); ++flips) {
      frame[random.Uniform(static_cast<uint32_t>(frame.size()))] =
          static_cast<uint8_t>(random.Next32());
    }
    const auto headers = ParseTransportHeaders(frame);
    if (headers) {
      EXPECT_LE(headers->payload, frame.size());
      EXPECT_LE(headers->l4 + headers->checksum_offset() + 2, frame.size());
    }
  }
}

TEST(FrameHeadersTest, TagAtTheEndOfTheFrameIsTheType) {
  std::vector<uint8_t> frame = BuildFrame({.tags = 1});
  frame.resize(16);
  const LinkHeaders link = ParseLinkHeaders(frame);
  EXPECT_EQ(link.ether_type, 0x8100);
  EXPECT_EQ(link.tags, 0);
  EXPECT_EQ(link.length, 14u);
}

TEST(FrameHeadersTest, AddressesFeedThePseudoHeader) {
  const std::vector<uint8_t> v4 = BuildFrame({});
  const AddressPair a = AddressesOf(*ParseTransportHeaders(v4), v4);
  EXPECT_EQ(a.source.ToString(), "10.0.0.1");
  EXPECT_EQ(a.destination.ToString(), "10.0.0.2");
  const std::vector<uint8_t> v6 = BuildFrame({.ipv6 = true});
  const AddressPair b = AddressesOf(*ParseTransportHeaders(v6), v6);
  EXPECT_EQ(b.source.ToString(), "fd00::1");
  EXPECT_EQ(b.destination.ToString(), "fd00::2");
}

}  // namespace
}  // namespace tapwire::netdev
