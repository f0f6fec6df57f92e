// SPDX-License-Identifier: Apache-2.0
#include "tests/testutil/stack_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "netdev/base/check.h"
#include "netdev/registry.h"

namespace tapwire::testutil {
namespace {

// A frame in answer to a frame, for ever, would hang the test instead of failing it.
constexpr int kMaxBatchesAtOneTime = 100'000;

capture::CheckerOptions CheckerOptionsOf(const NetHarness::Options& options) {
  capture::CheckerOptions result;
  result.judge_received = false;  // tests receive broken frames on purpose
  result.ignored = options.ignored_rules;
  return result;
}

}  // namespace

NetHarness::NetHarness(Options options)
    : random_(options.seed),
      checker_(CheckerOptionsOf(options)),
      context_(std::make_unique<netdev::NetContext>(
          Environment{.clock = &clock_, .random = &random_}, options.context)) {
  up_ = options.up;
  device_ = &AddDevice(std::move(options.device));
}

NetHarness::~NetHarness() {
  ExpectSoundFrames();
  if (!allow_timers_) ExpectNoArmedTimers();
  for (netdev::NetDevice* device : context_->registry().devices()) device->Down();
  Run();
  if (!allow_leaks_) ExpectNoLeaks();
  taps_.clear();
}

void NetHarness::ExpectSoundFrames() {
  EXPECT_TRUE(check_report().clean()) << check_report().ToString(capture::Severity::kWarning);
}

void NetHarness::ExpectNoArmedTimers() {
  EXPECT_EQ(context_->timers().armed_count(), 0u) << "timers are armed";
}

void NetHarness::ExpectNoLeaks() {
  const SlabPoolStats& stats = context_->pool().stats();
  EXPECT_EQ(stats.packets_in_use + stats.slabs_in_use(), 0u)
      << stats.packets_in_use << " packets and " << stats.slabs_in_use() << " slabs are in use";
}

TestDevice& NetHarness::AddDevice(TestDevice::Options options) {
  absl::StatusOr<TestDevice*> added =
      context_->registry().Register(std::make_unique<TestDevice>(*context_, std::move(options)));
  TW_CHECK(added.ok(), added.status().ToString().c_str());
  TestDevice& device = **added;
  taps_.push_back(std::make_unique<CheckerTap>(checker_, device));
  if (up_) {
    const absl::Status status = device.Up();
    TW_CHECK(status.ok(), status.ToString().c_str());
  }
  return device;
}

void NetHarness::InjectOn(TestDevice& device, std::span<const uint8_t> frame) {
  device.Inject(frame);
  Run();
}

void NetHarness::Run() {
  int batches = 0;
  do {
    TW_CHECK(++batches < kMaxBatchesAtOneTime, "work without end at one point in time");
    context_->RunOnce();
  } while (context_->has_pending_work());
}

void NetHarness::Advance(Duration by) {
  const Time end = clock_.Now() + by;
  Run();
  for (;;) {
    const std::optional<Time> next = context_->next_deadline();
    if (!next.has_value() || *next > end) break;
    clock_.Set(std::max(*next, clock_.Now()));
    Run();
  }
  clock_.Set(end);
  Run();
}

std::vector<std::vector<uint8_t>> NetHarness::TakeSent() {
  std::vector<std::vector<uint8_t>> frames;
  for (SentFrame& frame : device_->TakeSent()) frames.push_back(std::move(frame.bytes));
  return frames;
}

std::vector<std::vector<uint8_t>> NetHarness::Sent() const {
  std::vector<std::vector<uint8_t>> frames;
  for (const SentFrame& frame : device_->sent()) frames.push_back(frame.bytes);
  return frames;
}

}  // namespace tapwire::testutil
