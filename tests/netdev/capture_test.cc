// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "netdev/capture_tap.h"
#include "netdev/csum_offload.h"
#include "netdev/pcapng_writer.h"
#include "netdev/tx_path.h"
#include "tests/testutil/matchers.h"
#include "tests/testutil/packet_builder.h"
#include "tests/testutil/stack_harness.h"
#include "tests/testutil/tshark.h"

namespace tapwire::netdev {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testutil::ByteVector;
using testutil::Hex;
using testutil::NetHarness;
using testutil::Pattern;
using testutil::TempFile;
using testutil::TestDevice;

constexpr FeatureSet kOffloads{Feature::kSg, Feature::kHwCsum, Feature::kTso, Feature::kTso6};
constexpr MacAddress kPeerMac(2, 0, 0, 0, 0, 0x99);
constexpr MacAddress kHostMac(2, 0, 0, 0, 0, 1);
constexpr Ipv4Address kA(10, 0, 0, 1), kB(10, 0, 0, 2);
constexpr Ipv6Address kA6 = Ipv6Address::FromGroups({0xfd00, 0, 0, 0, 0, 0, 0, 1});
constexpr Ipv6Address kB6 = Ipv6Address::FromGroups({0xfd00, 0, 0, 0, 0, 0, 0, 2});

testutil::Frame Tcp4(size_t payload) {
  return testutil::Frame()
      .Eth(kHostMac, kPeerMac)
      .Ipv4({.source = kA, .destination = kB})
      .Tcp({.source_port = 1000, .destination_port = 80, .flags = "PA"})
      .Payload(Pattern(payload));
}

// The frame with the pseudo-header sum (by the builder's own loop) where the checksum belongs.
PacketPtr Partial(SlabPool& pool, const ByteVector& frame, const IpAddress& source,
                  const IpAddress& destination, size_t start) {
  ByteVector pseudo(source.bytes().begin(), source.bytes().end());
  pseudo.insert(pseudo.end(), destination.bytes().begin(), destination.bytes().end());
  const size_t length = frame.size() - start;
  const ByteVector rest = {0,
                           static_cast<uint8_t>(length >> 16),
                           static_cast<uint8_t>(length >> 8),
                           static_cast<uint8_t>(length),
                           0,
                           0,
                           0,
                           6};
  pseudo.insert(pseudo.end(), rest.begin(), rest.end());
  const auto sum = static_cast<uint16_t>(~testutil::SimpleChecksum(pseudo));
  ByteVector partial = frame;
  partial[start + 16] = static_cast<uint8_t>(sum >> 8);
  partial[start + 17] = static_cast<uint8_t>(sum);
  PacketPtr packet = PacketFromBytes(pool, partial);
  packet->meta.csum_state = CsumState::kPartial;
  packet->set_csum_start_in_data(static_cast<int32_t>(start));
  packet->meta.csum_offset = 16;
  return packet;
}

// Covers: bug:B95, netdev:L-03
TEST(CaptureTest, PartialChecksumIsCompletedInTheCopyOnly) {
  NetHarness net;
  const ByteVector frame = Tcp4(101).Build();
  const PacketPtr packet = Partial(net.context().pool(), frame, kA, kB, 34);
  WireFrame copy;
  CopyWireFrame(*packet, /*complete=*/true, 0, copy);
  EXPECT_THAT(copy.bytes, testutil::IsFrame(frame));
  EXPECT_TRUE(copy.partial);
  EXPECT_TRUE(copy.completed);
  EXPECT_EQ(packet->meta.csum_state, CsumState::kPartial);
  EXPECT_EQ(OffloadComment(*packet, copy, TxResult::kSent), "csum=partial start=34 offset=16");

  CopyWireFrame(*packet, /*complete=*/false, 0, copy);
  EXPECT_NE(copy.bytes, frame);
  EXPECT_FALSE(copy.completed);
}

TEST(CaptureTest, ChecksumCoversAllFragmentsAtAnyAlignment) {
  NetHarness net;
  const ByteVector frame = Tcp4(9001).Build();
  const PacketPtr whole = Partial(net.context().pool(), frame, kA, kB, 34);
  // Rebuilt from three pieces with odd borders.
  ByteVector bytes(whole->length());
  whole->CopyOut(0, bytes);
  PacketPtr packet = PacketFromBytes(net.context().pool(), std::span(bytes).first(55));
  for (const auto& [begin, end] : {std::pair<size_t, size_t>{55, 1000}, {1000, bytes.size()}}) {
    SlabRef slab = net.context().pool().AllocateSlab(SlabClass::kLarge);
    std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
              bytes.begin() + static_cast<std::ptrdiff_t>(end), slab.data());
    ASSERT_TRUE(packet->AddFrag(std::move(slab), 0, end - begin));
  }
  packet->meta.csum_state = CsumState::kPartial;
  packet->set_csum_start_in_data(34);
  packet->meta.csum_offset = 16;
  WireFrame copy;
  CopyWireFrame(*packet, true, 0, copy);
  EXPECT_THAT(copy.bytes, testutil::IsFrame(frame));
  // The checksum is that of the whole frame also when only its start is kept.
  CopyWireFrame(*packet, true, 60, copy);
  EXPECT_EQ(copy.bytes, ByteVector(frame.begin(), frame.begin() + 60));
  EXPECT_EQ(copy.length, frame.size());
}

TEST(CaptureTest, TagFromTheMetadataIsPutBack) {
  NetHarness net;
  const ByteVector frame = Tcp4(10).Build();
  PacketPtr packet = Partial(net.context().pool(), frame, kA, kB, 34);
  packet->meta.vlan_present = true;
  packet->meta.vlan_tci = 0x6005;
  WireFrame copy;
  CopyWireFrame(*packet, true, 0, copy);
  ByteVector wanted = frame;
  const ByteVector tag = Hex("8100 6005");
  wanted.insert(wanted.begin() + 12, tag.begin(), tag.end());
  EXPECT_THAT(copy.bytes, testutil::IsFrame(wanted));
  EXPECT_EQ(copy.csum_start, 38u);
  // Cut inside the tag.
  CopyWireFrame(*packet, true, 14, copy);
  EXPECT_EQ(copy.bytes, ByteVector(wanted.begin(), wanted.begin() + 14));
}

TEST(CaptureTest, CommentTellsOffloadsAndResult) {
  NetHarness net;
  const PacketPtr packet = PacketFromBytes(net.context().pool(), Tcp4(3000).Build());
  WireFrame copy;
  CopyWireFrame(*packet, true, 0, copy);
  EXPECT_EQ(OffloadComment(*packet, copy, TxResult::kSent), "");
  EXPECT_EQ(OffloadComment(*packet, copy, TxResult::kNoBuffer), "result=no-buffer");
  packet->meta.csum_state = CsumState::kUnnecessary;
  packet->meta.csum_level = 1;
  packet->meta.gso = {.type = GsoType::kTcpv4 | GsoType::kTcpEcn, .size = 1448, .segs = 3};
  packet->meta.late = true;
  EXPECT_EQ(OffloadComment(*packet, copy, TxResult::kQueued),
            "csum=unnecessary level=1 gso=tcpv4+ecn size=1448 segs=3 late");
  packet->meta.csum_state = CsumState::kComplete;
  packet->meta.csum_value = 0xbee;
  packet->meta.gso = {.type = GsoType::kFcoe, .size = 5, .segs = 0};
  EXPECT_EQ(OffloadComment(*packet, copy, TxResult::kQueued),
            "csum=complete value=0x0bee gso=type-20 size=5 late");
}

TEST(CaptureTest, ImpossibleChecksumMetadataDoesNotBreakIt) {
  NetHarness net;
  const ByteVector frame = Tcp4(10).Build();
  PacketPtr packet = PacketFromBytes(net.context().pool(), frame);
  packet->meta.csum_state = CsumState::kPartial;
  WireFrame copy;
  for (const int32_t start : {-100, -1, 63, 64, 1000}) {
    packet->set_csum_start_in_data(start);
    packet->meta.csum_offset = 0xffff;
    CopyWireFrame(*packet, true, 0, copy);
    EXPECT_EQ(copy.bytes, frame);
    EXPECT_FALSE(copy.completed);
  }
}

class CaptureFileTest : public ::testing::Test {
 protected:
  // Starts a capture of the harness' device into file_.
  void StartCapture(const CaptureTap::Options& options = {}) {
    auto sink = FileSink::Create(file_.path());
    ASSERT_TRUE(sink.ok()) << sink.status();
    writer_.emplace(*std::move(sink), PcapngWriter::Options{});
    tap_.emplace(*writer_, options);
    tap_->Attach(net_.device());
  }
  void StopCapture() {
    tap_.reset();
    EXPECT_TRUE(writer_->Flush().ok());
    writer_.reset();
  }
  void Send(PacketPtr packet) {
    EXPECT_TRUE(TxOk(TxPath::Transmit(std::move(packet), net_.device())));
    net_.Run();
  }
  SlabPool& pool() { return net_.context().pool(); }

  TempFile file_{".pcapng"};
  NetHarness net_{{.device = {.features = kOffloads}}};
  std::optional<PcapngWriter> writer_;
  std::optional<CaptureTap> tap_;
};

TEST_F(CaptureFileTest, TsharkFindsNoBadChecksum) {
  if (!testutil::HaveTshark()) GTEST_SKIP() << "no tshark: install the package tshark";
  StartCapture(
      {.wall_clock_offset = std::chrono::seconds(1'700'000'000) - net_.now().time_since_epoch()});
  net_.Advance(std::chrono::nanoseconds(5));
  Send(Partial(pool(), Tcp4(100).Build(), kA, kB, 34));
  PacketPtr super = Partial(pool(), Tcp4(3000).Build(), kA, kB, 34);
  super->meta.gso = {.type = GsoType::kTcpv4, .size = 1448, .segs = 3};
  Send(std::move(super));
  const ByteVector frame6 = testutil::Frame()
                                .Eth(kHostMac, kPeerMac)
                                .Ipv6({.source = kA6, .destination = kB6})
                                .Tcp({.source_port = 1000, .destination_port = 80})
                                .Payload(Pattern(333))
                                .Build();
  Send(Partial(pool(), frame6, kA6, kB6, 54));
  net_.Inject(Tcp4(7).Build());
  StopCapture();

  EXPECT_THAT(
      testutil::TsharkFields(file_.path(), {"frame.time_epoch", "frame.packet_flags_direction",
                                            "tcp.checksum.status", "tcp.len", "frame.comment"}),
      ElementsAre("1700000000.000000005\t0x00000002\t1\t100\tcsum=partial start=34 offset=16",
                  "1700000000.000000005\t0x00000002\t1\t3000\t"
                  "csum=partial start=34 offset=16 gso=tcpv4 size=1448 segs=3",
                  "1700000000.000000005\t0x00000002\t1\t333\tcsum=partial start=54 offset=16",
                  "1700000000.000000005\t0x00000001\t1\t7\t"));
}

TEST_F(CaptureFileTest, RawCaptureKeepsThePartialSum) {
  if (!testutil::HaveTshark()) GTEST_SKIP() << "no tshark: install the package tshark";
  StartCapture({.raw = true});
  Send(Partial(pool(), Tcp4(100).Build(), kA, kB, 34));
  StopCapture();
  // Wireshark tells partial checksums from bad ones by the pseudo-header sum, as status "good" (1)
  // with the word "partial"; what counts here is that the field is not the finished one.
  const ByteVector finished = Tcp4(100).Build();
  const std::string wanted = "0x" + std::string{"0123456789abcdef"[finished[50] >> 4],
                                                "0123456789abcdef"[finished[50] & 15],
                                                "0123456789abcdef"[finished[51] >> 4],
                                                "0123456789abcdef"[finished[51] & 15]};
  EXPECT_NE(testutil::TsharkFields(file_.path(), {"tcp.checksum"}).at(0), wanted);
}

TEST_F(CaptureFileTest, SnapLengthCutsTheCopyAndKeepsTheLength) {
  if (!testutil::HaveTshark()) GTEST_SKIP() << "no tshark: install the package tshark";
  StartCapture({.snap_length = 64});
  Send(Partial(pool(), Tcp4(1000).Build(), kA, kB, 34));
  StopCapture();
  EXPECT_THAT(testutil::TsharkFields(file_.path(), {"frame.cap_len", "frame.len"}),
              ElementsAre("64\t1054"));
}

// Demand of users: a frame whose send failed does not look as if it had been sent.
TEST_F(CaptureFileTest, FailedSendIsNotInTheCapture) {
  StartCapture();
  net_.device().FailSends(TxResult::kDropped);
  static_cast<void>(TxPath::Transmit(Partial(pool(), Tcp4(10).Build(), kA, kB, 34), net_.device()));
  net_.Run();
  EXPECT_EQ(writer_->stats().packets.value(), 0u);
  StopCapture();
}

TEST_F(CaptureFileTest, SeveralDevicesShareOneFile) {
  StartCapture();
  TestDevice& second = net_.AddDevice({.name = "test1", .mac = MacAddress(2, 0, 0, 0, 0, 7)});
  tap_->Attach(second);
  net_.Inject(Tcp4(1).Build());
  net_.InjectOn(second, Tcp4(2).Build());
  tap_->Detach(second);
  net_.InjectOn(second, Tcp4(3).Build());
  EXPECT_EQ(writer_->stats().packets.value(), 2u);
  StopCapture();
  if (!testutil::HaveTshark()) GTEST_SKIP() << "no tshark: install the package tshark";
  EXPECT_THAT(testutil::TsharkFields(file_.path(), {"frame.interface_name", "tcp.len"}),
              ElementsAre("test0\t1", "test1\t2"));
}

}  // namespace
}  // namespace tapwire::netdev
