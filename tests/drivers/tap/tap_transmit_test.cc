// SPDX-License-Identifier: Apache-2.0
//
// TapDevice: sending, kernels that refuse offloads, the start-up probe.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/drivers/tap/tap_harness.h"

namespace tapwire::drivers {
namespace {

using netdev::Feature;
using netdev::TxResult;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// ---- Sending ----

TEST_F(TapDeviceTest, FramesLeaveByteForByte) {
  Up();
  for (const size_t size : {size_t{14}, size_t{60}, size_t{1514}}) {
    Send(Plain(size));
    const std::vector<Written> written = TakeWritten();
    ASSERT_THAT(written, SizeIs(1));
    EXPECT_EQ(written[0].frame, PlainFrame(size));
    EXPECT_EQ(written[0].hdr, VnetHdr());
  }
  EXPECT_EQ(device_->stats().tx_packets.value(), 3u);
  EXPECT_EQ(Stat("tx_writes"), 3u);
}

// Covers: demand:4 — 64 KiB with its metadata in one call, fragments and all.
TEST_F(TapDeviceTest, SuperPacketLeavesWhole) {
  for (const bool v6 : {false, true}) {
    Make({});
    Up();
    PacketPtr packet = Tcp(v6, 60'000, 1448 - (v6 ? 20 : 0));
    ASSERT_FALSE(packet->is_linear());
    Send(std::move(packet));
    const std::vector<Written> written = TakeWritten();
    ASSERT_THAT(written, SizeIs(1));
    EXPECT_EQ(written[0].hdr.gso_type, v6 ? 4 : 1);
    EXPECT_EQ(written[0].hdr.gso_size, v6 ? 1428 : 1448);
    EXPECT_EQ(written[0].hdr.flags, 1);
    EXPECT_EQ(written[0].hdr.csum_start, v6 ? 54 : 34);
    EXPECT_EQ(written[0].hdr.csum_offset, 16);
    EXPECT_EQ(written[0].frame.size(), (v6 ? 74u : 54u) + 60'000);
    EXPECT_EQ(Stat("tx_gso_frames"), 1u);
  }
}

// Covers: demand:16, netdev:L-03 — csum=off: what leaves is complete.
TEST_F(TapDeviceTest, WithoutOffloadsEverythingIsCompleted) {
  for (const bool v6 : {false, true}) {
    Make({.csum = false});
    Up();
    Send(Tcp(v6, 3000, 1400));
    const std::vector<Written> written = TakeWritten();
    ASSERT_THAT(written, SizeIs(3));
    for (const Written& frame : written) {
      EXPECT_EQ(frame.hdr, VnetHdr());
      EXPECT_TRUE(ChecksumIsRight(frame.frame));
    }
  }
}

TEST_F(TapDeviceTest, TsoOffSegmentsButLeavesChecksums) {
  Make({.tso = false});
  Up();
  Send(Tcp(false, 3000, 1400));
  const std::vector<Written> written = TakeWritten();
  ASSERT_THAT(written, SizeIs(3));
  for (const Written& frame : written) {
    EXPECT_EQ(frame.hdr.gso_type, 0);
    EXPECT_EQ(frame.hdr.flags, 1);
  }
}

// ---- Kernels that refuse ----

int RefuseGso(const VnetHdr& hdr) { return hdr.gso_type != 0 ? EINVAL : 0; }

// Covers: bug:B88, demand:7 — nothing is lost, the kind is switched off after four, said once.
TEST_F(TapDeviceTest, RefusedSuperPacketsAreSentAsSegments) {
  for (const bool v6 : {false, true}) {
    Make({});
    Up();
    LogLines log;
    const Feature kind = v6 ? Feature::kTso6 : Feature::kTso;
    const Feature other = v6 ? Feature::kTso : Feature::kTso6;
    kernel_->refuse = RefuseGso;
    for (int i = 1; i <= 6; ++i) {
      EXPECT_EQ(Send(Tcp(v6, 3000, 1400)), TxResult::kQueued);
      const std::vector<Written> written = TakeWritten();
      ASSERT_THAT(written, SizeIs(3)) << i;
      size_t payload = 0;
      for (const Written& frame : written) payload += frame.frame.size() - (v6 ? 74 : 54);
      EXPECT_EQ(payload, 3000u);
      context_.RunOnce();  // where the switching off happens
      EXPECT_EQ(device_->features().Has(kind), i < 4) << i;
      EXPECT_TRUE(device_->features().Has(other));
    }
    EXPECT_EQ(Stat("tx_gso_refused"), 4u);
    EXPECT_EQ(Stat("tx_errno_EINVAL"), 4u);
    EXPECT_EQ(device_->write_errors(EINVAL), 4u);
    EXPECT_EQ(device_->stats().tx_dropped.value() + device_->stats().tx_errors.value(), 0u);
    EXPECT_THAT(log.lines, ElementsAre(HasSubstr("Invalid argument (22)")));
  }
}

// Covers: bug:B88 — the kernel that tripped over a short last segment only.
TEST_F(TapDeviceTest, OnlyUnevenSuperPacketsRefused) {
  Up();
  kernel_->refuse = RefuseGso;
  Send(Tcp(false, 3000, 1400));
  EXPECT_THAT(TakeWritten(), SizeIs(3));
  kernel_->refuse = [](const VnetHdr&) { return 0; };
  Send(Tcp(false, 2800, 1400));
  EXPECT_THAT(TakeWritten(), SizeIs(1));
  EXPECT_TRUE(device_->features().Has(Feature::kTso));
}

TEST_F(TapDeviceTest, SeveralRefusalsInOneFlushLoseNothing) {
  Up();
  kernel_->refuse = RefuseGso;
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(netdev::TxPath::Transmit(Tcp(false, 2800, 1400), *device_), TxResult::kQueued);
  }
  context_.RunOnce();
  EXPECT_THAT(TakeWritten(), SizeIs(20));
  // From the fifth on it is not even tried.
  EXPECT_EQ(Stat("tx_gso_refused"), 4u);
}

// Covers: bug:B88, bug:B95 — a kernel that takes no partial checksum gets complete ones.
TEST_F(TapDeviceTest, RefusedPartialChecksumsAreCompleted) {
  Up();
  kernel_->refuse = [](const VnetHdr& hdr) { return hdr.flags != 0 ? EINVAL : 0; };
  for (int i = 1; i <= 5; ++i) {
    Send(Tcp(i % 2 == 0, 100, 0));
    const std::vector<Written> written = TakeWritten();
    ASSERT_THAT(written, SizeIs(1));
    EXPECT_EQ(written[0].hdr, VnetHdr());
    EXPECT_TRUE(ChecksumIsRight(written[0].frame));
    context_.RunOnce();
  }
  EXPECT_EQ(Stat("tx_csum_refused"), 4u);
  EXPECT_FALSE(device_->features().HasAny(netdev::kCsumMask | netdev::kAllTso));
}

TEST_F(TapDeviceTest, KernelThatTakesNeitherGetsCompleteSegments) {
  Up();
  kernel_->refuse = [](const VnetHdr& hdr) { return hdr.flags != 0 ? EINVAL : 0; };
  Send(Tcp(true, 3000, 1400));
  const std::vector<Written> written = TakeWritten();
  ASSERT_THAT(written, SizeIs(3));
  for (const Written& frame : written) EXPECT_TRUE(ChecksumIsRight(frame.frame));
}

TEST_F(TapDeviceTest, PlainFrameRefusedIsAnError) {
  Up();
  kernel_->refuse = [](const VnetHdr&) { return EINVAL; };
  Send(Plain(60));
  EXPECT_EQ(Dropped(DropReason::kTxWriteError), 1u);
  EXPECT_EQ(device_->stats().tx_errors.value(), 1u);
  EXPECT_EQ(device_->write_errors(EINVAL), 1u);
}

TEST_F(TapDeviceTest, FullKernelQueueIsNoBuffer) {
  Up();
  for (const int err : {EAGAIN, ENOBUFS, ENOMEM}) {
    kernel_->refuse = [err](const VnetHdr&) { return err; };
    Send(Tcp(false, 3000, 1400));
    EXPECT_EQ(device_->write_errors(err), 1u);
  }
  EXPECT_EQ(Dropped(DropReason::kTxNoBuffer), 3u);
  EXPECT_EQ(Stat("tx_gso_refused"), 0u);
  EXPECT_TRUE(device_->features().Has(Feature::kTso));
}

// ---- Probe ----

TEST_F(TapDeviceTest, ProbeIsWrittenWhenTheLinkComesUp) {
  ASSERT_TRUE(device_->Up().ok());
  const std::vector<Written> written = TakeWritten();
  ASSERT_THAT(written, SizeIs(2));  // no USO: the socket did not agree to it
  EXPECT_EQ(written[0].hdr.gso_type, VnetHdr::kGsoTcpv4);
  EXPECT_EQ(written[1].hdr.gso_type, VnetHdr::kGsoTcpv6);
  for (const Written& probe : written) {
    EXPECT_EQ(MacAddress::FromBytes(std::span(probe.frame).first(6)), kOurMac);
    EXPECT_EQ(MacAddress::FromBytes(std::span(probe.frame).subspan(6, 6)), kOurMac);
  }
  EXPECT_EQ(device_->stats().tx_packets.value(), 0u);
}

// Covers: demand:8, bug:B88
TEST_F(TapDeviceTest, RefusedProbeSwitchesItsKindOff) {
  LogLines log;
  kernel_->refuse = [](const VnetHdr& hdr) {
    return hdr.gso_type == VnetHdr::kGsoTcpv6 ? EINVAL : 0;
  };
  ASSERT_TRUE(device_->Up().ok());
  EXPECT_TRUE(device_->features().Has(Feature::kTso));
  EXPECT_FALSE(device_->features().Has(Feature::kTso6));
  EXPECT_TRUE(device_->features().Has(Feature::kHwCsum));
  EXPECT_EQ(Stat("probe_refused"), 1u);
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("tx-tcp6-segmentation")));
}

TEST_F(TapDeviceTest, NextLinkUpProbesAnew) {
  kernel_->refuse = RefuseGso;
  ASSERT_TRUE(device_->Up().ok());
  EXPECT_FALSE(device_->features().HasAny({Feature::kTso, Feature::kTso6}));
  device_->Down();
  kernel_->refuse = [](const VnetHdr&) { return 0; };
  ASSERT_TRUE(device_->Up().ok());
  EXPECT_TRUE(device_->features().HasAll({Feature::kTso, Feature::kTso6}));
}

TEST_F(TapDeviceTest, WithoutOffloadsNothingIsProbed) {
  Make({.csum = false});
  ASSERT_TRUE(device_->Up().ok());
  EXPECT_THAT(TakeWritten(), IsEmpty());
}

}  // namespace
}  // namespace tapwire::drivers
