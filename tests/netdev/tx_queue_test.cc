// SPDX-License-Identifier: Apache-2.0
#include "netdev/tx_queue.h"

#include <vector>

#include "gtest/gtest.h"
#include "netdev/tx_path.h"
#include "tests/netdev/fake_device.h"
#include "tests/netdev/frame_builder.h"

namespace tapwire::netdev {
namespace {

using enum Feature;
using testing::FakeDevice;
using testing::FrameFault;
using testing::WireBytesOf;

class TxQueueTest : public testing::NetdevTest {
 protected:
  FakeDevice& Device(FeatureSet features, uint32_t mtu = 1500) {
    return AddUpDevice({.features = features, .mtu = mtu});
  }
  size_t Fill(FakeDevice& device, size_t count) {
    size_t queued = 0;
    for (size_t i = 0; i < count; ++i) {
      if (TxPath::Transmit(Frame({.payload = 1, .seq = static_cast<uint32_t>(i)}), device) ==
          TxResult::kQueued) {
        ++queued;
      }
    }
    return queued;
  }
};

TEST_F(TxQueueTest, SendsInOrderAtTheEndOfTheBatch) {
  FakeDevice& device = Device({});
  Fill(device, 5);
  EXPECT_TRUE(device.sent.empty());
  EXPECT_TRUE(context.has_pending_work());
  EXPECT_FALSE(context.RunOnce());
  ASSERT_EQ(device.sent.size(), 5u);
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(testing::Get32(device.sent[i]->head_bytes(), 38), i);
  }
  EXPECT_EQ(device.more, (std::vector<bool>{true, true, true, true, false}));
}

TEST_F(TxQueueTest, LastFrameIsKnownEvenIfThePacketsBehindItAreBad) {
  FakeDevice& device = Device({});
  Fill(device, 2);
  static_cast<void>(TxPath::Transmit(GsoPacket({.payload = 100}, 100), device));
  context.RunOnce();
  EXPECT_EQ(device.more, (std::vector<bool>{true, false}));
}

TEST_F(TxQueueTest, FullQueueDropsAndCounts) {
  FakeDevice& device = Device({});
  EXPECT_EQ(Fill(device, 1003), 1000u);
  EXPECT_EQ(TxPath::Transmit(Frame(), device), TxResult::kNoBuffer);
  EXPECT_EQ(device.drops().value(DropReason::kTxQueueFull), 4u);
  EXPECT_EQ(device.stats().tx_dropped.value(), 4u);
  context.RunOnce();
  EXPECT_EQ(device.sent.size(), 1000u);
  EXPECT_EQ(TxPath::Transmit(Frame(), device), TxResult::kQueued);
}

TEST_F(TxQueueTest, StoppedQueueWaitsForTheDriver) {
  FakeDevice& device = Device({kSg, kHwCsum});
  device.room = 2;
  static_cast<void>(TxPath::Transmit(GsoPacket({.payload = 3000, .seq = 0}, 1448), device));
  Fill(device, 1);
  EXPECT_FALSE(context.RunOnce()) << "nothing to do until the driver wakes the queue";
  EXPECT_EQ(device.sent.size(), 2u);
  EXPECT_TRUE(device.tx_queue_stopped());
  EXPECT_EQ(context.next_deadline(), std::nullopt);
  EXPECT_EQ(TxPath::Transmit(Frame({.seq = 77}), device), TxResult::kQueued);
  EXPECT_EQ(context.next_deadline(), std::nullopt);

  device.room = 100;
  device.WakeTxQueue();
  context.RunOnce();
  ASSERT_EQ(device.sent.size(), 5u);
  EXPECT_EQ(testing::Get32(device.sent[2]->head_bytes(), 38), 2896u) << "the third segment";
  EXPECT_EQ(testing::Get32(device.sent[3]->head_bytes(), 38), 0u);
  EXPECT_EQ(testing::Get32(device.sent[4]->head_bytes(), 38), 77u);
  for (const PacketPtr& frame : device.sent) EXPECT_EQ(FrameFault(WireBytesOf(*frame)), "");
}

TEST_F(TxQueueTest, DownDropsWhatWaits) {
  FakeDevice& device = Device({});
  Fill(device, 3);
  device.Down();
  EXPECT_EQ(device.drops().value(DropReason::kTxDeviceDown), 3u);
  context.RunOnce();
  EXPECT_TRUE(device.sent.empty());
  // A queue that was stopped starts anew.
  ASSERT_TRUE(device.Up().ok());
  device.StopTxQueue();
  device.Down();
  ASSERT_TRUE(device.Up().ok());
  Fill(device, 1);
  context.RunOnce();
  EXPECT_EQ(device.sent.size(), 1u);
}

TEST_F(TxQueueTest, LostCarrierDropsWhatWaits) {
  FakeDevice& device = Device({});
  Fill(device, 3);
  device.SetCarrier(false);
  EXPECT_EQ(device.drops().value(DropReason::kTxCarrierOff), 3u);
}

TEST_F(TxQueueTest, CarrierLostInTheMiddleOfAFlushDropsTheRest) {
  FakeDevice& device = Device({});
  device.on_xmit = [&] { device.SetCarrier(false); };
  Fill(device, 4);
  context.RunOnce();
  EXPECT_EQ(device.sent.size(), 1u);
  EXPECT_EQ(device.drops().value(DropReason::kTxCarrierOff), 3u);
}

TEST_F(TxQueueTest, UnregisteredDeviceLeavesNothingBehind) {
  FakeDevice& device = Device({});
  Fill(device, 4);
  context.registry().Unregister(device);
  EXPECT_EQ(device.drops().value(DropReason::kTxDeviceDown), 4u);
  EXPECT_FALSE(context.RunOnce());
  EXPECT_EQ(context.pool().stats().packets_in_use, 0u);
}

TEST_F(TxQueueTest, SmallerMtuDropsWhatFitsNoMore) {
  FakeDevice& device = Device({}, 1500);
  static_cast<void>(TxPath::Transmit(Frame({.payload = 1400}), device));
  static_cast<void>(TxPath::Transmit(Frame({.payload = 500}), device));
  ASSERT_TRUE(device.SetMtu(1000).ok());
  context.RunOnce();
  ASSERT_EQ(device.sent.size(), 1u);
  EXPECT_LE(device.sent[0]->length(), 1014u);
  EXPECT_EQ(device.drops().value(DropReason::kTxOverMtu), 1u);
}

}  // namespace
}  // namespace tapwire::netdev
