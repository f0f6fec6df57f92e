// SPDX-License-Identifier: Apache-2.0
#include "tests/testutil/checker_tap.h"

#include "netdev/net_context.h"

namespace tapwire::testutil {

CheckerTap::CheckerTap(capture::CaptureChecker& checker, netdev::NetDevice& device)
    : checker_(checker) {
  device.AddTap(*this);
}

void CheckerTap::OnFrame(const Packet& packet, const netdev::NetDevice& device,
                         netdev::TapDirection direction, netdev::TxResult result) {
  if (!netdev::TxOk(result)) return;
  // Not completed: a partial checksum must be right as such, too.
  netdev::CopyWireFrame(packet, /*complete=*/false, /*max_length=*/0, wire_frame_);
  capture::Frame frame;
  frame.time_ns = device.context().now().time_since_epoch().count();
  frame.interface = device.ifindex();
  frame.direction = direction == netdev::TapDirection::kTransmit ? capture::Direction::kTransmit
                                                                 : capture::Direction::kReceive;
  frame.loopback = device.is_loopback();
  frame.mtu = device.mtu();
  frame.gso_size = packet.meta.gso.size;
  if (wire_frame_.partial)
    frame.partial = {.start = wire_frame_.csum_start, .offset = wire_frame_.csum_offset};
  frame.bytes = wire_frame_.bytes;
  checker_.Check(frame);
}

}  // namespace tapwire::testutil
