// SPDX-License-Identifier: Apache-2.0
// NetHarness: what every unit test of the stack needs: virtual time, seeded randomness, a context
// and one TestDevice. Knows nothing of stack/: a test adds its Stack or protocol object itself.
//
//   NetHarness net;
//   net.Inject(Frame().Eth(kPeerMac, net.device().mac()).Arp({…}).Build());
//   net.Run();
//   EXPECT_THAT(net.TakeSent(), ElementsAre(IsArp(…)));
//
// Every frame that is sent goes through the capture checker; the destructor fails the test if it
// found something, if packets leaked or if a timer is still armed, each unless declared.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "apps/capture/checker.h"
#include "netdev/base/seeded_random.h"
#include "netdev/net_context.h"
#include "tests/testutil/checker_tap.h"
#include "tests/testutil/fake_clock.h"
#include "tests/testutil/test_device.h"

namespace tapwire::testutil {

class NetHarness {
 public:
  struct Options {
    TestDevice::Options device = {};
    netdev::NetContext::Options context = {};
    uint64_t seed = 1;
    bool up = true;  // the device is up from the start
    // Rules of the capture checker that this test breaks on purpose.
    std::set<capture::Rule> ignored_rules = {};
  };

  NetHarness() : NetHarness(Options()) {}
  explicit NetHarness(Options options);
  ~NetHarness();
  NetHarness(const NetHarness&) = delete;
  NetHarness& operator=(const NetHarness&) = delete;

  netdev::NetContext& context() { return *context_; }
  TestDevice& device() { return *device_; }
  FakeClock& clock() { return clock_; }
  SeededRandom& random() { return random_; }
  Time now() { return clock_.Now(); }
  // Another device on the same context; up if Options::up says so.
  TestDevice& AddDevice(TestDevice::Options options);

  // Receives one frame on the first device and runs until nothing is left to do at this time.
  void Inject(std::span<const uint8_t> frame) { InjectOn(*device_, frame); }
  void InjectOn(TestDevice& device, std::span<const uint8_t> frame);
  // Runs batches until no work is left, without moving time.
  void Run();
  // Moves time by `by`, stopping at each deadline on the way to run it.
  void Advance(Duration by);

  // Frames the first device sent since the last call: bytes as on the wire, or with metadata.
  std::vector<std::vector<uint8_t>> TakeSent();
  std::vector<SentFrame> TakeSentFrames() { return device_->TakeSent(); }
  // The same without taking them.
  std::vector<std::vector<uint8_t>> Sent() const;

  // What the destructor checks, for a test that wants it earlier (before its stack is destroyed).
  void ExpectNoArmedTimers();
  void ExpectNoLeaks();
  void ExpectSoundFrames();
  // Declarations for the checks of the destructor.
  void AllowArmedTimers() { allow_timers_ = true; }
  void AllowLeaks() { allow_leaks_ = true; }
  const capture::CheckReport& check_report() const { return checker_.report(); }

 private:
  FakeClock clock_;
  SeededRandom random_;
  capture::CaptureChecker checker_;
  std::unique_ptr<netdev::NetContext> context_;
  TestDevice* device_ = nullptr;
  bool up_ = true;
  std::vector<std::unique_ptr<CheckerTap>> taps_;
  bool allow_timers_ = false;
  bool allow_leaks_ = false;
};

}  // namespace tapwire::testutil
