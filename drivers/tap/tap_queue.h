// SPDX-License-Identifier: Apache-2.0
//
// One queue of a TAP: a descriptor, the buffers posted for the next frame, and the two system
// calls.
//
// A read fills, in this order:   | vnet header, head: 1,856 bytes | slab | slab | slab | slab |
// with the header in the head's headroom, so that a 64 KiB super-packet arrives in one call and an
// ordinary frame in the head alone. What a frame has filled goes up with it and is replaced before
// that; the rest stays posted.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "drivers/tap/tap_io.h"
#include "drivers/tap/tap_link.h"
#include "drivers/tap/vnet_hdr.h"
#include "netdev/base/counter.h"
#include "netdev/base/time.h"
#include "netdev/packet/packet.h"
#include "netdev/poll.h"

namespace tapwire::drivers {

class TapDevice;

// X(field, "ethtool -S name", "help")
#define TAPWIRE_TAP_STATS(X)                                                               \
  X(rx_reads, "rx_reads", "read calls that returned a frame")                              \
  X(rx_gso_frames, "rx_gso_frames", "Super-packets received")                              \
  X(rx_no_buffer, "rx_no_buffer", "Frames read and dropped for want of fresh buffers")     \
  X(tx_writes, "tx_writes", "write calls that succeeded")                                  \
  X(tx_gso_frames, "tx_gso_frames", "Super-packets written whole")                         \
  X(tx_gso_refused, "tx_gso_refused", "Super-packets the kernel refused; sent segmented")  \
  X(tx_csum_refused, "tx_csum_refused", "Partial checksums the kernel refused; completed") \
  X(probe_refused, "probe_refused", "Start-up probes the kernel refused")                  \
  X(link_lost, "link_lost", "Times the kernel's end was found down")
TAPWIRE_COUNTER_STRUCT(TapStats, TAPWIRE_TAP_STATS);

class TapQueue final : public netdev::PollContext {
 public:
  // `device` owns the queue.
  TapQueue(TapDevice& device, int fd, const TapLink& link, TapIo& io);

  int fd() const { return fd_; }

  // Takes the buffers for the first frame; false if the pool has none.
  [[nodiscard]] bool Post();
  // Gives the buffers back.
  void Unpost();

  int Poll(int budget) override;

  // Writes one frame with the header that its metadata asks for. Returns 0 or an errno. Uses the
  // packet's headroom, and leaves the packet as it was.
  int Write(Packet& packet);
  // Writes a frame that is not a packet.
  int WriteRaw(const VnetHdr& hdr, std::span<const uint8_t> frame);
  // Reads away what came while nobody was to receive it.
  void DiscardPending();

 private:
  static constexpr size_t kHeadBytes = kSmallSlabBytes - kDefaultHeadroom;
  static constexpr size_t kSlabs = 4;
  static constexpr size_t kVectors = 1 + kSlabs;
  static constexpr size_t kCapacity = kHeadBytes + kSlabs * kLargeSlabBytes;

  // Frames of a poll that comes so long after the one before may have waited; no round-trip time is
  // taken from them.
  static constexpr Duration kLateAfter = std::chrono::milliseconds(5);

  // What one poll may bring up before the stack has to take it: as much as stays in the cache of a
  // core until it is read again.
  static constexpr size_t kPollBytes = 256 * 1024;

  // After so many polls in a row that found one frame, as of a request and its answer, the read
  // that would find nothing more is made only at every so many polls.
  static constexpr uint32_t kLoneFrames = 16;
  static constexpr uint32_t kLookEvery = 4;

  // Buffers that replace those a frame has filled.
  struct Replacement {
    PacketPtr head;
    std::array<SlabRef, kSlabs> slabs;
  };

  ssize_t ReadFrame();
  bool Replace(size_t slabs, Replacement& fresh);
  PacketPtr TakeFrame(size_t length, Replacement fresh);
  void HandleFrame(size_t length);
  void PostHead(PacketPtr head);
  void PostSlab(size_t i, SlabRef slab);

  TapDevice& tap_;
  const int fd_;
  const size_t hdr_size_;
  const VnetOrder order_;
  TapIo& io_;
  Time last_poll_{};
  bool late_ = false;
  uint32_t lone_polls_ = 0;  // in a row

  std::array<iovec, kVectors> vectors_{};
  PacketPtr head_;
  std::array<SlabRef, kSlabs> slabs_;
};

}  // namespace tapwire::drivers
