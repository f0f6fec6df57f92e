// SPDX-License-Identifier: Apache-2.0
// TestDevice: a device without a wire. What is sent through it is collected, frames are put into it
// by the test.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "netdev/device.h"
#include "netdev/features.h"
#include "netdev/poll.h"

namespace tapwire::testutil {

// A frame as it would be on the wire, with what the metadata said.
struct SentFrame {
  std::vector<uint8_t> bytes;               // the checksum is completed in this copy
  Time time;                                // when the device got it
  CsumState csum_state = CsumState::kNone;  // before completion
  GsoInfo gso;                              // type and size of a super-packet
};

class TestDevice final : public netdev::NetDevice {
 public:
  struct Options {
    std::string name = "test0";
    MacAddress mac{0x02, 0, 0, 0, 0, 0x01};
    uint32_t mtu = 1500;
    // None: software completes and segments everything before the device sees it. With
    // {kSg, kHwCsum, kTso, …} the device gets partial checksums and super-packets, as a TAP would.
    netdev::FeatureSet features = {};
  };

  TestDevice(netdev::NetContext& context, Options options);
  ~TestDevice() override;

  absl::string_view kind() const override { return "test"; }

  // Puts a frame (from the Ethernet header on) into the receive queue; the next RunOnce takes it.
  void Inject(std::span<const uint8_t> frame);
  // As a device that has done part of the work: `prepare` may set checksum state and GSO fields.
  void Inject(std::span<const uint8_t> frame, const std::function<void(Packet&)>& prepare);

  // Everything sent since the last call, oldest first.
  std::vector<SentFrame> TakeSent();
  const std::vector<SentFrame>& sent() const { return sent_; }

  // While set, StartXmit drops what it gets and answers this.
  void FailSends(netdev::TxResult result) { failure_ = result; }
  void StopFailing() { failure_ = netdev::TxResult::kSent; }

 protected:
  netdev::TxResult StartXmit(PacketPtr packet, bool more) override;
  void OnDown() override;

 private:
  class RxQueue;

  std::unique_ptr<RxQueue> rx_queue_;
  std::vector<SentFrame> sent_;
  netdev::TxResult failure_ = netdev::TxResult::kSent;
};

}  // namespace tapwire::testutil
