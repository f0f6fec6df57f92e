// SPDX-License-Identifier: Apache-2.0
#include "netdev/dummy.h"

#include "gtest/gtest.h"
#include "netdev/tx_path.h"
#include "tests/netdev/fake_device.h"

namespace tapwire::netdev {
namespace {

using enum Feature;

class DummyTest : public testing::NetdevTest {
 protected:
  NetDevice& Create(DummyOptions options = {}) {
    auto device = CreateDummy(context, options);
    EXPECT_TRUE(device.ok()) << device.status();
    return **device;
  }
};

TEST_F(DummyTest, IsNamedByTheFirstFreeNumber) {
  EXPECT_EQ(Create().name(), "dummy0");
  EXPECT_EQ(Create({.name = "dummy2"}).name(), "dummy2");
  EXPECT_EQ(Create().name(), "dummy1");
  NetDevice& last = Create({.mac = MacAddress{2, 0, 0, 0, 0, 9}, .mtu = 9000});
  EXPECT_EQ(last.name(), "dummy3");
  EXPECT_EQ(last.mtu(), 9000u);
  EXPECT_EQ(last.mac(), (MacAddress{2, 0, 0, 0, 0, 9}));
  EXPECT_EQ(last.kind(), "dummy");
  EXPECT_FALSE(CreateDummy(context, {.name = "dummy2"}).ok());
}

// What `ethtool -k` shows of Linux's.
TEST_F(DummyTest, ClaimsWhatLinuxsClaims) {
  NetDevice& device = Create();
  const FeatureSet expected{kSg,          kFragList,     kHwCsum,           kHighDma,    kTso,
                            kTso6,        kTsoEcn,       kTsoMangleId,      kGsoSctp,    kGsoUdpL4,
                            kGsoFragList, kGsoAccEcn,    kGsoGre,           kGsoGreCsum, kGsoIpxip4,
                            kGsoIpxip6,   kGsoUdpTunnel, kGsoUdpTunnelCsum, kGso,        kGro};
  EXPECT_EQ(device.features(), expected) << FeatureSetToString(device.features() ^ expected);
  EXPECT_TRUE(device.hw_features().HasAll(expected));
  EXPECT_TRUE(device.hw_enc_features().HasAll(expected & ~kSoftFeatures));
  EXPECT_EQ(device.vlan_features(), FeatureSet{kHighDma});
  EXPECT_TRUE(device.RequestFeatures(kAllTso, {}).empty()) << "users may switch them";
  EXPECT_FALSE(device.features().HasAny(kAllTso));
}

TEST_F(DummyTest, CanBeAsPlainHardware) {
  NetDevice& device = Create({.offloads = false});
  EXPECT_EQ(device.features(), FeatureSet{kGro});
  EXPECT_FALSE(device.hw_features().HasAny({kSg, kHwCsum, kTso}));
}

TEST_F(DummyTest, CountsWhatItIsGivenAndFreesIt) {
  NetDevice& device = Create();
  EXPECT_EQ(TxPath::Transmit(Frame(), device), TxResult::kCongested) << "down";
  ASSERT_TRUE(device.Up().ok());
  EXPECT_TRUE(device.is_running());
  EXPECT_EQ(TxPath::Transmit(Frame({.payload = 46}), device), TxResult::kSent);
  EXPECT_EQ(TxPath::Transmit(Frame({.ipv6 = true, .payload = 26}), device), TxResult::kSent);
  EXPECT_EQ(device.stats().tx_packets.value(), 2u);
  EXPECT_EQ(device.stats().tx_bytes.value(), 200u);
  EXPECT_EQ(TxPath::Transmit(GsoPacket({.payload = 3000}, 1400), device), TxResult::kSent);
  EXPECT_EQ(device.stats().tx_packets.value(), 3u) << "a super-packet is one";
  EXPECT_EQ(device.stats().tx_gso_segmented.value(), 0u);
  EXPECT_EQ(device.stats().tx_dropped.value(), 1u);
  EXPECT_EQ(device.stats().rx_packets.value(), 0u);
  EXPECT_EQ(context.pool().stats().packets_in_use, 0u);
}

TEST_F(DummyTest, WithoutOffloadsEveryFrameIsCut) {
  NetDevice& device = Create({.offloads = false});
  ASSERT_TRUE(device.Up().ok());
  static_cast<void>(TxPath::Transmit(GsoPacket({.payload = 3000}, 1400), device));
  EXPECT_EQ(device.stats().tx_packets.value(), 3u);
  EXPECT_EQ(device.stats().tx_gso_segmented.value(), 1u);
}

TEST_F(DummyTest, CarrierCanBeTaken) {
  NetDevice& device = Create();
  ASSERT_TRUE(device.Up().ok());
  device.SetCarrier(false);
  EXPECT_EQ(device.oper_state(), OperState::kDown);
  EXPECT_EQ(TxPath::Transmit(Frame(), device), TxResult::kCongested);
  EXPECT_EQ(device.drops().value(DropReason::kTxCarrierOff), 1u);
  device.SetCarrier(true);
  EXPECT_EQ(TxPath::Transmit(Frame(), device), TxResult::kSent);
  device.Down();
  EXPECT_TRUE(device.has_carrier()) << "as Linux's: only the administrative state went";
}

}  // namespace
}  // namespace tapwire::netdev
