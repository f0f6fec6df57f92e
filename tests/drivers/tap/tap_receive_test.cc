// SPDX-License-Identifier: Apache-2.0
//
// TapDevice: receiving.
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
#include "tests/netdev/gro_frames.h"

namespace tapwire::drivers {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// ---- Receiving ----

TEST_F(TapDeviceTest, FramesArriveByteForByteInOrder) {
  Up();
  const std::vector<size_t> sizes = {14,   60,     1514,   1855,   1856,  1857,
                                     9014, 18'239, 18'240, 18'241, 65'549};
  for (const size_t size : sizes) {
    FromKernel({}, PlainFrame(size));
    RunReadable();
  }
  ASSERT_THAT(sink_.packets, SizeIs(sizes.size()));
  for (size_t i = 0; i < sizes.size(); ++i) {
    ASSERT_EQ(sink_.packets[i]->length(), sizes[i]);
    Bytes bytes(sizes[i]);
    sink_.packets[i]->CopyOut(0, bytes);
    EXPECT_EQ(bytes, PlainFrame(sizes[i])) << sizes[i];
  }
  EXPECT_EQ(device_->stats().rx_packets.value(), sizes.size());
  EXPECT_EQ(Stat("rx_reads"), sizes.size());
}

// Only what a frame has filled is replaced: one small frame costs one head.
TEST_F(TapDeviceTest, SmallFrameTakesNoSlab) {
  Up();
  const size_t before = context_.pool().stats()[SlabClass::kLarge].in_use;
  FromKernel({}, PlainFrame(1514));
  RunReadable();
  EXPECT_EQ(context_.pool().stats()[SlabClass::kLarge].in_use, before);
  EXPECT_TRUE(sink_.packets.front()->is_linear());
  FromKernel({}, PlainFrame(30'000));
  RunReadable();
  EXPECT_EQ(context_.pool().stats()[SlabClass::kLarge].in_use, before + 2);
}

TEST_F(TapDeviceTest, BatchIsReadUpToTheBudgetAndOnceMore) {
  Up();
  for (int i = 0; i < 5; ++i) FromKernel({}, PlainFrame(60));
  kernel_->reads = 0;
  RunReadable();
  EXPECT_THAT(sink_.packets, SizeIs(5));
  EXPECT_EQ(kernel_->reads, 6);  // the last one finds nothing
}

// After a run of single frames, as of requests and answers, most polls leave out the read that
// would find nothing; what does come meanwhile waits for the next poll, since its descriptor is
// readable.
TEST_F(TapDeviceTest, LoneFramesAreReadOnceMostOfTheTime) {
  Up();
  const auto polls = [this](int count) {
    kernel_->reads = 0;
    for (int i = 0; i < count; ++i) {
      FromKernel({}, PlainFrame(60));
      RunReadable();
    }
    return kernel_->reads;
  };
  EXPECT_EQ(polls(16), 32);
  EXPECT_EQ(polls(100), 125);  // at every fourth
  EXPECT_THAT(sink_.packets, SizeIs(116));
  // A burst: nothing is lost, and from then on it is looked for again.
  sink_.packets.clear();
  for (size_t i = 0; i < 10; ++i) FromKernel({}, PlainFrame(60 + i));
  for (int i = 0; i < 4; ++i) RunReadable();
  ASSERT_THAT(sink_.packets, SizeIs(10));
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(sink_.packets[i]->length(), 60 + i);
  EXPECT_EQ(polls(16), 32);
}

TEST_F(TapDeviceTest, MoreThanOneBudgetIsNotLost) {
  Up();
  for (int i = 0; i < 200; ++i) FromKernel({}, PlainFrame(60));
  RunReadable();
  EXPECT_THAT(sink_.packets, SizeIs(200));
}

TEST_F(TapDeviceTest, InterruptedCallsAreRepeated) {
  Up();
  FromKernel({}, PlainFrame(60));
  kernel_->interrupts = 3;
  RunReadable();
  EXPECT_THAT(sink_.packets, SizeIs(1));
  kernel_->interrupts = 3;
  Send(Plain(60));
  EXPECT_THAT(TakeWritten(), SizeIs(1));
}

// Covers: bug:B95 — partial is good inside, complete ones are to be verified.
TEST_F(TapDeviceTest, HeaderBecomesMetadata) {
  Up();
  FromKernel({.flags = VnetHdr::kNeedsCsum, .csum_start = 34, .csum_offset = 6}, PlainFrame(100));
  FromKernel({}, PlainFrame(100));
  RunReadable();
  ASSERT_THAT(sink_.packets, SizeIs(2));
  EXPECT_EQ(sink_.packets[0]->meta.csum_state, CsumState::kPartial);
  EXPECT_EQ(sink_.packets[0]->csum_start_in_data(), 34);
  EXPECT_EQ(sink_.packets[1]->meta.csum_state, CsumState::kNone);
}

TEST_F(TapDeviceTest, MergedFramesAreInTheStatistics) {
  Up();
  device_->SetGroMode(netdev::GroMode::kOn);
  for (uint16_t i = 0; i < 3; ++i) {
    FromKernel({}, netdev::testing::Piece({.ip_id = i}, size_t{1448} * i, 1448));
  }
  RunReadable();
  EXPECT_THAT(sink_.packets, SizeIs(1));
  EXPECT_EQ(Stat("rx_gro_merged"), 2u);
  EXPECT_EQ(Stat("rx_gro_packets"), 1u);
}

TEST_F(TapDeviceTest, BadHeadersAreDroppedUnderTheirReason) {
  Up();
  FromKernel({.flags = VnetHdr::kNeedsCsum, .csum_start = 99, .csum_offset = 0}, PlainFrame(100));
  FromKernel({.gso_type = VnetHdr::kGsoUdp, .gso_size = 100}, PlainFrame(1000));
  const Bytes half_header(5);
  ASSERT_EQ(write(kernel_ends_[0].get(), half_header.data(), 5), 5);
  FromKernel({}, PlainFrame(13));
  FromKernel({}, PlainFrame(60));
  RunReadable();
  EXPECT_THAT(sink_.packets, SizeIs(1));
  EXPECT_EQ(Dropped(DropReason::kTapBadVnetHeader), 1u);
  EXPECT_EQ(Dropped(DropReason::kTapGsoUnsupported), 1u);
  EXPECT_EQ(Dropped(DropReason::kTapShortHeader), 1u);
  EXPECT_EQ(Dropped(DropReason::kLinkRunt), 1u);
  EXPECT_EQ(device_->stats().rx_errors.value(), 4u);
  sink_.packets.clear();
}

TEST_F(TapDeviceTest, FrameLargerThanTheBuffersIsDropped) {
  Up();
  FromKernel({}, PlainFrame(1856 + 4 * 16'384));
  FromKernel({}, PlainFrame(60));
  RunReadable();
  EXPECT_EQ(Dropped(DropReason::kTapOversize), 1u);
  EXPECT_THAT(sink_.packets, SizeIs(1));
}

// A network card without fresh buffers loses the frame and keeps going; so does this one.
TEST_F(TapDeviceTest, EmptyPoolLosesFramesAndRecovers) {
  Up();
  std::vector<SlabRef> hoard;
  while (SlabRef slab = context_.pool().AllocateSlab(SlabClass::kSmall)) {
    hoard.push_back(std::move(slab));
  }
  FromKernel({}, PlainFrame(60));
  FromKernel({}, PlainFrame(61));
  RunReadable();
  EXPECT_THAT(sink_.packets, IsEmpty());
  EXPECT_EQ(Dropped(DropReason::kLinkNoBuffer), 2u);
  EXPECT_EQ(Stat("rx_no_buffer"), 2u);
  hoard.clear();
  FromKernel({}, PlainFrame(62));
  RunReadable();
  ASSERT_THAT(sink_.packets, SizeIs(1));
  EXPECT_EQ(sink_.packets[0]->length(), 62u);
}

TEST_F(TapDeviceTest, ArrivalTimeIsThatOfTheBatchAndLateAfterAPause) {
  Up();
  environment_.clock.Advance(std::chrono::milliseconds(4));
  FromKernel({}, PlainFrame(60));
  RunReadable();
  environment_.clock.Advance(std::chrono::milliseconds(5));
  FromKernel({}, PlainFrame(60));
  RunReadable();
  environment_.clock.Advance(std::chrono::milliseconds(6));
  FromKernel({}, PlainFrame(60));
  RunReadable();
  ASSERT_THAT(sink_.packets, SizeIs(3));
  EXPECT_EQ(sink_.packets[2]->meta.rx_time, context_.now());
  EXPECT_FALSE(sink_.packets[1]->meta.late);
  EXPECT_TRUE(sink_.packets[2]->meta.late);
}

TEST_F(TapDeviceTest, WithoutVnetHeaderFramesAreBare) {
  Make({}, /*vnet_hdr_size=*/0);
  Up();
  const Bytes frame = PlainFrame(200);
  ASSERT_EQ(write(kernel_ends_[0].get(), frame.data(), frame.size()), 200);
  RunReadable();
  ASSERT_THAT(sink_.packets, SizeIs(1));
  EXPECT_EQ(sink_.packets[0]->length(), 200u);
  Send(Tcp(false, 100, 0));
  Bytes sent(2000);
  const ssize_t n = read(kernel_ends_[0].get(), sent.data(), sent.size());
  ASSERT_EQ(n, 154);
  sent.resize(154);
  EXPECT_TRUE(ChecksumIsRight(sent));
}

}  // namespace
}  // namespace tapwire::drivers
