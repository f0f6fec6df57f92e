// SPDX-License-Identifier: Apache-2.0
// FaultInjector: an upper device that makes the wire of another device bad on purpose. Each
// direction has its own settings, which may change at any time; the same seed and the same frames
// give the same faults.
//
//   frame ─► lost? ─► doubled? ─► bit flipped? ─► rate and delay queue ─► held back? ─► out
//
// Sent super-packets are cut and checksums completed before the faults, received ones too (unless
// all settings of that direction are zero), so that a fault hits one frame as it would be on the
// wire and a flipped bit is seen by whoever verifies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "netdev/base/seeded_random.h"
#include "netdev/device.h"
#include "netdev/net_context.h"

namespace tapwire::netdev {

struct FaultSettings {
  // Probabilities, 0 to 1, of each frame.
  double loss = 0;
  double duplicate = 0;
  double corrupt = 0;  // one bit is flipped
  double reorder = 0;  // held back until `reorder_depth` later frames have passed …
  uint32_t reorder_depth = 3;
  Duration reorder_hold = std::chrono::milliseconds(10);  // … or this time has
  // Time on the way: delay, and a uniform share of jitter on top. Jitter alone does not reorder.
  Duration delay{};
  Duration jitter{};
  // Bits per second of frames, link header included; 0: unlimited.
  uint64_t rate_bits_per_s = 0;
  // Frames that wait for rate, delay or reordering; more are dropped.
  uint32_t queue_packets = 1000;

  // True if every frame passes untouched and at once.
  bool IsTransparent() const;
  absl::Status Validate() const;
};

// X(field, "name", "help")
#define TAPWIRE_FAULT_STATS(X)                                               \
  X(passed, "passed", "Frames that came out, copies included")               \
  X(lost, "lost", "Frames lost on purpose")                                  \
  X(duplicated, "duplicated", "Copies made on purpose")                      \
  X(corrupted, "corrupted", "Frames with a flipped bit")                     \
  X(reordered, "reordered", "Frames held back so that others overtake them") \
  X(delayed, "delayed", "Frames that waited for the delay or the rate")      \
  X(overflowed, "overflowed", "Frames dropped because the queue was full")   \
  X(no_memory, "no_memory", "Frames that faults passed by or lost for want of memory")
TAPWIRE_COUNTER_STRUCT(FaultStats, TAPWIRE_FAULT_STATS);

class FaultInjector final : public NetDevice, private NetdevObserver {
 public:
  struct Options {
    std::string name = "fault0";
    FaultSettings transmit = {};
    FaultSettings receive = {};
    std::optional<uint64_t> seed = {};  // none: drawn from the context
  };
  // Creates and registers the device on top of `lower`, which it takes up with it. It has the MAC
  // address and MTU of `lower`, follows its carrier and goes when `lower` goes. Fails if `lower`
  // has an upper device already or a setting is invalid.
  static absl::StatusOr<FaultInjector*> Create(NetContext& context, NetDevice& lower,
                                               const Options& options);
  ~FaultInjector() override;

  absl::string_view kind() const override { return "fault"; }
  uint32_t parent_ifindex() const override;

  // Frames that wait already keep their time.
  absl::Status SetTransmit(const FaultSettings& settings);
  absl::Status SetReceive(const FaultSettings& settings);
  const FaultSettings& transmit() const;
  const FaultSettings& receive() const;
  const FaultStats& transmit_stats() const;
  const FaultStats& receive_stats() const;
  void ForEachDriverStat(const std::function<void(absl::string_view, uint64_t)>& fn) const override;

 protected:
  absl::Status OnUp() override;
  void OnDown() override;
  void OnUnregister() override;
  absl::Status OnSetMtu(uint32_t mtu) override;
  TxResult StartXmit(PacketPtr packet, bool more) override;
  bool is_queueless() const override { return true; }

 private:
  class Lane;
  class Handler;

  FaultInjector(NetContext& context, NetDevice& lower, const Options& options);
  void OnNetdevEvent(NetDevice& device, NetdevEvent event) override;
  void FollowCarrier();
  void Leave();

  NetDevice* lower_;
  SeededRandom random_;
  bool promiscuous_ = false;  // we made the lower device so
  std::unique_ptr<Handler> handler_;
  std::unique_ptr<Lane> transmit_;
  std::unique_ptr<Lane> receive_;
};

}  // namespace tapwire::netdev
