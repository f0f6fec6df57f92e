// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "netdev/pcapng_writer.h"
#include "tests/testutil/packet_builder.h"
#include "tests/testutil/tshark.h"

namespace tapwire::netdev {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testutil::ByteVector;
using testutil::Hex;
using testutil::Pattern;
using testutil::TempFile;

// The writer owns its sink; a test wants to look at the bytes.
class SharedSink final : public ByteSink {
 public:
  explicit SharedSink(ByteVector& bytes) : bytes_(bytes) {}
  absl::Status Write(std::span<const uint8_t> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return absl::OkStatus();
  }
  absl::Status Flush() override { return absl::OkStatus(); }

 private:
  ByteVector& bytes_;
};

// Fails from the given call on.
class FailingSink final : public ByteSink {
 public:
  explicit FailingSink(int good_calls) : good_calls_(good_calls) {}
  absl::Status Write(std::span<const uint8_t> /*bytes*/) override {
    ++calls;
    return good_calls_-- > 0 ? absl::OkStatus() : absl::ResourceExhaustedError("disk full");
  }
  absl::Status Flush() override { return absl::OkStatus(); }
  static inline int calls = 0;

 private:
  int good_calls_;
};

ByteVector TestFrame() {
  return testutil::Frame()
      .Eth(MacAddress(2, 0, 0, 0, 0, 1), MacAddress(2, 0, 0, 0, 0, 2))
      .Ipv4({.source = {10, 0, 0, 1}, .destination = {10, 0, 0, 2}})
      .Udp({.source_port = 1000, .destination_port = 2000})
      .Payload("hello")
      .Build();
}

// Every byte by hand, from the pcapng specification.
TEST(PcapngTest, BlocksAreByteForByteAsSpecified) {
  ByteVector bytes;
  PcapngWriter writer(std::make_unique<SharedSink>(bytes),
                      {.application = "abc", .snap_length = 96});
  EXPECT_EQ(bytes, Hex("0a0d0d0a 28000000 4d3c2b1a 0100 0000 ffffffffffffffff"
                       "0400 0300 61626300  0000 0000 28000000"));
  bytes.clear();
  EXPECT_EQ(writer.AddInterface({.name = "tw0", .mac = MacAddress(2, 0, 0, 0, 0, 9)}), 0u);
  EXPECT_EQ(bytes, Hex("01000000 34000000 0100 0000 60000000"
                       "0200 0300 74773000  0600 0600 020000000009 0000  0900 0100 09000000"
                       "0000 0000 34000000"));
  bytes.clear();
  EXPECT_TRUE(writer.WritePacket({.interface = 0,
                                  .time_ns = 0x0102030405060708,
                                  .captured = Hex("aabbccddee"),
                                  .original_length = 1514,
                                  .direction = PcapngDirection::kOutbound,
                                  .comment = "hi"}));
  EXPECT_EQ(bytes, Hex("06000000 3c000000 00000000 04030201 08070605 05000000 ea050000"
                       "aabbccddee 000000  0100 0200 68690000  0200 0400 02000000"
                       "0000 0000 3c000000"));
  EXPECT_EQ(writer.stats().packets.value(), 1u);
  EXPECT_EQ(writer.stats().bytes.value(), 0x28u + 0x34u + 0x3cu);
}

TEST(PcapngTest, TsharkReadsBackWhatWasWritten) {
  if (!testutil::HaveTshark()) GTEST_SKIP() << "no tshark: install the package tshark";
  TempFile file(".pcapng");
  {
    auto sink = FileSink::Create(file.path());
    ASSERT_TRUE(sink.ok()) << sink.status();
    PcapngWriter writer(*std::move(sink), {.application = "tapwire test"});
    writer.AddInterface({.name = "tw0", .description = "tap"});
    writer.AddInterface({.name = "veth1"});
    const ByteVector frame = TestFrame();
    writer.WritePacket({.interface = 0,
                        .time_ns = 1'700'000'000'123'456'789,
                        .captured = frame,
                        .original_length = static_cast<uint32_t>(frame.size()),
                        .direction = PcapngDirection::kInbound});
    writer.WritePacket({.interface = 1,
                        .time_ns = 1'700'000'001'000'000'001,
                        .captured = std::span(frame).first(40),
                        .original_length = static_cast<uint32_t>(frame.size()),
                        .direction = PcapngDirection::kOutbound,
                        .checksum_not_ready = true,
                        .segmentation_offload = true,
                        .comment = "csum=partial start=34 offset=6"});
    EXPECT_TRUE(writer.Flush().ok());
  }
  EXPECT_THAT(
      testutil::TsharkFields(
          file.path(), {"frame.time_epoch", "frame.interface_name", "frame.len", "frame.cap_len",
                        "frame.packet_flags_direction", "frame.comment", "udp.dstport"}),
      ElementsAre("1700000000.123456789\ttw0\t47\t47\t0x00000001\t\t2000",
                  "1700000001.000000001\tveth1\t47\t40\t0x00000002\t"
                  "csum=partial start=34 offset=6\t2000"));
}

TEST(PcapngTest, FileThatCannotBeCreatedIsNamed) {
  const auto sink = FileSink::Create("/nonexistent/dir/x.pcapng");
  ASSERT_FALSE(sink.ok());
  EXPECT_THAT(std::string(sink.status().message()), HasSubstr("/nonexistent/dir/x.pcapng"));
  EXPECT_THAT(std::string(sink.status().message()), HasSubstr("No such file"));
}

TEST(PcapngTest, FullDiskIsReportedOnceAndTheLossCounted) {
  // The kernel's device that is always full.
  auto sink = FileSink::Create("/dev/full");
  if (!sink.ok()) GTEST_SKIP() << "no /dev/full here";
  PcapngWriter writer(*std::move(sink), {});
  writer.AddInterface({.name = "tw0"});
  const ByteVector big = Pattern(60000);
  for (int i = 0; i < 3; ++i) {
    writer.WritePacket({.captured = big, .original_length = static_cast<uint32_t>(big.size())});
  }
  EXPECT_FALSE(writer.Flush().ok());
  EXPECT_THAT(std::string(writer.status().message()), HasSubstr("/dev/full"));
  EXPECT_THAT(std::string(writer.status().message()), HasSubstr("No space left"));
  EXPECT_GE(writer.stats().lost.value(), 2u);
}

TEST(PcapngTest, NothingIsWrittenAfterTheFirstError) {
  FailingSink::calls = 0;
  PcapngWriter writer(std::make_unique<FailingSink>(3), {});
  writer.AddInterface({.name = "a"});
  const ByteVector frame = TestFrame();
  EXPECT_TRUE(writer.WritePacket({.captured = frame}));
  EXPECT_FALSE(writer.WritePacket({.captured = frame}));
  EXPECT_FALSE(writer.WritePacket({.captured = frame}));
  EXPECT_EQ(FailingSink::calls, 4);
  EXPECT_EQ(writer.status().message(), "disk full");
  EXPECT_EQ(writer.stats().packets.value(), 1u);
  EXPECT_EQ(writer.stats().lost.value(), 2u);
}

}  // namespace
}  // namespace tapwire::netdev
