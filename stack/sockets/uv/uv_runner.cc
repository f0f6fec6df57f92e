// SPDX-License-Identifier: Apache-2.0
#include "stack/sockets/uv/uv_runner.h"

#include <sys/timerfd.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/log.h"
#include "netdev/base/status_util.h"
#include "netdev/poll.h"

namespace tapwire {
namespace {

// uv_timer_t counts in milliseconds, which is too coarse for what is due sooner than this.
constexpr Duration kNear = std::chrono::milliseconds(2);
constexpr int64_t kNanosPerMilli = 1'000'000;

template <typename Handle>
uv_handle_t* AsHandle(Handle* handle) {
  return reinterpret_cast<uv_handle_t*>(handle);
}

int UvEventsOf(const netdev::PollFd& fd) { return UV_READABLE | (fd.want_write ? UV_WRITABLE : 0); }

absl::Status UvError(int err, absl::string_view what) {
  return ErrnoStatus(-err, absl::StrCat("libuv: ", what));
}

}  // namespace

// The handles that a runner always has. They outlive it until libuv has closed the last one.
struct UvRunner::Handles {
  uv_prepare_t prepare;
  uv_check_t check;
  uv_idle_t idle;
  uv_timer_t timer;
  uv_async_t async;
  uv_poll_t near_poll;
  uv_loop_t* loop;
  UvRunner* runner;  // null after detaching
  int near_fd = -1;  // timerfd
  int open = 0;

  static Handles* Of(void* handle) {
    return static_cast<Handles*>(static_cast<uv_handle_t*>(handle)->data);
  }

  // Counts a handle that was initialised, so that it will be closed. It does not keep the loop
  // alive.
  void Adopt(uv_handle_t* handle) {
    handle->data = this;
    uv_unref(handle);
    ++open;
  }

  void Close(uv_handle_t* handle) {
    uv_close(handle, [](uv_handle_t* closed) {
      Handles* handles = Of(closed);
      if (--handles->open == 0) {
        // A descriptor is closed only when its poll handle is.
        if (handles->near_fd >= 0) {
          close(handles->near_fd);
        }
        delete handles;
      }
    });
  }
};

// A watched descriptor of a device. The device owns the descriptor; polling stops before it is
// closed (NetContext::SetPollFdsListener), the handle's memory goes when libuv says so.
struct UvRunner::WatchedFd {
  uv_poll_t poll;
  netdev::PollFd fd;
  int events;
  UvRunner* runner;

  void Start() {
    uv_poll_start(&poll, events, [](uv_poll_t* handle, int status, int /*events*/) {
      auto* self = static_cast<WatchedFd*>(handle->data);
      self->runner->stats_.io_wakeups.Inc();
      // An error stops the handle (libuv has done so for most), or the loop would be busy with it.
      // The device finds out when it reads.
      if (status < 0) {
        uv_poll_stop(handle);
        self->events = 0;
      }
      self->fd.poll->Schedule();
    });
  }

  void Close() {
    uv_poll_stop(&poll);
    uv_close(AsHandle(&poll),
             [](uv_handle_t* closed) { delete static_cast<WatchedFd*>(closed->data); });
  }
};

absl::StatusOr<std::unique_ptr<UvRunner>> UvRunner::Attach(uv_loop_s* loop,
                                                           netdev::NetContext* context) {
  std::unique_ptr<UvRunner> runner(new UvRunner(context));
  auto handles = std::make_unique<Handles>();
  handles->loop = loop;
  handles->runner = runner.get();
  handles->near_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (handles->near_fd < 0) {
    return ErrnoStatus(errno, "timerfd_create");
  }
  // The last call that can fail comes first, so that there is nothing to close yet when it does.
  if (const int err = uv_poll_init(loop, &handles->near_poll, handles->near_fd); err != 0) {
    close(handles->near_fd);
    return UvError(err, "uv_poll_init");
  }
  handles->Adopt(AsHandle(&handles->near_poll));
  const int err = uv_async_init(loop, &handles->async, [](uv_async_t* handle) {
    if (UvRunner* const self = Handles::Of(handle)->runner) self->stats_.post_wakeups.Inc();
  });
  if (err != 0) {
    Handles* const failed = handles.release();
    failed->runner = nullptr;
    failed->Close(AsHandle(&failed->near_poll));
    return UvError(err, "uv_async_init");
  }
  handles->Adopt(AsHandle(&handles->async));
  runner->handles_ = handles.release();
  runner->StartHandles();
  return runner;
}

void UvRunner::StartHandles() {
  Handles& h = *handles_;
  uv_prepare_init(h.loop, &h.prepare);
  uv_check_init(h.loop, &h.check);
  uv_idle_init(h.loop, &h.idle);
  uv_timer_init(h.loop, &h.timer);
  for (uv_handle_t* handle :
       {AsHandle(&h.prepare), AsHandle(&h.check), AsHandle(&h.idle), AsHandle(&h.timer)}) {
    h.Adopt(handle);
  }
  uv_prepare_start(&h.prepare, [](uv_prepare_t* handle) {
    if (UvRunner* const self = Handles::Of(handle)->runner) self->BeforeBlocking();
  });
  uv_check_start(&h.check, [](uv_check_t* handle) {
    if (UvRunner* const self = Handles::Of(handle)->runner) self->RunBatch();
  });
  uv_poll_start(&h.near_poll, UV_READABLE, [](uv_poll_t* handle, int /*status*/, int /*events*/) {
    if (UvRunner* const self = Handles::Of(handle)->runner) self->OnTimer();
  });
  uv_async_t* const async = &h.async;
  context_->SetWakeup([async] { uv_async_send(async); });
  context_->SetPollFdsListener([this] { DropVanished(); });
}

UvRunner::~UvRunner() {
  if (handles_ == nullptr) {
    return;
  }
  // In this order: no thread can be inside uv_async_send() on a handle that is being closed.
  context_->SetWakeup(nullptr);
  context_->SetPollFdsListener(nullptr);
  for (WatchedFd* watched : watched_) {
    watched->Close();
  }
  Handles& h = *handles_;
  h.runner = nullptr;
  for (uv_handle_t* handle : {AsHandle(&h.prepare), AsHandle(&h.check), AsHandle(&h.idle),
                              AsHandle(&h.timer), AsHandle(&h.async), AsHandle(&h.near_poll)}) {
    h.Close(handle);
  }
}

// The check handle is always active, so it alone decides.
void UvRunner::Ref() { uv_ref(AsHandle(&handles_->check)); }
void UvRunner::Unref() { uv_unref(AsHandle(&handles_->check)); }

void UvRunner::RunBatch() {
  if (!context_->has_pending_work() && !timer_fired_) {
    return;
  }
  const bool for_timer = std::exchange(timer_fired_, false);
  stats_.batches.Inc();
  const uint64_t timers_before = context_->stats().timers_fired.value();
  // A callback of the batch may destroy the runner; the handles live until the loop's closing
  // phase.
  Handles* const handles = handles_;
  const bool more = context_->RunOnce();
  if (handles->runner == nullptr) {
    return;
  }
  if (armed_.has_value() && *armed_ <= context_->now()) {
    CancelTimer();  // served by this batch, whatever woke us
  }
  if (for_timer && context_->stats().timers_fired.value() == timers_before) {
    stats_.spurious_timer_wakeups.Inc();
  }
  more_ = more;
  if (busy_poll_ > Duration::zero()) {
    busy_since_ = context_->RefreshNow();
  }
  KeepTurning(more_);
}

void UvRunner::KeepTurning(bool on) {
  if (on) {
    uv_idle_start(&handles_->idle, [](uv_idle_t*) {});  // while active the loop does not block
  } else {
    uv_idle_stop(&handles_->idle);
  }
}

bool UvRunner::BusyPolls() {
  if (busy_since_.has_value() && context_->RefreshNow() - *busy_since_ >= busy_poll_) {
    busy_since_ = std::nullopt;
  }
  return busy_since_.has_value();
}

void UvRunner::BeforeBlocking() {
  Handles* const handles = handles_;
  RunBatch();
  if (handles->runner == nullptr) {
    return;
  }
  SyncPolls();
  ArmTimer();
  const bool busy = BusyPolls();
  if (busy) {
    stats_.busy_turns.Inc();
  }
  KeepTurning(more_ || busy);
}

void UvRunner::OnTimer() {
  stats_.timer_wakeups.Inc();
  timer_fired_ = true;
  CancelTimer();
}

void UvRunner::CancelTimer() {
  armed_ = std::nullopt;
  uv_timer_stop(&handles_->timer);
  DisarmNear();
}

// Nothing is done while the deadline stays the same, which is the usual case.
void UvRunner::ArmTimer() {
  const std::optional<Time> deadline =
      context_->has_pending_work() ? std::nullopt : context_->next_deadline();
  if (deadline == armed_) {
    return;
  }
  CancelTimer();
  armed_ = deadline;
  if (!deadline.has_value()) {
    return;
  }
  const Duration left = std::max(*deadline - context_->RefreshNow(), Duration::zero());
  if (left < kNear) {
    ArmNear(left);
    return;
  }
  // The loop's time is in whole milliseconds: rounding up the absolute time wakes us at most 1 ms
  // late and never early.
  const auto due_ms = static_cast<uint64_t>(
      (static_cast<int64_t>(uv_hrtime()) + left.count() + kNanosPerMilli - 1) / kNanosPerMilli);
  const uint64_t loop_ms = uv_now(handles_->loop);
  uv_timer_start(
      &handles_->timer,
      [](uv_timer_t* handle) {
        if (UvRunner* const self = Handles::Of(handle)->runner) self->OnTimer();
      },
      due_ms > loop_ms ? due_ms - loop_ms : 0, 0);
}

void UvRunner::ArmNear(Duration left) {
  itimerspec when = {};
  when.it_value.tv_nsec = static_cast<long>(std::max<int64_t>(left.count(), 1));
  timerfd_settime(handles_->near_fd, 0, &when, nullptr);
  near_armed_ = true;
}

void UvRunner::DisarmNear() {
  if (!std::exchange(near_armed_, false)) {
    return;
  }
  const itimerspec never = {};
  timerfd_settime(handles_->near_fd, 0, &never, nullptr);  // also clears an expiry not yet read
}

void UvRunner::SyncPolls() {
  if (seen_generation_ == context_->poll_fds_generation()) {
    return;
  }
  seen_generation_ = context_->poll_fds_generation();
  DropVanished();
  for (const netdev::PollFd& fd : context_->CollectPollFds()) {
    Watch(fd);
  }
}

// Runs also while a device changes its descriptors, before it can close one: closing a descriptor
// that is being polled leaves libuv with a stale entry, which the next file of that number
// inherits.
void UvRunner::DropVanished() {
  if (watched_.empty()) {
    return;
  }
  const std::vector<netdev::PollFd> wanted = context_->CollectPollFds();
  const auto keep =
      std::partition(watched_.begin(), watched_.end(), [&wanted](const WatchedFd* watched) {
        return std::any_of(wanted.begin(), wanted.end(), [watched](const netdev::PollFd& fd) {
          return fd.fd == watched->fd.fd && fd.poll == watched->fd.poll;
        });
      });
  std::for_each(keep, watched_.end(), [](WatchedFd* watched) { watched->Close(); });
  watched_.erase(keep, watched_.end());
}

void UvRunner::Watch(const netdev::PollFd& fd) {
  const auto known =
      std::find_if(watched_.begin(), watched_.end(), [&fd](const WatchedFd* watched) {
        return watched->fd.fd == fd.fd && watched->fd.poll == fd.poll;
      });
  if (known != watched_.end()) {
    if ((*known)->events != UvEventsOf(fd)) {
      (*known)->events = UvEventsOf(fd);
      (*known)->Start();
    }
    return;
  }
  auto watched = std::make_unique<WatchedFd>();
  watched->fd = fd;
  watched->events = UvEventsOf(fd);
  watched->runner = this;
  if (const int err = uv_poll_init(handles_->loop, &watched->poll, fd.fd); err != 0) {
    TW_LOG(kError) << "descriptor " << fd.fd << " cannot be polled: " << uv_strerror(err);
    return;
  }
  watched->poll.data = watched.get();
  uv_unref(AsHandle(&watched->poll));
  watched->Start();
  watched_.push_back(watched.release());
}

}  // namespace tapwire
