// SPDX-License-Identifier: Apache-2.0
// Packets wait here as they were given to Transmit(); they are prepared for the driver one ahead of
// being sent. What was prepared when the driver stopped the queue goes back to its front and is
// prepared again later, which changes nothing on a frame that is ready.
#include "netdev/tx_queue.h"

#include <utility>

#include "netdev/device.h"
#include "netdev/tx_path.h"

namespace tapwire::netdev {

bool TxQueue::Enqueue(PacketPtr& packet) {
  if (fifo_.size() >= kLimitPackets) return false;
  fifo_.PushBack(std::move(packet));
  ScheduleIfReady();
  return true;
}

void TxQueue::Stop() {
  stopped_ = true;
  Unlink();
}

void TxQueue::Wake() {
  stopped_ = false;
  ScheduleIfReady();
}

void TxQueue::ScheduleIfReady() {
  if (!stopped_ && !fifo_.empty()) device_.context().ScheduleFlush(*this);
}

void TxQueue::Purge(DropReason reason) {
  while (PacketPtr packet = fifo_.PopFront()) {
    device_.DropTx(std::move(packet), reason);
  }
}

void TxQueue::PurgeUnfit() {
  PacketList waiting = std::move(fifo_);
  while (PacketPtr packet = waiting.PopFront()) {
    const DropReason reason = TxPath::CheckMetadata(*packet, device_);
    if (reason == DropReason::kNone) {
      fifo_.PushBack(std::move(packet));
    } else {
      device_.DropTx(std::move(packet), reason);
    }
  }
}

void TxQueue::Flush() {
  PacketList ready;  // frames for the driver; a super-packet may become many
  while (!stopped_ && device_.is_running()) {
    // One frame more than is being sent, so that the last one is known as such.
    while (ready.size() < 2 && !fifo_.empty()) {
      TxPath::Prepare(fifo_.PopFront(), device_, ready);
    }
    PacketPtr frame = ready.PopFront();
    if (frame == nullptr) return;
    TxPath::Send(std::move(frame), device_, /*more=*/!ready.empty());
  }
  if (!device_.is_running()) {
    TxPath::DropAll(std::move(ready), device_);
    return;
  }
  // Stopped: what is ready goes first when the driver has room again.
  ready.Splice(std::move(fifo_));
  fifo_ = std::move(ready);
}

}  // namespace tapwire::netdev
