// SPDX-License-Identifier: Apache-2.0
// Owners for the libuv objects that commands use: a loop and one-shot timers. libuv frees a handle
// only in its close callback, so each handle lives on the heap and outlives its owner until then.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "netdev/base/status_util.h"
#include "uv.h"

namespace tapwire::apps {

class UvLoop {
 public:
  // Fails if the process is out of descriptors or memory.
  static absl::StatusOr<std::unique_ptr<UvLoop>> Create() {
    std::unique_ptr<UvLoop> made(new UvLoop());
    int err = MissingDescriptors();
    if (err == 0) err = -uv_loop_init(&made->loop_);
    if (err != 0) {
      return ErrnoStatus(err, "make an event loop (a higher limit, ulimit -n, may help)");
    }
    made->open_ = true;
    return made;
  }
  ~UvLoop() {
    if (!open_) return;
    uv_run(&loop_, UV_RUN_DEFAULT);  // lets close callbacks run
    uv_loop_close(&loop_);
  }
  UvLoop(const UvLoop&) = delete;
  UvLoop& operator=(const UvLoop&) = delete;
  uv_loop_t* get() { return &loop_; }

 private:
  UvLoop() = default;

  // 0, or the errno if there are fewer free descriptors than a loop takes: libuv aborts where it
  // cannot make the first pipe of the process.
  static int MissingDescriptors() {
    std::array<int, 8> fds;
    size_t made = 0;
    int err = 0;
    while (made < fds.size() && err == 0) {
      const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
      if (fd < 0) {
        err = errno;
      } else {
        fds[made++] = fd;
      }
    }
    while (made > 0) close(fds[--made]);
    return err;
  }

  uv_loop_t loop_;
  bool open_ = false;
};

// A one-shot timer; starting it again moves it. Keeps the loop alive only while it is armed.
class UvTimer {
 public:
  explicit UvTimer(uv_loop_t* loop) : handle_(new Handle) {
    uv_timer_init(loop, &handle_->timer);
    handle_->timer.data = handle_;
  }
  ~UvTimer() {
    handle_->callback = nullptr;
    uv_close(reinterpret_cast<uv_handle_t*>(&handle_->timer),
             [](uv_handle_t* h) { delete static_cast<Handle*>(h->data); });
  }
  UvTimer(const UvTimer&) = delete;
  UvTimer& operator=(const UvTimer&) = delete;

  void Start(double seconds, absl::AnyInvocable<void()> callback) {
    handle_->callback = std::move(callback);
    uv_update_time(handle_->timer.loop);  // libuv counts from when the loop last looked
    uv_timer_start(&handle_->timer, &Fire, static_cast<uint64_t>(std::ceil(seconds * 1000.0)), 0);
  }
  void Stop() { uv_timer_stop(&handle_->timer); }

 private:
  struct Handle {
    uv_timer_t timer;
    absl::AnyInvocable<void()> callback;
  };
  static void Fire(uv_timer_t* timer) {
    // Moved out: the callback may start the timer again.
    absl::AnyInvocable<void()> callback =
        std::exchange(static_cast<Handle*>(timer->data)->callback, nullptr);
    if (callback) callback();
  }

  Handle* handle_;
};

}  // namespace tapwire::apps
