// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "netdev/base/status_util.h"
#include "tests/netdev/fake_device.h"

namespace tapwire::netdev {
namespace {

using ::testing::ElementsAre;
using testing::FakeDevice;
using testing::FakeObserver;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DeviceLinksTest : public testing::NetdevTest {
 protected:
  FakeDevice& Named(const std::string& name) { return AddDevice({.name = name}); }
};

TEST_F(DeviceLinksTest, BothSidesKnowTheLink) {
  FakeDevice& lower = Named("lower");
  FakeDevice& a = Named("a");
  FakeDevice& b = Named("b");
  ASSERT_TRUE(lower.LinkUpper(a).ok());
  ASSERT_TRUE(lower.LinkUpper(b).ok());
  EXPECT_THAT(lower.uppers(), ElementsAre(&a, &b));
  EXPECT_THAT(a.lowers(), ElementsAre(&lower));
  lower.UnlinkUpper(a);
  lower.UnlinkUpper(a);
  EXPECT_THAT(lower.uppers(), ElementsAre(&b));
  EXPECT_THAT(a.lowers(), IsEmpty());
}

TEST_F(DeviceLinksTest, LoopsAreBusy) {
  FakeDevice& a = Named("a");
  FakeDevice& b = Named("b");
  FakeDevice& c = Named("c");
  EXPECT_EQ(StatusToErrno(a.LinkUpper(a)), EBUSY);
  ASSERT_TRUE(a.LinkUpper(b).ok());
  ASSERT_TRUE(b.LinkUpper(c).ok());
  for (FakeDevice* below : {&b, &c}) {
    const absl::Status status = below->LinkUpper(a);
    EXPECT_EQ(StatusToErrno(status), EBUSY) << below->name();
    EXPECT_THAT(std::string(status.message()), HasSubstr("loop"));
  }
  EXPECT_THAT(a.lowers(), IsEmpty());
  EXPECT_THAT(c.uppers(), IsEmpty());
}

TEST_F(DeviceLinksTest, SecondLinkExists) {
  FakeDevice& a = Named("a");
  FakeDevice& b = Named("b");
  FakeDevice& c = Named("c");
  ASSERT_TRUE(a.LinkUpper(b).ok());
  EXPECT_EQ(StatusToErrno(a.LinkUpper(b)), EEXIST);
  ASSERT_TRUE(b.LinkUpper(c).ok());
  EXPECT_EQ(StatusToErrno(a.LinkUpper(c)), EEXIST) << "above it already, if not directly";
  EXPECT_THAT(a.uppers(), ElementsAre(&b));
}

TEST_F(DeviceLinksTest, NoMoreThanEightOnEachOther) {
  std::vector<FakeDevice*> stack;
  for (int i = 0; i < 9; ++i) stack.push_back(&Named(absl::StrCat("d", i)));
  // The ninth link from the middle, so that heights on both sides count.
  for (size_t i = 0; i + 1 < 8; ++i) {
    if (i != 3) {
      ASSERT_TRUE(stack[i]->LinkUpper(*stack[i + 1]).ok()) << i;
    }
  }
  ASSERT_TRUE(stack[3]->LinkUpper(*stack[4]).ok()) << "eight are allowed";
  const absl::Status status = stack[7]->LinkUpper(*stack[8]);
  EXPECT_EQ(StatusToErrno(status), EMLINK);
  EXPECT_EQ(StatusToErrno(stack[8]->LinkUpper(*stack[0])), EMLINK);
  stack[3]->UnlinkUpper(*stack[4]);
  EXPECT_TRUE(stack[7]->LinkUpper(*stack[8]).ok());
  EXPECT_EQ(StatusToErrno(stack[3]->LinkUpper(*stack[4])), EMLINK);
}

TEST_F(DeviceLinksTest, BothDevicesMustBeRegistered) {
  FakeDevice& a = Named("a");
  FakeDevice alone(context, {.name = "alone"});
  EXPECT_EQ(a.LinkUpper(alone).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(alone.LinkUpper(a).code(), absl::StatusCode::kFailedPrecondition);
  FakeDevice& gone = Named("gone");
  context.registry().Unregister(gone);
  EXPECT_EQ(a.LinkUpper(gone).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(DeviceLinksTest, UnregisteringEndsAllLinks) {
  FakeDevice& bottom = Named("bottom");
  FakeDevice& middle = Named("middle");
  FakeDevice& top = Named("top");
  ASSERT_TRUE(bottom.LinkUpper(middle).ok());
  ASSERT_TRUE(middle.LinkUpper(top).ok());
  bottom.AddVlanUpper(0x8100, 5, middle);
  FakeObserver observer;
  middle.AddObserver(observer);
  observer.on_event = [&](NetDevice& device, NetdevEvent event) {
    if (event != NetdevEvent::kUnregister) return;
    EXPECT_THAT(device.uppers(), ElementsAre(&top)) << "observers can still see who is affected";
    EXPECT_THAT(device.lowers(), ElementsAre(&bottom));
  };
  context.registry().Unregister(middle);
  context.RunOnce();
  EXPECT_THAT(bottom.uppers(), IsEmpty());
  EXPECT_THAT(top.lowers(), IsEmpty());
  EXPECT_EQ(bottom.VlanUpper(0x8100, 5), nullptr);
}

TEST_F(DeviceLinksTest, VlanUpperIsFoundByProtocolAndId) {
  FakeDevice& lower = Named("lower");
  FakeDevice& five = Named("five");
  FakeDevice& service = Named("service");
  for (FakeDevice* upper : {&five, &service}) ASSERT_TRUE(lower.LinkUpper(*upper).ok());
  lower.AddVlanUpper(0x8100, 5, five);
  lower.AddVlanUpper(0x88a8, 5, service);
  EXPECT_EQ(lower.VlanUpper(0x8100, 5), &five);
  EXPECT_EQ(lower.VlanUpper(0x88a8, 5), &service);
  EXPECT_EQ(lower.VlanUpper(0x8100, 6), nullptr);
  lower.RemoveVlanUpper(five);
  EXPECT_EQ(lower.VlanUpper(0x8100, 5), nullptr);
  lower.UnlinkUpper(service);
  EXPECT_EQ(lower.VlanUpper(0x88a8, 5), nullptr) << "goes with the link";
}

}  // namespace
}  // namespace tapwire::netdev
