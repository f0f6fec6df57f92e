// SPDX-License-Identifier: Apache-2.0
// Group frames of a macvlan port: who gets a copy of one, and when. Groups that many subscribe go
// through a bounded queue and a worker outside the receive context, so that a flood of broadcasts,
// which each macvlan multiplies, cannot hold up other traffic; the others are copied at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "netdev/macvlan_filter.h"
#include "netdev/net_context.h"
#include "netdev/packet/packet_list.h"
#include "netdev/wire/mac_address.h"

namespace tapwire::netdev {

class Macvlan;
class MacvlanPort;

class MacvlanMulticast final : private FlushHook {
 public:
  explicit MacvlanMulticast(MacvlanPort& port) : port_(port) {}
  ~MacvlanMulticast() override;

  // A group frame from the wire, data() at the Ethernet header. `sender` is the macvlan with its
  // source address, in VEPA or bridge mode (a switch reflected the frame), or null. The frame stays
  // the caller's.
  void Receive(const Packet& frame, const Macvlan* sender);
  // A group frame that a macvlan in bridge mode sends: copies to the others.
  void Transmit(const Packet& frame, const Macvlan& sender);

  // After a change of the lower device's groups, or of what upper devices subscribe.
  void RecomputeFilters();
  void SetCutoff(int32_t cutoff);
  int32_t cutoff() const { return cutoff_; }
  // Frames the queue takes; a smaller limit does not shorten it.
  void set_queue_limit(uint32_t packets) { queue_limit_ = packets; }
  uint32_t queue_limit() const { return queue_limit_; }
  size_t queue_length() const { return queue_.size(); }

  // Frees what waits and stops the worker.
  void Cancel();

 private:
  // Whom a frame goes to: a set of modes, and not to the sender.
  struct Audience {
    uint32_t modes;
    uint32_t except_ifindex;  // 0: nobody
  };
  enum class From : uint8_t { kWire, kMacvlan };

  static Audience AudienceOf(const Macvlan* sender);
  void Enqueue(const Packet& frame, Audience audience);
  void FanOut(const Packet& frame, Audience audience, From from);
  void Flush() override;
  void RecomputeQueueFilter();
  void Compute(MacvlanFilter& filter, uint32_t more_than) const;

  MacvlanPort& port_;
  MacvlanFilter port_filter_;   // a frame outside it has no taker
  MacvlanFilter queue_filter_;  // of these, what goes through the queue
  int32_t cutoff_ = 1;
  uint32_t queue_limit_ = 0;
  // Received frames, in order. While they wait their metadata says who gets them: rx_device is the
  // ifindex of the sender, which is never given out again, and tx_queue the modes.
  PacketList queue_;
};

}  // namespace tapwire::netdev
