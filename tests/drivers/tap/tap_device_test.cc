// SPDX-License-Identifier: Apache-2.0
//
// TapDevice: identity, features, link state, removal, queues.
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
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// ---- Identity and features ----

TEST_F(TapDeviceTest, OurEndHasAnotherAddressThanTheKernels) {
  EXPECT_NE(device_->mac(), device_->kernel_mac());
  TapLink link;
  link.name = "tw1";
  link.kernel_mac = kKernelMac;
  link.fds.emplace_back(open("/dev/null", O_RDWR));
  auto device = TapDevice::Create(context_, std::move(link), {.mac = kKernelMac});
  ASSERT_FALSE(device.ok());
  EXPECT_THAT(std::string(device.status().message()), HasSubstr("kernel's end"));
  EXPECT_FALSE(device_->SetMac(kKernelMac).ok());
  EXPECT_TRUE(device_->SetMac(MacAddress(2, 2, 2, 2, 2, 2)).ok());
}

TEST_F(TapDeviceTest, RandomAddressIsLocalUnicast) {
  TapLink link;
  link.name = "tw1";
  link.fds.emplace_back(open("/dev/null", O_RDWR));
  auto device = TapDevice::Create(context_, std::move(link), {});
  ASSERT_TRUE(device.ok());
  EXPECT_TRUE((*device)->mac().IsLocal());
  EXPECT_TRUE((*device)->mac().IsUnicast());
}

TEST_F(TapDeviceTest, OptionsThatContradictAreRefused) {
  const auto message = [this](const TapOptions& options) {
    const auto device = TapDevice::Open(context_, options);
    EXPECT_FALSE(device.ok());
    return std::string(device.status().message());
  };
  EXPECT_THAT(message({.name = "tw0", .fd = 77, .userns = true}), HasSubstr("exclude each other"));
  EXPECT_THAT(message({.name = "tw0", .fd = 77, .fd_socket = "x"}),
              HasSubstr("exclude each other"));
  EXPECT_THAT(message({.name = "tw0", .mtu = 67}), HasSubstr("68..65521"));
  EXPECT_THAT(message({.name = "tw0", .mtu = 65522}), HasSubstr("68..65521"));
  EXPECT_THAT(message({.name = "tw0", .mac = MacAddress(1, 0, 0, 0, 0, 1)}), HasSubstr("group"));
  EXPECT_THAT(message({.name = "tw0", .queues = 0}), HasSubstr("queues=0"));
  EXPECT_THAT(message({.name = "tw0", .userns = true, .queues = 99}), HasSubstr("queues=99"));
}

TEST_F(TapDeviceTest, FeaturesAreThoseOfANetworkCard) {
  EXPECT_TRUE(device_->features().HasAll(
      {Feature::kSg, Feature::kHwCsum, Feature::kTso, Feature::kTso6, Feature::kTsoEcn}));
  Make({.tso = false});
  EXPECT_TRUE(device_->features().HasAll({Feature::kSg, Feature::kHwCsum}));
  EXPECT_FALSE(device_->features().HasAny(netdev::kAllTso));
  Make({.csum = false});
  EXPECT_FALSE(device_->features().HasAny(netdev::kCsumMask | netdev::kGsoMask));
  EXPECT_FALSE(device_->features().Has(Feature::kRxCsum));
  Make({}, /*vnet_hdr_size=*/0);
  EXPECT_FALSE(device_->features().HasAny(netdev::kCsumMask | netdev::kGsoMask));
}

// ---- Link down and removal ----

// Covers: bug:B94 — EIO is a drop and carrier off; the link comes back.
TEST_F(TapDeviceTest, KernelEndDownIsCarrierOffUntilItReturns) {
  Up();
  const uint64_t generation = context_.poll_fds_generation();
  kernel_->state = TapLinkState::kDown;
  kernel_->refuse = [](const VnetHdr&) { return EIO; };
  Send(Plain(60));
  context_.RunOnce();
  EXPECT_EQ(Dropped(DropReason::kTxCarrierOff), 1u);
  EXPECT_EQ(device_->write_errors(EIO), 1u);
  EXPECT_TRUE(device_->is_up());
  EXPECT_FALSE(device_->has_carrier());
  EXPECT_GT(context_.poll_fds_generation(), generation);
  // A runner is to wake us when the TAP becomes writable, and only then.
  ASSERT_THAT(device_->poll_fds(), SizeIs(1));
  EXPECT_TRUE(device_->poll_fds()[0].want_write);
  EXPECT_FALSE(context_.has_pending_work());
  EXPECT_EQ(Send(Plain(60)), TxResult::kCongested);
  EXPECT_EQ(device_->write_errors(EIO), 1u) << "written without carrier";

  kernel_->state = TapLinkState::kUp;
  kernel_->refuse = [](const VnetHdr&) { return 0; };
  RunReadable();
  EXPECT_TRUE(device_->is_running());
  EXPECT_FALSE(device_->poll_fds()[0].want_write);
  EXPECT_THAT(TakeWritten(), SizeIs(2)) << "the probe";
  EXPECT_EQ(Send(Plain(60)), TxResult::kQueued);
  EXPECT_THAT(TakeWritten(), SizeIs(1));
}

TEST_F(TapDeviceTest, StartsWithoutCarrierWhileTheKernelEndIsDown) {
  kernel_->state = TapLinkState::kDown;
  ASSERT_TRUE(device_->Up().ok());
  EXPECT_FALSE(device_->has_carrier());
  EXPECT_THAT(TakeWritten(), IsEmpty());
  kernel_->state = TapLinkState::kUp;
  RunReadable();
  EXPECT_TRUE(device_->is_running());
  EXPECT_THAT(TakeWritten(), SizeIs(2));
}

// Covers: bug:B94 — one event, polling stops, the device stays down.
TEST_F(TapDeviceTest, RemovalFoundByReadingIsToldOnce) {
  Up();
  LogLines log;
  int told = 0;
  device_->SetGoneCallback([&](const absl::Status& why) {
    ++told;
    EXPECT_THAT(std::string(why.message()), HasSubstr("tw0"));
    EXPECT_THAT(std::string(why.message()), HasSubstr("removed while in use"));
  });
  kernel_->read_error = EBADFD;
  kernel_->state = TapLinkState::kGone;
  RunReadable();
  RunReadable();
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(device_->gone());
  EXPECT_FALSE(device_->is_up());
  EXPECT_FALSE(device_->has_carrier());
  EXPECT_THAT(device_->poll_fds(), IsEmpty());
  EXPECT_THAT(log.lines, SizeIs(1));
  EXPECT_EQ(Send(Plain(60)), TxResult::kCongested);
  const absl::Status up = device_->Up();
  EXPECT_FALSE(up.ok());
  EXPECT_THAT(std::string(up.message()), HasSubstr("removed"));
}

// Covers: bug:B94
TEST_F(TapDeviceTest, RemovalFoundByWritingIsToldToo) {
  Up();
  LogLines log;
  int told = 0;
  device_->SetGoneCallback([&](const absl::Status&) { ++told; });
  kernel_->state = TapLinkState::kGone;
  kernel_->refuse = [](const VnetHdr&) { return EBADFD; };
  Send(Plain(60));
  while (context_.RunOnce()) {
  }
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(device_->is_up());
  EXPECT_EQ(Dropped(DropReason::kTxDeviceDown), 1u);
}

TEST_F(TapDeviceTest, EndOfFileIsRemoval) {
  Up();
  LogLines log;
  kernel_ends_[0].Reset();
  RunReadable();
  EXPECT_TRUE(device_->gone());
}

TEST_F(TapDeviceTest, UnknownReadErrorsEndInRemovalNotInALoop) {
  Up();
  LogLines log;
  kernel_->read_error = EFAULT;
  for (int i = 0; i < 15; ++i) RunReadable();
  EXPECT_FALSE(device_->gone());
  RunReadable();
  EXPECT_TRUE(device_->gone());
  EXPECT_FALSE(context_.has_pending_work());
}

TEST_F(TapDeviceTest, WhatCameWhileDownIsNotReceivedLater) {
  Up();
  device_->Down();
  EXPECT_THAT(device_->poll_fds(), IsEmpty());
  FromKernel({}, PlainFrame(60));
  Up();
  FromKernel({}, PlainFrame(61));
  RunReadable();
  ASSERT_THAT(sink_.packets, SizeIs(1));
  EXPECT_EQ(sink_.packets[0]->length(), 61u);
}

TEST_F(TapDeviceTest, BuffersAreGivenBackWhenDown) {
  Up();
  EXPECT_GT(context_.pool().stats().slabs_in_use(), 0u);
  device_->Down();
  EXPECT_EQ(context_.pool().stats().slabs_in_use(), 0u);
  EXPECT_EQ(context_.pool().stats().packets_in_use, 0u);
}

TEST_F(TapDeviceTest, NoMemoryForTheFirstBuffersIsAnError) {
  std::vector<SlabRef> hoard;
  while (SlabRef slab = context_.pool().AllocateSlab(SlabClass::kLarge)) {
    hoard.push_back(std::move(slab));
  }
  const absl::Status up = device_->Up();
  EXPECT_EQ(up.code(), absl::StatusCode::kResourceExhausted);
  hoard.clear();
  EXPECT_TRUE(device_->Up().ok());
}

// ---- Queues ----

TEST_F(TapDeviceTest, EachQueueIsPolledAndAFlowStaysOnOne) {
  Make({.queues = 4});
  Up();
  for (size_t q = 0; q < 4; ++q) TakeWritten(q);
  ASSERT_THAT(device_->poll_fds(), SizeIs(4));
  for (size_t q = 0; q < 4; ++q) FromKernel({}, PlainFrame(60 + q), q);
  RunReadable();
  EXPECT_THAT(sink_.packets, SizeIs(4));

  std::map<size_t, int> frames_by_queue;
  for (uint16_t port = 1; port <= 64; ++port) {
    Send(Tcp(port % 2 == 0, 10, 0, port));
    Send(Tcp(port % 2 == 0, 10, 0, port));
    for (size_t q = 0; q < 4; ++q) {
      const size_t count = TakeWritten(q).size();
      EXPECT_TRUE(count == 0 || count == 2) << "one flow on two queues";
      frames_by_queue[q] += static_cast<int>(count);
    }
  }
  for (size_t q = 0; q < 4; ++q) EXPECT_GT(frames_by_queue[q], 8) << "queue " << q;
}

TEST_F(TapDeviceTest, FramesWithoutFlowUseTheFirstQueue) {
  Make({.queues = 2});
  Up();
  TakeWritten(1);
  Send(Plain(60));
  EXPECT_THAT(TakeWritten(0), SizeIs(1));
  EXPECT_THAT(TakeWritten(1), IsEmpty());
}

}  // namespace
}  // namespace tapwire::drivers
