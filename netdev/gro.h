// SPDX-License-Identifier: Apache-2.0
// Generic receive offload: merges consecutive segments of a flow, received in one poll round, into
// one super-packet that segmentation turns back into the same frames.
//
// One Gro per poll context, so nothing is merged across devices or receive queues. It holds packets
// only until the end of the round, 8 of each of 8 groups of flows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/strings/string_view.h"
#include "netdev/base/counter.h"
#include "netdev/packet/packet.h"
#include "netdev/packet/packet_list.h"

namespace tapwire::netdev {

class NetDevice;
namespace internal {
struct GroHeaders;
struct GroHeld;
}  // namespace internal

// Whether a poll context merges. The device's rx-gro feature must be on in any case.
enum class GroMode : uint8_t {
  kAuto,  // only where it costs little and harms nothing: the device verifies checksums
          // (rx-checksum is on; an unverified packet is not summed for it), and no stack forwards
          // its frames
  kOn,    // everything that can be, summing in software where the device did not
  kOff,
};
absl::string_view GroModeName(GroMode mode);

#define TAPWIRE_GRO_STATS(X)                                                     \
  X(merged, "rx_gro_merged", "Received frames that were appended to a held one") \
  X(packets, "rx_gro_packets", "Super-packets that came of it")                  \
  X(refused, "rx_gro_refused", "Frames of a held flow that could not be merged") \
  X(summed, "rx_gro_summed", "Transport checksums verified in software in order to merge")
TAPWIRE_COUNTER_STRUCT(GroStats, TAPWIRE_GRO_STATS);

// Rules, as in Linux 6.18: packets merge that are segments of one flow, contiguous, of one size
// (the last may be shorter), with good checksums, and equal in all that segmentation would copy
// from the first. The result has less than 65,536 bytes from the network header on, whatever larger
// limit the device has: the length fields hold no more. UDP is merged only while
// rx-udp-gro-forwarding is on. Chaining of whole packets (rx-gro-list) is not offered.
//
// Order within a flow is kept: a packet that cannot be merged first completes what is held of it,
// unless it is damaged.
class Gro {
 public:
  static constexpr size_t kBuckets = 8;
  static constexpr size_t kPerBucket = 8;
  static constexpr size_t kMaxUdpSegments = 64;
  static constexpr size_t kMaxBytes = 65536;  // not reached

  explicit Gro(const NetDevice& device);
  ~Gro();
  Gro(const Gro&) = delete;
  Gro& operator=(const Gro&) = delete;

  // Whether the device's settings ask for merging at all: rx-gro and the mode.
  static bool IsWanted(const NetDevice& device);

  // Takes one received frame, data() at the Ethernet header, meta.rx_device set. Appends to `out`,
  // in the order in which they are to go up, what is complete because of it; keeps the frame, or
  // appends it too. The merged packet keeps the rx_time of its first frame.
  void Offer(PacketPtr packet, PacketList& out);
  // The end of a round: completes everything that is held.
  void Flush(PacketList& out);
  bool holds_any() const { return held_ > 0; }
  size_t held() const { return held_; }

  const GroStats& stats() const { return stats_; }

 private:
  struct Bucket;
  struct Place {
    Bucket* bucket = nullptr;  // null: not held
    size_t index = 0;
  };
  enum class Verdict : uint8_t { kGood, kBad, kUnverified };

  Place Find(const Packet& packet, const internal::GroHeaders& headers, uint32_t key);
  Verdict Verify(Packet& packet, const internal::GroHeaders& headers);
  bool Merge(internal::GroHeld& held, PacketPtr& packet, const internal::GroHeaders& headers);
  void Hold(PacketPtr packet, const internal::GroHeaders& headers, uint32_t key, PacketList& out);
  void Complete(Place place, PacketList& out);
  void FlushHosts(const Packet& packet, const internal::GroHeaders& headers, PacketList& out);
  size_t ByteLimit() const;

  const NetDevice& device_;
  size_t held_ = 0;
  std::unique_ptr<Bucket[]> buckets_;
  GroStats stats_;
};

// Statistics of merging in ethtool -S style, summed over the receive queues of a device; a queue
// that has never merged is null.
void ForEachGroStat(std::span<const Gro* const> queues,
                    const std::function<void(absl::string_view name, uint64_t value)>& fn);

}  // namespace tapwire::netdev
