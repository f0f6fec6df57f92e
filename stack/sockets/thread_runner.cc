// SPDX-License-Identifier: Apache-2.0
#include "stack/sockets/thread_runner.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "netdev/base/log.h"
#include "netdev/base/status_util.h"
#include "netdev/poll.h"

namespace tapwire {
namespace {

bool Same(const netdev::PollFd& a, const netdev::PollFd& b) {
  return a.fd == b.fd && a.poll == b.poll;
}

template <typename List, typename Item>
auto FindSame(List& list, const Item& wanted) {
  return std::find_if(list.begin(), list.end(),
                      [&wanted](const netdev::PollFd& other) { return Same(other, wanted); });
}

uint32_t EventsOf(const netdev::PollFd& fd) { return EPOLLIN | (fd.want_write ? EPOLLOUT : 0U); }

}  // namespace

absl::StatusOr<std::unique_ptr<ThreadRunner>> ThreadRunner::Create(netdev::NetContext* context) {
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd < 0) {
    return ErrnoStatus(errno, "epoll_create1");
  }
  const int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd < 0) {
    const int err = errno;
    close(epoll_fd);
    return ErrnoStatus(err, "eventfd");
  }
  std::unique_ptr<ThreadRunner> runner(new ThreadRunner(context, epoll_fd, wake_fd));
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = wake_fd;
  if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &event) != 0) {
    return ErrnoStatus(errno, "epoll_ctl");
  }
  return runner;
}

ThreadRunner::ThreadRunner(netdev::NetContext* context, int epoll_fd, int wake_fd)
    : context_(context), epoll_fd_(epoll_fd), wake_fd_(wake_fd) {
  context_->SetWakeup([wake_fd] { (void)eventfd_write(wake_fd, 1); });
  context_->SetPollFdsListener([this] { DropVanished(); });
}

ThreadRunner::~ThreadRunner() {
  context_->SetWakeup(nullptr);
  context_->SetPollFdsListener(nullptr);
  close(epoll_fd_);
  close(wake_fd_);
}

void ThreadRunner::Stop() {
  stop_.store(true);
  (void)eventfd_write(wake_fd_, 1);
}

void ThreadRunner::Run() {
  while (Batch()) {
    Wait(NextBatch());
  }
}

bool ThreadRunner::RunUntil(absl::FunctionRef<bool()> done, Duration limit) {
  const Time end = context_->RefreshNow() + limit;
  while (Batch()) {
    if (done()) {
      return true;
    }
    if (context_->RefreshNow() >= end) {
      return false;
    }
    Wait(std::min(end, NextBatch().value_or(end)));
  }
  return done();
}

// False after Stop().
bool ThreadRunner::Batch() {
  more_ = context_->RunOnce();
  Sync();
  return !stop_.exchange(false);
}

std::optional<Time> ThreadRunner::NextBatch() const {
  return more_ || context_->has_pending_work() ? context_->now() : context_->next_deadline();
}

// True if there is something to do: a descriptor was ready, or `until` has come.
bool ThreadRunner::BusyPoll(std::optional<Time> until) {
  const Time start = context_->RefreshNow();
  // Not start + budget, which could overflow.
  while (context_->now() - start < busy_poll_) {
    stats_.busy_polls.Inc();
    constexpr timespec kNow = {};
    if (WaitForEvents(&kNow) > 0) {
      stats_.busy_poll_hits.Inc();
      return true;
    }
    if (until.has_value() && context_->now() >= *until) {
      return true;
    }
    context_->RefreshNow();
  }
  return false;
}

void ThreadRunner::Wait(std::optional<Time> until) {
  if (busy_poll_ > Duration::zero() && BusyPoll(until)) {
    return;
  }
  timespec timeout = {};
  bool blocks = true;
  if (until.has_value()) {
    const Duration left = std::max(*until - context_->RefreshNow(), Duration::zero());
    blocks = left > Duration::zero();
    timeout.tv_sec = static_cast<time_t>(left / std::chrono::seconds(1));
    timeout.tv_nsec = static_cast<long>((left % std::chrono::seconds(1)).count());
  }
  const int ready = WaitForEvents(until.has_value() ? &timeout : nullptr);
  if (blocks) {
    stats_.wakeups.Inc();
    if (ready <= 0 && (!until.has_value() || context_->RefreshNow() < *until)) {
      stats_.spurious_wakeups.Inc();
    }
  }
}

// Schedules what is ready; how many descriptors that were, or what epoll_pwait2 returned instead.
int ThreadRunner::WaitForEvents(const timespec* timeout) {
  std::array<epoll_event, 16> events;
  const int ready =
      epoll_pwait2(epoll_fd_, events.data(), static_cast<int>(events.size()), timeout, nullptr);
  for (int i = 0; i < ready; ++i) {
    Dispatch(events[static_cast<size_t>(i)]);
  }
  return ready;
}

void ThreadRunner::Dispatch(const epoll_event& event) {
  if (event.data.fd == wake_fd_) {
    eventfd_t ignored;
    (void)eventfd_read(wake_fd_, &ignored);
    return;
  }
  for (Watch& watch : watches_) {
    if (watch.poll_fd.fd != event.data.fd) {
      continue;
    }
    watch.poll_fd.poll->Schedule();
    // An error stays: watching on would be a busy loop. The device finds out when it reads.
    if ((event.events & (EPOLLERR | EPOLLHUP)) != 0 && !std::exchange(watch.broken, true)) {
      (void)epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, watch.poll_fd.fd, nullptr);
    }
  }
}

void ThreadRunner::Unwatch(const Watch& watch) {
  if (!watch.broken) {
    (void)epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, watch.poll_fd.fd, nullptr);
  }
}

// Runs while a device changes its descriptors, before it can close one.
void ThreadRunner::DropVanished() {
  if (watches_.empty()) {
    return;
  }
  const std::vector<netdev::PollFd> wanted = context_->CollectPollFds();
  const auto keep = std::partition(watches_.begin(), watches_.end(), [&wanted](const Watch& watch) {
    return FindSame(wanted, watch.poll_fd) != wanted.end();
  });
  std::for_each(keep, watches_.end(), [this](const Watch& watch) { Unwatch(watch); });
  watches_.erase(keep, watches_.end());
}

void ThreadRunner::Sync() {
  if (seen_generation_ == context_->poll_fds_generation()) {
    return;
  }
  seen_generation_ = context_->poll_fds_generation();
  DropVanished();
  for (const netdev::PollFd& fd : context_->CollectPollFds()) {
    const auto known = std::find_if(watches_.begin(), watches_.end(),
                                    [&fd](const Watch& watch) { return Same(watch.poll_fd, fd); });
    const bool is_new = known == watches_.end() || known->broken;
    if (!is_new && known->events == EventsOf(fd)) {
      continue;
    }
    epoll_event event = {};
    event.events = EventsOf(fd);
    event.data.fd = fd.fd;
    if (epoll_ctl(epoll_fd_, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd.fd, &event) != 0) {
      TW_LOG(kError) << "epoll_ctl on descriptor " << fd.fd << " failed: it is not watched";
      continue;
    }
    if (known == watches_.end()) {
      watches_.push_back({.poll_fd = fd, .events = event.events, .broken = false});
    } else {
      *known = {.poll_fd = fd, .events = event.events, .broken = false};
    }
  }
}

}  // namespace tapwire
