// SPDX-License-Identifier: Apache-2.0
// A driver without hardware for the tests of the device layer, a context to put it on,
// and hooks that record what they are given.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "netdev/device.h"
#include "netdev/net_context.h"
#include "netdev/poll.h"
#include "netdev/registry.h"
#include "tests/netdev/frame_builder.h"
#include "tests/testutil/fake_clock.h"

namespace tapwire::netdev::testing {

// Frames that a FakeDevice received, handed to the core when it is polled.
class FakeRxQueue final : public PollContext {
 public:
  using PollContext::PollContext;

  void Add(PacketPtr packet) {
    packet->meta.rx_time = context().now();
    waiting_.PushBack(std::move(packet));
    Schedule();
  }

  int Poll(int budget) override {
    budgets.push_back(budget);
    int taken = 0;
    while (taken < budget) {
      PacketPtr packet = waiting_.PopFront();
      if (packet == nullptr) break;
      Deliver(std::move(packet));
      ++taken;
    }
    return taken;
  }

  std::vector<int> budgets;  // of every call

 private:
  PacketList waiting_;
};

class FakeDevice final : public NetDevice {
 public:
  struct Options {
    std::string name = "fake0";
    FeatureSet features{};     // active
    FeatureSet hw_features{};  // changeable
    FeatureSet vlan_features{};
    bool queueless = false;
    uint32_t mtu = 1500;
    MacAddress mac{2, 0, 0, 0, 0, 1};
    uint32_t gso_max_size = kDefaultGsoMaxSize;
    uint32_t gso_max_segs = kDefaultGsoMaxSegs;
    bool pass_all_features = false;  // no narrowing by tags
    FeatureSet hw_enc_features{};
    FeatureSet gso_partial_features{};
    LinkType link_type = LinkType::kEthernet;
    size_t unicast_filter_slots = 0;
    bool filters_vlans = false;
  };

  FakeDevice(NetContext& context, Options options)
      : NetDevice(context, Init{.name = options.name,
                                .mac = options.mac,
                                .mtu = options.mtu,
                                .link_type = options.link_type}),
        options_(std::move(options)) {
    set_features(options_.features);
    set_hw_features(options_.hw_features);
    set_vlan_features(options_.vlan_features);
    set_hw_enc_features(options_.hw_enc_features);
    set_gso_partial_features(options_.gso_partial_features);
    set_tso_limits(options_.gso_max_size, options_.gso_max_segs);
  }
  ~FakeDevice() override {
    if (on_destroy) on_destroy();
  }

  absl::string_view kind() const override { return "fake"; }
  std::vector<PollFd> poll_fds() const override { return fds; }
  uint32_t parent_ifindex() const override { return parent != 0 ? parent : ifindex(); }
  FakeRxQueue& rx() { return *rx_; }
  void DropRxQueue() { rx_.reset(); }

  using NetDevice::InheritTsoLimits;
  using NetDevice::set_features;
  using NetDevice::set_hw_enc_features;
  using NetDevice::set_tso_limits;
  using NetDevice::StopTxQueue;
  using NetDevice::tx_queue_stopped;
  using NetDevice::UpdateFeatures;
  using NetDevice::WakeTxQueue;

  std::vector<PacketPtr> sent;
  std::vector<bool> more;  // of each sent frame
  TxResult answer = TxResult::kSent;
  size_t room = 1u << 20;  // stops its queue when so many frames have been sent
  absl::Status up_status, mtu_status, mac_status, features_status;
  absl::Status init_status, vlan_status;
  bool handles_features = false;  // SetFeatures() says that it wrote the active set itself
  std::vector<std::string> calls;
  std::vector<std::string> filter_calls;  // promiscuity, allmulti and VLAN ids
  uint16_t refused_vlan_id = 0;           // with vlan_status
  uint32_t parent = 0;                    // ifindex
  std::function<FeatureSet(FeatureSet)> fix_features;
  std::function<void()> on_xmit, on_destroy, on_init, on_uninit;
  std::function<void(FeatureSet)> on_set_features;
  std::function<void(uint16_t vlan_id)> on_vlan_change;
  std::vector<PollFd> fds;

 protected:
  absl::Status OnInit() override {
    calls.push_back("init");
    if (on_init) on_init();
    return init_status;
  }
  void OnUninit() override {
    calls.push_back("uninit");
    if (on_uninit) on_uninit();
  }
  absl::Status OnUp() override {
    calls.push_back("up");
    return up_status;
  }
  void OnDown() override { calls.push_back("down"); }
  absl::Status OnSetMtu(uint32_t) override { return mtu_status; }
  absl::Status OnSetMac(const MacAddress&) override { return mac_status; }
  void OnRxModeChange() override { calls.push_back("rx-mode"); }
  void OnUnregister() override { calls.push_back("unregister"); }
  void OnRxFlagsChange(bool promiscuous_changed, bool allmulti_changed) override {
    if (promiscuous_changed) filter_calls.push_back(is_promiscuous() ? "+promisc" : "-promisc");
    if (allmulti_changed) filter_calls.push_back(is_allmulti() ? "+allmulti" : "-allmulti");
  }
  size_t unicast_filter_slots() const override { return options_.unicast_filter_slots; }
  bool filters_vlans() const override { return options_.filters_vlans; }
  absl::Status OnAddVlanId(uint16_t, uint16_t vlan_id) override {
    if (on_vlan_change) on_vlan_change(vlan_id);
    if (!vlan_status.ok() && vlan_id == refused_vlan_id) return vlan_status;
    filter_calls.push_back("+vlan " + std::to_string(vlan_id));
    return absl::OkStatus();
  }
  void OnRemoveVlanId(uint16_t, uint16_t vlan_id) override {
    if (on_vlan_change) on_vlan_change(vlan_id);
    filter_calls.push_back("-vlan " + std::to_string(vlan_id));
  }
  FeatureSet FixFeatures(FeatureSet wanted) override {
    return fix_features ? fix_features(wanted) : wanted;
  }
  absl::StatusOr<FeatureOutcome> SetFeatures(FeatureSet features) override {
    calls.push_back("set-features " + FeatureSetToString(features));
    if (on_set_features) on_set_features(features);
    if (!features_status.ok()) return features_status;
    return handles_features ? FeatureOutcome::kHandled : FeatureOutcome::kApply;
  }
  FeatureSet FeaturesCheck(const Packet& packet, FeatureSet features) const override {
    return options_.pass_all_features ? features : NetDevice::FeaturesCheck(packet, features);
  }
  TxResult StartXmit(PacketPtr packet, bool more_follow) override {
    if (on_xmit) on_xmit();
    if (!TxOk(answer)) {
      FailTx(std::move(packet), DropReason::kTxWriteError);
      return answer;
    }
    sent.push_back(std::move(packet));
    more.push_back(more_follow);
    if (sent.size() >= room) StopTxQueue();
    return answer;
  }
  bool is_queueless() const override { return options_.queueless; }

 private:
  Options options_;
  std::unique_ptr<FakeRxQueue> rx_ = std::make_unique<FakeRxQueue>(context(), *this);
};

// Keeps what it receives, after an optional callback.
class FakeSink final : public PacketType {
 public:
  explicit FakeSink(uint16_t ether_type = kAllTypes) : PacketType(ether_type) {}
  void Receive(PacketPtr packet, NetDevice& device) override {
    devices.push_back(device.name());
    if (on_receive) on_receive(*packet, device);
    packets.push_back(std::move(packet));
  }
  std::vector<PacketPtr> packets;
  std::vector<std::string> devices;
  std::function<void(const Packet&, NetDevice&)> on_receive;
};

class FakeTap final : public PacketTap {
 public:
  struct Seen {
    std::vector<uint8_t> bytes;
    PacketMeta meta;
    TapDirection direction;
    TxResult result;
  };
  void OnFrame(const Packet& packet, const NetDevice&, TapDirection direction,
               TxResult result) override {
    seen.push_back({BytesOf(packet), packet.meta, direction, result});
  }
  std::vector<Seen> seen;
};

class FakeObserver final : public NetdevObserver {
 public:
  void OnNetdevEvent(NetDevice& device, NetdevEvent event) override {
    events.push_back(device.name() + " " + std::string(NetdevEventName(event)));
    if (on_event) on_event(device, event);
  }
  absl::Status MayChange(NetDevice& device, NetdevEvent event) override {
    asked.push_back(device.name() + " " + std::string(NetdevEventName(event)));
    return answer;
  }
  std::vector<std::string> events;
  std::vector<std::string> asked;
  absl::Status answer;  // to MayChange()
  std::function<void(NetDevice&, NetdevEvent)> on_event;
};

class NetdevTest : public ::testing::Test {
 protected:
  NetdevTest() = default;

  FakeDevice& AddDevice(FakeDevice::Options options = {}) {
    auto device = context.registry().Register(std::make_unique<FakeDevice>(context, options));
    EXPECT_TRUE(device.ok()) << device.status();
    (*device)->calls.clear();
    return **device;
  }
  FakeDevice& AddUpDevice(FakeDevice::Options options = {}) {
    FakeDevice& device = AddDevice(std::move(options));
    EXPECT_TRUE(device.Up().ok());
    device.calls.clear();
    return device;
  }

  PacketPtr Frame(const FrameSpec& spec = {}, Cut cut = {}) {
    return MakePacket(context.pool(), BuildFrame(spec), cut);
  }
  PacketPtr PartialFrame(const FrameSpec& spec = {}, Cut cut = {}) {
    PacketPtr packet = Frame(spec, cut);
    MakePartial(*packet, spec);
    return packet;
  }
  PacketPtr GsoPacket(const FrameSpec& spec, uint16_t size, Cut cut = {}) {
    return MakeGsoPacket(context.pool(), spec, size, cut);
  }

  TestEnvironment environment;
  NetContext context{environment.environment()};
};

}  // namespace tapwire::netdev::testing
