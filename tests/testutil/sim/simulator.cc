// SPDX-License-Identifier: Apache-2.0
#include "tests/testutil/sim/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "netdev/base/check.h"
#include "netdev/registry.h"

namespace tapwire::testutil {
namespace {

// Frames that answer each other without time passing would hang the test instead of failing it.
constexpr int kMaxBatchesAtOneTime = 1'000'000;

capture::CheckerOptions CheckerOptionsOf(const Simulator::Options& options) {
  capture::CheckerOptions result;
  // What was sent has been judged; a link may have doubled it since.
  result.judge_received = false;
  result.ignored = options.ignored_rules;
  return result;
}

}  // namespace

SimHost::SimHost(std::string name, Simulator& simulator, uint64_t seed,
                 const netdev::NetContext::Options& options)
    : name_(std::move(name)),
      random_(seed),
      context_(std::make_unique<netdev::NetContext>(simulator.EnvironmentOf(*this), options)) {}

Simulator::Simulator(const Options& options)
    : options_(options), random_(options.seed), checker_(CheckerOptionsOf(options)) {
  auto sink = std::make_unique<netdev::MemorySink>();
  sink_ = sink.get();
  writer_ =
      std::make_unique<netdev::PcapngWriter>(std::move(sink), netdev::PcapngWriter::Options());
  capture_tap_ = std::make_unique<netdev::CaptureTap>(*writer_, netdev::CaptureTap::Options());
}

Simulator::~Simulator() {
  EXPECT_TRUE(check_report().clean()) << check_report().ToString(capture::Severity::kWarning);
  for (const auto& host : hosts_) {
    if (allow_timers_) break;
    EXPECT_EQ(host->context().timers().armed_count(), 0u) << "timers are armed on " << host->name();
  }
  events_.clear();  // frames on the way
  for (const auto& host : hosts_) {
    for (netdev::NetDevice* device : host->context().registry().devices()) device->Down();
    while (host->context().has_pending_work()) host->context().RunOnce();
    if (allow_packets_) continue;
    const SlabPoolStats& stats = host->context().pool().stats();
    EXPECT_EQ(stats.packets_in_use + stats.slabs_in_use(), 0u)
        << stats.packets_in_use << " packets and " << stats.slabs_in_use()
        << " slabs are in use on " << host->name();
  }
  capture_tap_.reset();
  checker_taps_.clear();
}

SimHost& Simulator::AddHost(absl::string_view name) {
  hosts_.push_back(std::unique_ptr<SimHost>(
      new SimHost(std::string(name), *this, random_.Next64(), options_.context)));
  return *hosts_.back();
}

Simulator::Ends Simulator::AddLink(SimHost& a, SimHost& b, const LinkOptions& options) {
  const auto add = [&](SimHost& host) {
    const std::string name = host.context().registry().FreeName(absl::StrCat(host.name(), "-"));
    auto added = host.context().registry().Register(
        std::make_unique<SimDevice>(host.context(), name, options));
    TW_CHECK(added.ok(), added.status().ToString().c_str());
    return *added;
  };
  const Ends ends{.a = add(a), .b = add(b)};
  links_.push_back(std::make_unique<Link>(
      *ends.a, *ends.b, options, random_.Next64(),
      [this](Time time, std::function<void()> event) { At(time, std::move(event)); }));
  for (SimDevice* device : {ends.a, ends.b}) {
    Watch(*device);
    const absl::Status up = device->Up();
    TW_CHECK(up.ok(), up.ToString().c_str());
  }
  return ends;
}

void Simulator::Watch(netdev::NetDevice& device) {
  checker_taps_.push_back(std::make_unique<CheckerTap>(checker_, device));
  if (options_.capture) capture_tap_->Attach(device);
}

void Simulator::At(Time time, std::function<void()> event) {
  events_.emplace(std::max(time, now()), std::move(event));
}

// Hosts take turns in the order of their creation until none has work at this time.
void Simulator::RunDue() {
  int batches = 0;
  for (bool busy = true; busy;) {
    busy = false;
    while (!events_.empty() && events_.begin()->first <= now()) {
      const std::function<void()> event = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      event();
    }
    for (const auto& host : hosts_) {
      const std::optional<Time> next = host->context().next_deadline();
      if (!next.has_value() || *next > now()) continue;
      TW_CHECK(++batches < kMaxBatchesAtOneTime, "work without end at one point in time");
      host->context().RunOnce();
      busy = true;
    }
    busy = busy || (!events_.empty() && events_.begin()->first <= now());
  }
}

std::optional<Time> Simulator::NextEvent() const {
  std::optional<Time> next;
  if (!events_.empty()) next = events_.begin()->first;
  for (const auto& host : hosts_) {
    const std::optional<Time> deadline = host->context().next_deadline();
    if (deadline.has_value() && (!next.has_value() || *deadline < *next)) next = deadline;
  }
  return next;
}

void Simulator::RunUntil(Time end) {
  RunUntilTrue([] { return false; }, end - now());
}

bool Simulator::RunUntilTrue(const std::function<bool()>& done, Duration limit) {
  const Time end = now() + limit;
  RunDue();
  while (!done()) {
    const std::optional<Time> next = NextEvent();
    if (!next.has_value() || *next > end) {
      clock_.Set(end);
      RunDue();
      return done();
    }
    clock_.Set(std::max(*next, now()));
    RunDue();
  }
  return true;
}

bool Simulator::RunUntilIdle(Duration limit) {
  const Time end = now() + limit;
  RunDue();
  for (std::optional<Time> next = NextEvent(); next.has_value(); next = NextEvent()) {
    if (*next > end) return false;
    clock_.Set(std::max(*next, now()));
    RunDue();
  }
  return true;
}

const std::vector<uint8_t>& Simulator::capture() { return sink_->bytes(); }

}  // namespace tapwire::testutil
