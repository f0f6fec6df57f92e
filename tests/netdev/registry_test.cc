// SPDX-License-Identifier: Apache-2.0
#include "netdev/registry.h"

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "netdev/base/status_util.h"
#include "tests/netdev/fake_device.h"

namespace tapwire::netdev {
namespace {

using ::testing::ElementsAre;
using testing::FakeDevice;
using ::testing::HasSubstr;

class RegistryTest : public testing::NetdevTest {
 protected:
  absl::Status Register(FakeDevice::Options options) {
    return context.registry()
        .Register(std::make_unique<FakeDevice>(context, std::move(options)))
        .status();
  }
};

TEST_F(RegistryTest, DevicesAreFoundByNameAndIndex) {
  Registry& registry = context.registry();
  FakeDevice& a = AddDevice({.name = "a"});
  FakeDevice& b = AddDevice({.name = "b"});
  EXPECT_EQ(a.ifindex(), 1u);
  EXPECT_EQ(b.ifindex(), 2u);
  EXPECT_EQ(registry.Find("b"), &b);
  EXPECT_EQ(registry.Find(uint32_t{1}), &a);
  EXPECT_EQ(registry.Find(uint32_t{0}), nullptr);
  EXPECT_EQ(registry.Find(uint32_t{3}), nullptr);
  EXPECT_EQ(registry.Find(0xffffffffu), nullptr);
  EXPECT_EQ(registry.Find("c"), nullptr);
  EXPECT_THAT(registry.devices(), ElementsAre(&a, &b));
}

TEST_F(RegistryTest, IndexIsNeverReused) {
  FakeDevice& a = AddDevice({.name = "a"});
  context.registry().Unregister(a);
  EXPECT_EQ(context.registry().Find(uint32_t{1}), nullptr);
  FakeDevice& again = AddDevice({.name = "a"});
  EXPECT_EQ(again.ifindex(), 2u);
}

TEST_F(RegistryTest, NamesAreValidated) {
  for (const char* bad : {"", "sixteen-bytes-xx", "a/b", "a b", "a\tb", "a:1", ".", ".."}) {
    const absl::Status status = Register({.name = bad});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("cannot name a device"));
  }
  EXPECT_EQ(Register({.name = std::string("a\0b", 3)}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Register({.name = "fifteen-bytes-x"}).ok());
  EXPECT_TRUE(Register({.name = "eth0.5@x"}).ok());
  const absl::Status twice = Register({.name = "eth0.5@x"});
  EXPECT_EQ(twice.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(twice.message()), HasSubstr("eth0.5@x"));
  EXPECT_EQ(context.registry().devices().size(), 2u);
}

TEST_F(RegistryTest, ImpossibleDevicesAreRefused) {
  EXPECT_EQ(Register({.mtu = 67}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Register({.mtu = 65536}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Register({.mac = MacAddress(1, 0, 0, 0, 0, 1)}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(context.registry().Register(std::unique_ptr<FakeDevice>()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(context.registry().devices().empty());
}

// Covers: netdev:R-04
TEST_F(RegistryTest, VlanFilterWithoutAWayToSetItIsRefused) {
  using enum Feature;
  for (const FakeDevice::Options& options :
       {FakeDevice::Options{.features = kHwVlanCtagFilter},
        FakeDevice::Options{.hw_features = kHwVlanStagFilter}}) {
    std::vector<std::string> seen;
    auto device = std::make_unique<FakeDevice>(context, options);
    device->on_init = [&] { seen.push_back("init"); };
    device->on_uninit = [&] { seen.push_back("uninit"); };
    const absl::Status status = context.registry().Register(std::move(device)).status();
    EXPECT_EQ(StatusToErrno(status), EINVAL);
    EXPECT_THAT(std::string(status.message()), HasSubstr("fake0"));
    EXPECT_THAT(seen, ElementsAre("init", "uninit"));
    EXPECT_TRUE(context.registry().devices().empty());
  }
  EXPECT_TRUE(Register({.features = kHwVlanCtagFilter, .filters_vlans = true}).ok());
}

TEST_F(RegistryTest, FailedInitIsReturnedAndNotUndone) {
  bool undone = false;
  testing::FakeObserver observer;
  context.registry().AddObserver(observer);
  auto device = std::make_unique<FakeDevice>(context, FakeDevice::Options{});
  device->init_status = absl::UnavailableError("no such hardware");
  device->on_uninit = [&] { undone = true; };
  EXPECT_EQ(context.registry().Register(std::move(device)).status(),
            absl::UnavailableError("no such hardware"));
  EXPECT_FALSE(undone);
  EXPECT_TRUE(observer.events.empty());
  EXPECT_EQ(context.registry().Find("fake0"), nullptr);
}

// What the driver sets in its init counts for the adjustments.
TEST_F(RegistryTest, InitComesBeforeTheFeatureWordsAreAdjusted) {
  using enum Feature;
  auto device = std::make_unique<FakeDevice>(context, FakeDevice::Options{.hw_features = kLro});
  FakeDevice* raw = device.get();
  FeatureSet hw_seen;
  device->on_init = [&, raw] {
    hw_seen = raw->hw_features();
    raw->set_features({kSg, kLro});
  };
  ASSERT_TRUE(context.registry().Register(std::move(device)).ok());
  EXPECT_EQ(hw_seen, FeatureSet{kLro}) << "nothing added yet";
  EXPECT_TRUE(raw->wanted_features().HasAll({kLro, kGso, kGro}));
  EXPECT_TRUE(raw->features().HasAll({kSg, kLro, kGso, kGro}));
}

TEST_F(RegistryTest, FreeNameSkipsUsedOnes) {
  EXPECT_EQ(context.registry().FreeName("veth"), "veth0");
  AddDevice({.name = "veth0"});
  AddDevice({.name = "veth2"});
  EXPECT_EQ(context.registry().FreeName("veth"), "veth1");
}

TEST_F(RegistryTest, UnregisteredDeviceLivesUntilTheEndOfTheBatch) {
  bool destroyed = false;
  FakeDevice& device = AddUpDevice();
  device.on_destroy = [&] { destroyed = true; };
  context.registry().Unregister(device);
  context.registry().Unregister(device);
  EXPECT_THAT(device.calls, ElementsAre("down", "unregister"));
  EXPECT_FALSE(destroyed);
  EXPECT_EQ(context.registry().Find("fake0"), nullptr);
  EXPECT_EQ(device.Up().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(context.next_deadline(), context.now()) << "the host must come once more";
  EXPECT_FALSE(context.RunOnce());
  EXPECT_TRUE(destroyed);
  EXPECT_EQ(context.next_deadline(), std::nullopt);
}

TEST_F(RegistryTest, NameIsFreeAtOnce) {
  FakeDevice& device = AddDevice({.name = "x"});
  context.registry().Unregister(device);
  EXPECT_TRUE(Register({.name = "x"}).ok());
}

TEST_F(RegistryTest, DestructorMayUnregisterAnother) {
  FakeDevice& upper = AddDevice({.name = "upper"});
  FakeDevice& lower = AddDevice({.name = "lower"});
  bool lower_gone = false;
  lower.on_destroy = [&] { lower_gone = true; };
  upper.on_destroy = [&] { context.registry().Unregister(lower); };
  context.registry().Unregister(upper);
  EXPECT_FALSE(context.RunOnce());
  EXPECT_TRUE(lower_gone);
}

TEST_F(RegistryTest, ContextTakesItsDevicesDown) {
  testing::FakeObserver observer;
  std::vector<std::string> destroyed;
  {
    TestEnvironment other;
    NetContext short_lived(other.environment());
    short_lived.registry().AddObserver(observer);
    for (const char* name : {"a", "b"}) {
      auto device = short_lived.registry().Register(
          std::make_unique<FakeDevice>(short_lived, FakeDevice::Options{.name = name}));
      ASSERT_TRUE(device.ok());
      ASSERT_TRUE((*device)->Up().ok());
      (*device)->on_destroy = [&destroyed, name] { destroyed.push_back(name); };
    }
    observer.events.clear();
  }
  EXPECT_THAT(observer.events, ElementsAre("b going-down", "b down", "b unregister", "a going-down",
                                           "a down", "a unregister"));
  EXPECT_EQ(destroyed.size(), 2u);
}

}  // namespace
}  // namespace tapwire::netdev
