// SPDX-License-Identifier: Apache-2.0
//
// The law of all codecs over whole messages, every prefix of them, damaged ones and random bytes.
// Buffers have the exact size, so the address sanitizer sees every read outside.
#include "tests/netdev/wire/codec_law.h"

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/netdev/wire/wire_test_util.h"

namespace tapwire::wire {
namespace {

struct Sample {
  CodecId id;
  const char* hex;
};

constexpr Sample kSamples[] = {
    {CodecId::kEthernet, "020000000002 020000000001 0009 aaaa03 000000 0800 45"},
    {CodecId::kVlan, "b064 0800"},
    {CodecId::kArp, "0001 0800 06 04 0001 020000000001 0a000001 000000000000 0a000002"},
    {CodecId::kIpv4,
     "4800 0021 abcd 2001 4011 0000 0a000001 0a000002 01 070704 0a000001 94040000 ff"},
    {CodecId::kIpv6,
     "6bbabcde 0001 11 40 20010db8000000000000000000000001"
     "20010db8000000000000000000000002 ff"},
    {CodecId::kIpv6Options, "3a01 0502 0000 1e03 000000 0103000000"},
    {CodecId::kIpv6Routing, "1102 0001 00000000 20010db8000000000000000000000003"},
    {CodecId::kIpv6Fragment, "1100 05a9 12345678"},
    {CodecId::kIpv6Chain,
     "60000000 0021 00 40 20010db8000000000000000000000001"
     "20010db8000000000000000000000002"
     "2b00 050200000100 2c00 0000 00000000 3300 0001 00000007"
     "0602 0000 0000000000000000 ff"},
    {CodecId::kIcmpv4, "0304 0000 00000578 45000014"},
    {CodecId::kIcmpv6, "0200 0000 00000578 60000000"},
    {CodecId::kRouterSolicitation, "8500 0000 00000000 0101 020000000001"},
    {CodecId::kRouterAdvertisement,
     "8600 0000 40 48 0708 00007530 000003e8 0101 020000000002 0501 0000 000005dc"
     "0304 40 c0 00015180 00003840 00000000 20010db8000000000000000000000000"
     "1903 0000 00000708 20010db8000000000000000000000053"
     "1802 40 08 00000384 20010db800010000 1801 00 18 00000384 fd01 000000000000"},
    {CodecId::kNeighborSolicitation,
     "8700 0000 00000000 fe800000000000000000000000000002 0101 020000000001 0e01 010203040506"},
    {CodecId::kNeighborAdvertisement,
     "8800 0000 e0000000 fe800000000000000000000000000002 0201 020000000002"},
    {CodecId::kRedirect,
     "8900 0000 00000000 fe800000000000000000000000000003 20010db8000000000000000000000009"
     "0201 020000000002 0402 000000000000 6000000000003b40"},
    {CodecId::kMld, "8300 0000 0000 0000 ff0200000000000000000000000000fb"},
    {CodecId::kMldv2Query,
     "8200 0000 2710 0000 ff0200000000000000000000000000fb 0a7d 0001"
     "20010db8000000000000000000000001"},
    {CodecId::kMldv2Report,
     "8f00 0000 0000 0002 0401 0001 ff0200000000000000000000000000fb"
     "20010db8000000000000000000000001 00000000 0300 0000 ff0200000000000000000000000000fc"},
    {CodecId::kIgmp, "1600 f9fc ef010101"},
    {CodecId::kIgmpv3Query, "1164 0000 ef010101 0a7d 0001 0a000001"},
    {CodecId::kIgmpv3Report,
     "2200 0000 0000 0002 0401 0001 ef010101 0a000001 00000000 0300 0000 ef010102"},
    {CodecId::kUdp, "0fa0 0007 000a 0000 6162"},
    {CodecId::kTcp,
     "b5f40051 4f008c5f 00000001 f0d2faf0 43c50007"
     "020405b4 0402 080a8ef2d41200000000 01 03030a 01010512 00000bb8 00000fa0"
     "00001388 00001770 6162"},
    {CodecId::kTcpOptions, "020405b4 0402 080a8ef2d41200000000 fd04 0000 03030a 00"},
    {CodecId::kNdpOptions,
     "0101 020000000001 0201 020000000002 0501 0000 000005dc"
     "0e02 0102030405060708090a0b0c0d0e"},
    {CodecId::kPrettyPrint,
     "020000000002 020000000001 8100 0064 0800 45000021 00004000 4011 0000"
     "0a000001 0a000002 0fa0 0007 000d 0000 6162636465"},
    {CodecId::kPrettyPrintIp,
     "60000000 0018 3a ff fe800000000000000000000000000001"
     "ff0200000000000000000001ff000002 8700 0000 00000000"
     "fe800000000000000000000000000002"},
    // "[fe80::1%2]:80"
    {CodecId::kText, "5b666538303a3a312532 5d3a3830"},
};

TEST(CodecLawTest, EveryCodecHasASample) {
  ASSERT_EQ(std::size(kSamples), static_cast<size_t>(CodecId::kCount));
  for (size_t i = 0; i < std::size(kSamples); ++i) {
    EXPECT_EQ(static_cast<size_t>(kSamples[i].id), i);
  }
}

TEST(CodecLawTest, HoldsForSamplesAndAllTheirPrefixes) {
  for (const Sample& sample : kSamples) {
    const std::vector<uint8_t> bytes = Hex(sample.hex);
    for (size_t size = 0; size <= bytes.size(); ++size) {
      const ExactBuffer prefix{std::span(bytes).first(size)};
      EXPECT_TRUE(CheckCodec(sample.id, prefix.span()))
          << static_cast<int>(sample.id) << " at " << size;
    }
  }
}

TEST(CodecLawTest, HoldsForDamagedSamples) {
  std::mt19937 random(11);
  for (const Sample& sample : kSamples) {
    const std::vector<uint8_t> bytes = Hex(sample.hex);
    for (int i = 0; i < 3000; ++i) {
      ExactBuffer damaged{std::span<const uint8_t>(bytes)};
      for (int flips = 0; flips < 1 + i % 4; ++flips) {
        damaged.span()[random() % bytes.size()] = static_cast<uint8_t>(random());
      }
      ASSERT_TRUE(CheckCodec(sample.id, damaged.span()))
          << static_cast<int>(sample.id) << " round " << i;
    }
  }
}

TEST(CodecLawTest, HoldsForRandomBytes) {
  std::mt19937 random(12);
  for (int i = 0; i < 100000; ++i) {
    const ExactBuffer bytes{std::span<const uint8_t>(RandomBytes(random, random() % 100))};
    const auto id = static_cast<CodecId>(random() % static_cast<unsigned>(CodecId::kCount));
    ASSERT_TRUE(CheckCodec(id, bytes.span())) << static_cast<int>(id) << " round " << i;
  }
}

// Values that no sample holds: the extremes of every field.
TEST(CodecLawTest, HoldsForExtremeFields) {
  const auto reads_back = [](const auto& fields, auto parse) {
    ExactBuffer out(fields.length());
    fields.Emit(out.span());
    return std::decay_t<decltype(fields)>::From(*parse(out.span())) == fields;
  };
  EXPECT_TRUE(reads_back(Ipv4Fields{.tos = 255,
                                    .total_length = 65535,
                                    .identification = 65535,
                                    .dont_fragment = true,
                                    .more_fragments = true,
                                    .fragment_offset = 65528,
                                    .ttl = 255,
                                    .protocol = 255,
                                    .source = Ipv4Address::kLimitedBroadcast,
                                    .options = InlineBytes<40>(std::vector<uint8_t>(40, 1))},
                         Ipv4Header::Parse));
  EXPECT_TRUE(reads_back(Ipv6Fields{.traffic_class = 255,
                                    .flow_label = 0xfffff,
                                    .payload_length = 65535,
                                    .next_header = 255,
                                    .hop_limit = 255},
                         Ipv6Header::Parse));
  EXPECT_TRUE(reads_back(Ipv6OptionsFields{.options = std::vector<uint8_t>(2046, 0)},
                         Ipv6OptionsHeader::Parse));
  EXPECT_TRUE(reads_back(Ipv6RoutingFields{.data = std::vector<uint8_t>(2044, 7)},
                         Ipv6RoutingHeader::Parse));
  EXPECT_TRUE(reads_back(RouterAdvertisementFields{.cur_hop_limit = 255,
                                                   .managed = true,
                                                   .other_config = true,
                                                   .preference = RoutePreference::kHigh,
                                                   .router_lifetime = 65535,
                                                   .reachable_time = 0xffffffff,
                                                   .retrans_timer = 0xffffffff},
                         RouterAdvertisementHeader::Parse));
}

}  // namespace
}  // namespace tapwire::wire
