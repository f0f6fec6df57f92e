// SPDX-License-Identifier: Apache-2.0
// Feeds every frame of a device to a capture checker.
#pragma once

#include "apps/capture/checker.h"
#include "netdev/capture_tap.h"
#include "netdev/device.h"

namespace tapwire::testutil {

class CheckerTap final : public netdev::PacketTap {
 public:
  // Hangs itself on `device`. `checker` must outlive it.
  CheckerTap(capture::CaptureChecker& checker, netdev::NetDevice& device);

  void OnFrame(const Packet& packet, const netdev::NetDevice& device,
               netdev::TapDirection direction, netdev::TxResult result) override;

 private:
  capture::CaptureChecker& checker_;
  netdev::WireFrame wire_frame_;  // reused
};

}  // namespace tapwire::testutil
