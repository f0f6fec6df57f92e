// SPDX-License-Identifier: Apache-2.0
// Pipe: a pair of devices that joins two contexts running on two threads.
//
//   thread A                         shared                           thread B
//   StartXmit ──► [ring of packets] ─────────────► copy into B's pool ──► receive core
//             ◄── packets B has passed, freed by A on its own thread
//   (and the same the other way round; one eventfd wakes each end)
//
// A packet is moved through the ring as a pointer and never leaves its owner: the receiver copies
// it into its own pool, moves on, and the sender frees what has been passed. So neither end holds
// memory of the other, and either may go down, be removed or be destroyed at any time, also while
// the other thread is stopped for good.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "netdev/device.h"
#include "netdev/net_context.h"

namespace tapwire::netdev {

namespace internal {
struct PipeState;
}

struct PipeOptions {
  // Per direction: frames (rounded up to a power of two) and bytes that may be on the way. A sender
  // that reaches either waits with its queue stopped.
  size_t ring_packets = 256;
  size_t ring_bytes = size_t{4} << 20;
};

// One end that no context has yet. May be moved to the thread that is to own it. Dropping it leaves
// the other end without carrier.
class PipeEnd {
 public:
  PipeEnd(PipeEnd&&) = default;
  PipeEnd& operator=(PipeEnd&&) = default;

 private:
  friend class PipeDevice;
  friend absl::StatusOr<std::pair<PipeEnd, PipeEnd>> CreatePipe(const PipeOptions& options);
  PipeEnd(std::shared_ptr<internal::PipeState> state, int index)
      : state_(std::move(state)), index_(index) {}

  std::shared_ptr<internal::PipeState> state_;
  int index_;
};

// Fails if the system has no file descriptors left.
absl::StatusOr<std::pair<PipeEnd, PipeEnd>> CreatePipe(const PipeOptions& options);

struct PipeDeviceOptions {
  std::string name = "pipe0";
  MacAddress mac = {};  // zero: random
  uint32_t mtu = 1500;
  // false: claims no offloads; frames are segmented and checksummed before they enter the pipe.
  bool offloads = true;
};

// Creates the device of one end and registers it with `context`, on whose thread this must be
// called. It has carrier while both ends are up.
absl::StatusOr<NetDevice*> AttachPipe(NetContext& context, PipeEnd end,
                                      const PipeDeviceOptions& options);

}  // namespace tapwire::netdev
