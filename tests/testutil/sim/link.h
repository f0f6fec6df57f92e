// SPDX-License-Identifier: Apache-2.0
// A simulated link: two devices, maybe of two contexts, and what happens to frames between them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "netdev/base/seeded_random.h"
#include "netdev/device.h"
#include "netdev/features.h"
#include "netdev/net_context.h"
#include "netdev/poll.h"

namespace tapwire::testutil {

// The same in both directions, unless Link::direction() is changed.
struct LinkOptions {
  uint32_t mtu = 1500;
  // None: the devices send frames as on a wire. Otherwise super-packets and partial checksums
  // travel over the link as they are.
  netdev::FeatureSet features = {};
  uint64_t rate_bits_per_s = 0;  // 0: unlimited
  Duration delay{};
  uint32_t queue_packets = 1000;  // waiting for the rate; more are dropped (drop-tail)
  double loss = 0, duplicate = 0, reorder = 0;
  // How much later than its turn a reordered frame arrives.
  Duration reorder_delay = std::chrono::milliseconds(1);
  // Decides before everything else; true drops the frame. Gets the bytes as on the wire and the
  // number of the frame in its direction, from 0.
  std::function<bool(std::span<const uint8_t>, uint64_t)> drop_if = {};
};

class Link;

// One end of a link. Sent frames go to the link, which puts them into the other end's receive
// queue.
class SimDevice final : public netdev::NetDevice {
 public:
  SimDevice(netdev::NetContext& context, std::string name, const LinkOptions& options);
  ~SimDevice() override;

  absl::string_view kind() const override { return "sim"; }
  // Cable out, cable in, for this end.
  void SetLinkUp(bool up) { SetCarrier(up); }

 protected:
  netdev::TxResult StartXmit(PacketPtr packet, bool more) override;
  netdev::FeatureSet FeaturesCheck(const Packet& /*packet*/,
                                   netdev::FeatureSet features) const override {
    return features;
  }
  void OnDown() override;

 private:
  friend class Link;
  class RxQueue;

  void Arrive(PacketPtr packet);

  std::unique_ptr<RxQueue> rx_queue_;
  Link* link_ = nullptr;
  int end_ = 0;
};

struct LinkStats {
  uint64_t sent = 0, delivered = 0, lost = 0, duplicated = 0, reordered = 0, overflowed = 0;
};

class Link {
 public:
  // `at` schedules an event of the simulation.
  using Schedule = std::function<void(Time, std::function<void()>)>;
  Link(SimDevice& a, SimDevice& b, const LinkOptions& options, uint64_t seed, Schedule at);

  // Settings of the direction away from the given end; may be changed while running.
  LinkOptions& direction(int from_end) {
    return directions_[static_cast<size_t>(from_end)].options;
  }
  const LinkStats& stats(int from_end) const {
    return directions_[static_cast<size_t>(from_end)].stats;
  }

 private:
  friend class SimDevice;
  struct Direction {
    LinkOptions options;
    LinkStats stats;
    SimDevice* to = nullptr;
    Time wire_free;        // the last bit of what was sent so far has left
    uint32_t waiting = 0;  // frames that have not left entirely
  };

  void Send(int from_end, PacketPtr packet);
  void Deliver(Direction& direction, const Packet& packet, Time arrival);
  bool Chance(double probability);

  std::array<Direction, 2> directions_;
  SeededRandom random_;
  Schedule at_;
};

}  // namespace tapwire::testutil
