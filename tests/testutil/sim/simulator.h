// SPDX-License-Identifier: Apache-2.0
// Event simulator: contexts ("hosts"), links between their devices, one virtual clock.
//
//   Simulator sim({.seed = 1});
//   SimHost& a = sim.AddHost("a");
//   SimHost& b = sim.AddHost("b");
//   auto [da, db] = sim.AddLink(a, b, {.rate_bits_per_s = 10'000'000, .delay = 5ms, .loss = 0.01});
//   … put stacks on a.context() and b.context() …
//   sim.RunFor(10s);
//
// Time jumps from event to event (a frame arrives, a timer is due). Same seed and same program give
// the same frames at the same times: capture() of two runs is equal byte for byte.
//
// Every frame that a device sends goes through the capture checker before the link does anything to
// it. The destructor fails the test if the checker found something, if packets are left in a pool
// or if timers are armed; a test declares what it means to leave.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "apps/capture/checker.h"
#include "netdev/base/seeded_random.h"
#include "netdev/capture_tap.h"
#include "netdev/net_context.h"
#include "netdev/pcapng_writer.h"
#include "tests/testutil/checker_tap.h"
#include "tests/testutil/fake_clock.h"
#include "tests/testutil/sim/link.h"

namespace tapwire::testutil {

class Simulator;

// A context with a name. Stacks are the test's: make them on context() and destroy them before the
// simulator.
class SimHost {
 public:
  const std::string& name() const { return name_; }
  netdev::NetContext& context() { return *context_; }

 private:
  friend class Simulator;
  SimHost(std::string name, Simulator& simulator, uint64_t seed,
          const netdev::NetContext::Options& options);

  std::string name_;
  SeededRandom random_;
  std::unique_ptr<netdev::NetContext> context_;
};

class Simulator {
 public:
  struct Options {
    uint64_t seed = 1;
    netdev::NetContext::Options context = {};
    // Rules of the capture checker that this test breaks on purpose.
    std::set<capture::Rule> ignored_rules = {};
    bool capture = true;  // keep a pcapng of all sent frames in memory
  };

  Simulator() : Simulator(Options()) {}
  explicit Simulator(const Options& options);
  ~Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  // A host with a context of its own. Several stacks may share it, as on one thread.
  SimHost& AddHost(absl::string_view name);

  // Joins two hosts (or one with itself): one device in each, both up. Devices are named
  // "<host>-<n>".
  struct Ends {
    SimDevice* a;
    SimDevice* b;
  };
  Ends AddLink(SimHost& a, SimHost& b, const LinkOptions& options = {});
  // More devices to check and capture, such as veth ends the test made itself.
  void Watch(netdev::NetDevice& device);

  Time now() { return clock_.Now(); }
  SeededRandom& random() { return random_; }

  // Runs everything due at the present time, then jumps from event to event until the end.
  void RunFor(Duration duration) { RunUntil(now() + duration); }
  void RunUntil(Time end);
  // Stops as soon as `done`, looked at after every event, is true. Returns whether it was within
  // `limit`.
  bool RunUntilTrue(const std::function<bool()>& done, Duration limit);
  // Until no event is left (no frame on the way, no timer armed), at most `limit`.
  bool RunUntilIdle(Duration limit);

  // For links and tests: `event` runs at `time`, after earlier ones, in the order of the calls
  // among equals.
  void At(Time time, std::function<void()> event);

  const capture::CheckReport& check_report() const { return checker_.report(); }
  // The pcapng of all frames so far, with times from the zero point of the clock.
  const std::vector<uint8_t>& capture();

  // Declarations for the checks of the destructor.
  void AllowArmedTimers() { allow_timers_ = true; }
  void AllowPacketsInUse() { allow_packets_ = true; }

 private:
  friend class SimHost;

  Environment EnvironmentOf(SimHost& host) { return {.clock = &clock_, .random = &host.random_}; }
  void RunDue();
  std::optional<Time> NextEvent() const;

  Options options_;
  FakeClock clock_;
  SeededRandom random_;
  capture::CaptureChecker checker_;
  std::vector<std::unique_ptr<SimHost>> hosts_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<CheckerTap>> checker_taps_;
  netdev::MemorySink* sink_ = nullptr;  // owned by writer_
  std::unique_ptr<netdev::PcapngWriter> writer_;
  std::unique_ptr<netdev::CaptureTap> capture_tap_;
  std::multimap<Time, std::function<void()>> events_;  // equal keys stay in order of insertion
  bool allow_timers_ = false;
  bool allow_packets_ = false;
};

}  // namespace tapwire::testutil
