// SPDX-License-Identifier: Apache-2.0
// A call when a descriptor becomes readable.
#pragma once

#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "netdev/base/status_util.h"
#include "uv.h"

namespace tapwire::apps {

// One-shot; does not keep the loop alive. Destroyed before its descriptor is closed.
class UvReadable {
 public:
  static absl::StatusOr<std::unique_ptr<UvReadable>> Watch(uv_loop_t* loop, int fd,
                                                           absl::AnyInvocable<void()> callback) {
    auto handle = std::make_unique<Handle>();
    handle->callback = std::move(callback);
    handle->poll.data = handle.get();
    if (const int err = uv_poll_init(loop, &handle->poll, fd); err != 0) {
      return ErrnoStatus(-err, "watch a descriptor");
    }
    uv_unref(reinterpret_cast<uv_handle_t*>(&handle->poll));
    std::unique_ptr<UvReadable> watch(new UvReadable(handle.release()));
    const int err = uv_poll_start(&watch->handle_->poll, UV_READABLE, &Fire);
    if (err != 0) return ErrnoStatus(-err, "watch a descriptor");
    return watch;
  }
  ~UvReadable() {
    uv_close(reinterpret_cast<uv_handle_t*>(&handle_->poll),
             [](uv_handle_t* h) { delete static_cast<Handle*>(h->data); });
  }
  UvReadable(const UvReadable&) = delete;
  UvReadable& operator=(const UvReadable&) = delete;

 private:
  struct Handle {
    uv_poll_t poll;
    absl::AnyInvocable<void()> callback;
  };
  explicit UvReadable(Handle* handle) : handle_(handle) {}
  static void Fire(uv_poll_t* poll, int /*status*/, int /*events*/) {
    uv_poll_stop(poll);
    static_cast<Handle*>(poll->data)->callback();
  }

  Handle* handle_;
};

}  // namespace tapwire::apps
