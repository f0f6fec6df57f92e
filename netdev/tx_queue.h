// SPDX-License-Identifier: Apache-2.0
// The first-in-first-out transmit queue of a device: frames collect during a batch
// and go to the driver at its end, until the driver stops the queue.
#pragma once

#include <cstddef>

#include "netdev/base/drop_reason.h"
#include "netdev/net_context.h"
#include "netdev/packet/packet_list.h"

namespace tapwire::netdev {

class NetDevice;

class TxQueue final : public FlushHook {
 public:
  static constexpr size_t kLimitPackets = 1000;  // as Linux's txqueuelen

  explicit TxQueue(NetDevice& device) : device_(device) {}

  // Takes the packet and schedules the flush. False if the queue is full; then the
  // packet stays with the caller.
  [[nodiscard]] bool Enqueue(PacketPtr& packet);

  // Until Wake() nothing is given to the driver. A driver that stops the queue inside
  // StartXmit() must ring its doorbell itself.
  void Stop();
  void Wake();
  bool stopped() const { return stopped_; }

  // Drops and counts all waiting frames.
  void Purge(DropReason reason);
  // Drops and counts the waiting frames that do not fit the device any more.
  void PurgeUnfit();

  size_t size() const { return fifo_.size(); }

  void Flush() override;

 private:
  void ScheduleIfReady();

  NetDevice& device_;
  PacketList fifo_;
  bool stopped_ = false;
};

}  // namespace tapwire::netdev
