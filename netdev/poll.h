// SPDX-License-Identifier: Apache-2.0
// Poll contexts: the NAPI-like source of received packets. A driver derives one per receive queue;
// NetContext calls Poll() with a budget until the context reports that it is drained.
#pragma once

#include <memory>

#include "netdev/base/intrusive_list.h"
#include "netdev/packet/packet.h"

namespace tapwire::netdev {

class Gro;
class NetContext;
class NetDevice;

// A source of received packets. Lives on the thread of its NetContext; must outlive its schedule
// (the destructor takes it off the list).
class PollContext : public ListHook<PollContext> {
 public:
  // `device` is what delivered packets are accounted to; it owns or outlives this object.
  PollContext(NetContext& context, NetDevice& device);
  virtual ~PollContext();
  PollContext(const PollContext&) = delete;
  PollContext& operator=(const PollContext&) = delete;

  // Takes up to `budget` (> 0) packets from the queue and hands each to Deliver(). Returns how many
  // were taken, damaged ones included; fewer than `budget` means that the queue is empty, or that a
  // descriptor of poll_fds() tells of what is left; the context is taken off the poll list, unless
  // Poll() itself called Schedule().
  virtual int Poll(int budget) = 0;

  // Puts the context on the poll list (idempotent). Owner thread only.
  void Schedule();
  bool scheduled() const { return linked(); }

  // For its statistics; null until the device's settings asked for merging.
  const Gro* gro() const { return gro_.get(); }

 protected:
  // Hands one received frame (data at the Ethernet header) to the stack side. `rx_time` must be
  // set. It goes up after Poll(), perhaps merged with others (netdev/gro.h), or as it is.
  void Deliver(PacketPtr packet);

  NetContext& context() const { return context_; }
  NetDevice& device() const { return device_; }

 private:
  friend class NetContext;
  void DeliverToGro(PacketPtr packet);
  // The end of a round: nothing stays held.
  void FlushGro();

  NetContext& context_;
  NetDevice& device_;
  std::unique_ptr<Gro> gro_;
};

}  // namespace tapwire::netdev
