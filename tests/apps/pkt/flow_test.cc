// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/flow.h"

#include <gtest/gtest.h>

#include "apps/pkt/match.h"

namespace tapwire::pkt {
namespace {

const Endpoint kLocal{Ipv4Address(10, 0, 0, 2), 80, 0};
const Endpoint kRemote{Ipv4Address(10, 0, 0, 1), 5000, 0};

constexpr uint8_t kSyn = 0x02, kSynAck = 0x12, kAck = 0x10;

TEST(FlowTest, OurNumbersAreLearnedFromOurSyn) {
  Flow flow(kLocal, kRemote, false);
  flow.ToWire({.flags = kSyn, .seq = 7});
  // Across the wrap of 2^32.
  flow.LearnIsn({.flags = kSynAck, .seq = 0}, {.flags = kSynAck, .seq = 0xfffffff0});
  EXPECT_EQ(flow.ToScript({.flags = kAck, .seq = 0xfffffff1}).seq, 1u);
  EXPECT_EQ(flow.ToScript({.flags = kAck, .seq = 0x10}).seq, 32u);
  const TcpSpec wire = flow.ToWire({.flags = kAck,
                                    .seq = 8,
                                    .ack = 101u,
                                    .options = {{.kind = OptionKind::kSack, .sacks = {{1, 201}}}}});
  EXPECT_EQ(wire.seq, 8u);  // the peer's numbers are its own
  EXPECT_EQ(wire.ack, 0x55u);
  EXPECT_EQ(wire.options[0].sacks[0], std::pair(0xfffffff1u, 0xb9u));
  EXPECT_EQ(flow.first_peer_byte(), 8u);
  EXPECT_EQ(flow.StreamOffset(1), 0u);
}

TEST(FlowTest, ARepeatedSynMustKeepItsNumber) {
  Flow flow(kLocal, kRemote, false);
  flow.ToWire({.flags = kSyn});
  flow.LearnIsn({.flags = kSynAck}, {.flags = kSynAck, .seq = 1000});
  // The same answer once more with another number is not taken for right …
  flow.LearnIsn({.flags = kSynAck}, {.flags = kSynAck, .seq = 2000});
  EXPECT_EQ(flow.ToScript({.seq = 2000}).seq, 1000u);
  // … but a new SYN of the peer starts afresh.
  flow.ToWire({.flags = kSyn, .seq = 90000});
  flow.LearnIsn({.flags = kSynAck}, {.flags = kSynAck, .seq = 2000});
  EXPECT_EQ(flow.ToScript({.seq = 2000}).seq, 0u);
}

TEST(FlowTest, EchoedTimestampsAreThoseOfTheWire) {
  Flow flow(kLocal, kRemote, false);
  const auto echo = [&](uint32_t script) {
    return flow.ToWire({.options = {{.kind = OptionKind::kTimestamps, .value = 5, .echo = script}}})
        .options[0];
  };
  EXPECT_EQ(echo(100).echo, 100u);  // nothing known yet
  flow.LearnTimestamp(100, 77000);
  flow.LearnTimestamp(200, 77111);
  EXPECT_EQ(echo(100).echo, 77000u);
  EXPECT_EQ(echo(200).echo, 77111u);
  EXPECT_EQ(echo(150).echo, 77050u);  // counted from the first
  EXPECT_EQ(echo(0).echo, 0u);
  EXPECT_EQ(echo(100).value, 5u);
}

TEST(FlowTest, LearnsThePortThatTheStackChose) {
  Flow flow({Ipv4Address(10, 0, 0, 2), 0, 0}, kRemote, false);
  EXPECT_FALSE(flow.Owns({{kLocal.address, 1234, 0}, {kRemote.address, 1, 0}}, false));
  EXPECT_FALSE(flow.Owns({{kLocal.address, 1234, 0}, kRemote}, true));
  EXPECT_TRUE(flow.Owns({{kLocal.address, 1234, 0}, kRemote}, false));
  EXPECT_FALSE(flow.Owns({{kLocal.address, 1235, 0}, kRemote}, false));
  EXPECT_EQ(flow.local().port, 1234);
}

PacketSpec Tcp(TcpSpec tcp, IpSpec ip = {}) {
  PacketSpec packet;
  packet.inbound = false;
  packet.ip = ip;
  packet.body = std::move(tcp);
  return packet;
}

std::string Compare(const PacketSpec& expected, const PacketSpec& actual) {
  return Mismatch(expected, actual, IpFamily::kV4);
}

TEST(MatchTest, OnlyWhatIsWrittenIsCompared) {
  const PacketSpec actual = Tcp({.flags = kAck,
                                 .seq = 1,
                                 .ack = 2u,
                                 .window = uint16_t{300},
                                 .options = {{.kind = OptionKind::kNop}}},
                                {.ecn = EcnSpec::kEct1, .tos = uint8_t{1}});
  TcpSpec expected{.flags = kAck, .seq = 1, .any_options = true};
  EXPECT_EQ(Compare(Tcp(expected), actual), "");
  expected.window = 301;
  EXPECT_NE(Compare(Tcp(expected), actual), "");
  expected.window = 300;
  expected.any_options = false;
  EXPECT_NE(Compare(Tcp(expected), actual), "");
  expected.options = {{.kind = OptionKind::kNop}};
  EXPECT_EQ(Compare(Tcp(expected), actual), "");
  EXPECT_EQ(Compare(Tcp(expected, {.ecn = EcnSpec::kEct01}), actual), "");
  EXPECT_NE(Compare(Tcp(expected, {.ecn = EcnSpec::kNotEct}), actual), "");
  EXPECT_NE(Compare(Tcp(expected, {.tos = uint8_t{0}}), actual), "");
}

TEST(MatchTest, TimestampValuesAreFreeEchoesAreNot) {
  const auto with = [](uint32_t value, uint32_t echo) {
    return Tcp({.options = {{.kind = OptionKind::kTimestamps, .value = value, .echo = echo}}});
  };
  EXPECT_EQ(Compare(with(1, 2), with(9, 2)), "");
  EXPECT_NE(Compare(with(1, 2), with(1, 3)), "");
}

TEST(MatchTest, SegmentsAppendOnlyWithoutGap) {
  TcpSpec whole{.flags = kAck, .seq = 1, .length = 100, .ack = 1u};
  EXPECT_FALSE(Append(whole, {.flags = kAck, .seq = 102, .length = 10, .ack = 1u}));
  EXPECT_FALSE(Append(whole, {.flags = kAck, .seq = 101, .length = 10, .ack = 2u}));
  EXPECT_FALSE(Append(whole, {.flags = kSynAck, .seq = 101, .length = 10, .ack = 1u}));
  EXPECT_TRUE(Append(whole, {.flags = 0x18, .seq = 101, .length = 10, .ack = 1u}));
  EXPECT_EQ(whole.length, 110u);
  EXPECT_EQ(whole.flags, 0x18);
}

}  // namespace
}  // namespace tapwire::pkt
