// SPDX-License-Identifier: Apache-2.0
#include "apps/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/start_up.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps {
namespace {

constexpr int kInterruptedExit = 130;  // as shells have it: 128 + SIGINT

std::atomic<int> interrupts = 0;
std::atomic<void (*)(int)> libuv_handler = nullptr;
static_assert(std::atomic<int>::is_always_lock_free);  // or no signal handler could use it
static_assert(std::atomic<void (*)(int)>::is_always_lock_free);

void HandleInterrupt(int signal_number) {
  if (interrupts.fetch_add(1) > 0) _exit(kInterruptedExit);
  libuv_handler.load()(signal_number);
}

// Goes before the handler that libuv has installed, which is the same for all signals.
void PrecedeLibuv(int signal_number) {
  struct sigaction action = {};
  if (sigaction(signal_number, nullptr, &action) != 0 || action.sa_handler == &HandleInterrupt)
    return;
  libuv_handler = action.sa_handler;
  action.sa_handler = &HandleInterrupt;
  sigaction(signal_number, &action, nullptr);
}

}  // namespace

struct Signals::Handler {
  uv_signal_t handle;
  absl::AnyInvocable<void()> callback;
};

Signals::Signals(uv_loop_t* loop) : loop_(loop) { interrupts = 0; }

Signals::~Signals() {
  // libuv goes back to the default action, which for SIGUSR1 is to kill.
  sigset_t statistics, before;
  sigemptyset(&statistics);
  sigaddset(&statistics, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &statistics, &before);
  for (Handler* handler : handlers_) {
    uv_close(reinterpret_cast<uv_handle_t*>(&handler->handle),
             [](uv_handle_t* h) { delete static_cast<Handler*>(h->data); });
  }
  CatchSignal(SIGUSR1);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

absl::Status Signals::On(int signal_number, absl::AnyInvocable<void()> callback) {
  auto handler = std::make_unique<Handler>();
  handler->callback = std::move(callback);
  if (const int err = uv_signal_init(loop_, &handler->handle); err != 0) {
    return ErrnoStatus(-err, "prepare for signals");
  }
  handler->handle.data = handler.get();
  uv_unref(reinterpret_cast<uv_handle_t*>(&handler->handle));
  handlers_.push_back(handler.release());
  const int err = uv_signal_start(
      &handlers_.back()->handle,
      [](uv_signal_t* h, int) { static_cast<Handler*>(h->data)->callback(); }, signal_number);
  return ErrnoStatus(-err, absl::StrCat("handle signal ", signal_number));
}

absl::Status Signals::OnInterrupt(absl::AnyInvocable<void()> callback) {
  auto shared = std::make_shared<absl::AnyInvocable<void()>>(std::move(callback));
  for (const int signal_number : {SIGINT, SIGTERM}) {
    TW_RETURN_IF_ERROR(On(signal_number, [shared] { (*shared)(); }));
    PrecedeLibuv(signal_number);
  }
  return absl::OkStatus();
}

}  // namespace tapwire::apps
