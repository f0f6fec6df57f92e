// SPDX-License-Identifier: Apache-2.0
// The batch: order of work, budgets, and what wakes the host's loop.
//
// One round: posted work, poll contexts, backlog, timers, deferred user events, flush. The flush
// comes after the user events so that an application's reply can carry the acknowledgement of the
// request. Rounds repeat while the last one left work that is not waiting for the outside, so that
// a request and its answer over an in-process link need one batch.
//
// Every list is taken over as a whole before it is worked on: what callbacks add goes to the next
// round, and elements that are destroyed meanwhile unlink themselves from wherever they are.
//
// Wake-ups: Post() calls the host only if the batch that is running, if any, might not see the new
// work. Two flags make that safe without holding the mutex during a batch: the poster sets
// posted_pending_, then reads awake_; the end of the batch clears awake_, then reads
// posted_pending_. With sequentially consistent order at least one of the two sees the other.
#include "netdev/net_context.h"

#include <algorithm>
#include <utility>

#include "netdev/device.h"
#include "netdev/poll.h"
#include "netdev/registry.h"
#include "netdev/rx_path.h"

namespace tapwire::netdev {
namespace {

// More would keep the host's loop from its other work.
constexpr int kMaxRounds = 64;
// A flush may schedule another (a stack's output its device's queue, an upper device
// its lower one). What is left after so many passes waits for the next round.
constexpr int kMaxFlushPasses = 8;
constexpr int kMaxDeferPasses = 4;

}  // namespace

NetContext::NetContext(Environment environment) : NetContext(environment, Options()) {}

NetContext::NetContext(Environment environment, Options options)
    : environment_(environment),
      options_(options),
      now_(environment.clock->Now()),
      pool_(options.pool),
      registry_(std::make_unique<Registry>(*this)) {
  options_.poll_budget_packets = std::max(options_.poll_budget_packets, 1);
}

NetContext::~NetContext() {
  // Work that nobody will run may hold packets and may refer to devices.
  deferred_.clear();
  {
    std::lock_guard<std::mutex> lock(post_mutex_);
    posted_.clear();
    wakeup_ = nullptr;
  }
  registry_->UnregisterAll();
}

Time NetContext::RefreshNow() {
  now_ = environment_.clock->Now();
  return now_;
}

void NetContext::Post(absl::AnyInvocable<void()> fn) {
  std::lock_guard<std::mutex> lock(post_mutex_);
  posted_.push_back(std::move(fn));
  const bool first = !posted_pending_.exchange(true);
  // While a batch runs its end looks at posted_pending_ once more after it has
  // cleared awake_, so either side sees the other's store.
  if (first && !awake_.load() && wakeup_ != nullptr) wakeup_();
}

void NetContext::SetWakeup(absl::AnyInvocable<void()> wakeup) {
  std::lock_guard<std::mutex> lock(post_mutex_);
  wakeup_ = std::move(wakeup);
}

void NetContext::Defer(absl::AnyInvocable<void()> fn) {
  if (deferred_.size() >= options_.deferred_limit) {
    stats_.deferred_dropped.Inc();
    return;
  }
  deferred_.push_back(std::move(fn));
}

void NetContext::ScheduleFlush(FlushHook& hook) {
  if (!hook.linked()) flush_list_.PushBack(hook);
}

bool NetContext::EnqueueBacklog(PacketPtr packet, NetDevice& device) {
  if (backlog_.size() >= options_.backlog_limit_packets) {
    stats_.backlog_dropped.Inc();
    device.DropRx(std::move(packet), DropReason::kLinkBacklogFull);
    return false;
  }
  packet->meta.rx_device = device.ifindex();
  packet->meta.rx_time = now_;
  backlog_.PushBack(std::move(packet));
  return true;
}

bool NetContext::RunOnce(int budget) {
  if (running_) return has_pending_work();
  running_ = true;
  awake_.store(true);
  RefreshNow();
  int rounds = 0;
  do {
    RunRound(budget);
  } while (has_round_work() && budget > 0 && ++rounds < kMaxRounds);
  registry_->DestroyUnregistered();
  running_ = false;
  awake_.store(false);
  return has_pending_work();
}

void NetContext::RunRound(int& budget) {
  stats_.rounds.Inc();
  RunPosted();
  budget -= PollDevices(budget);
  // Devices that always have something to read must not starve local traffic.
  budget -= DrainBacklog(std::max(budget, options_.poll_budget_packets));
  stats_.timers_fired.Inc(static_cast<uint64_t>(timers_.RunExpired(now_)));
  RunDeferred();
  RunFlush();
}

void NetContext::RunPosted() {
  if (!posted_pending_.load()) return;
  {
    std::lock_guard<std::mutex> lock(post_mutex_);
    posted_pending_.store(false);
    running_work_.swap(posted_);
  }
  stats_.posted.Inc(running_work_.size());
  RunWork();
}

void NetContext::RunDeferred() {
  // A callback's own events, as of a socket that it has just accepted, belong before the flush too;
  // but one that defers itself must not keep the batch from ending.
  for (int pass = 0; pass < kMaxDeferPasses && !deferred_.empty(); ++pass) {
    running_work_.swap(deferred_);
    RunWork();
  }
}

void NetContext::RunWork() {
  for (absl::AnyInvocable<void()>& fn : running_work_) fn();
  running_work_.clear();
}

int NetContext::PollDevices(int budget) {
  int used = 0;
  IntrusiveList<PollContext, PollContext> turn;
  turn.Splice(poll_list_);
  while (used < budget) {
    PollContext* poll = turn.PopFront();
    if (poll == nullptr) break;
    const int share = std::min(options_.poll_budget_packets, budget - used);
    stats_.polls.Inc();
    const int taken = poll->Poll(share);
    used += taken;
    poll->FlushGro();
    // Before its packets are received: that may destroy it.
    if (taken >= share) poll->Schedule();
    RxPath::ReceiveList(*this, std::move(rx_batch_));
  }
  // Those that had no turn come first next time.
  turn.Splice(poll_list_);
  poll_list_.Splice(turn);
  return used;
}

int NetContext::DrainBacklog(int budget) {
  PacketList batch;
  if (backlog_.size() <= static_cast<size_t>(budget)) {
    batch = std::move(backlog_);
  } else {
    for (int i = 0; i < budget; ++i) batch.PushBack(backlog_.PopFront());
  }
  const int count = static_cast<int>(batch.size());
  RxPath::ReceiveList(*this, std::move(batch));
  return count;
}

void NetContext::RunFlush() {
  for (int pass = 0; pass < kMaxFlushPasses && !flush_list_.empty(); ++pass) {
    IntrusiveList<FlushHook, FlushHook> turn;
    turn.Splice(flush_list_);
    while (FlushHook* hook = turn.PopFront()) hook->Flush();
  }
}

bool NetContext::has_round_work() const {
  return !poll_list_.empty() || !backlog_.empty() || !deferred_.empty() || !flush_list_.empty();
}

bool NetContext::has_pending_work() const {
  return has_round_work() || posted_pending_.load() || registry_->has_unregistered();
}

std::optional<Time> NetContext::next_deadline() const {
  if (has_pending_work()) return now_;
  return timers_.next_deadline();
}

std::vector<PollFd> NetContext::CollectPollFds() const {
  std::vector<PollFd> all;
  for (const NetDevice* device : registry_->devices()) {
    if (!device->is_up()) continue;
    const std::vector<PollFd> fds = device->poll_fds();
    all.insert(all.end(), fds.begin(), fds.end());
  }
  return all;
}

}  // namespace tapwire::netdev
