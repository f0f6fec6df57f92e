// SPDX-License-Identifier: Apache-2.0
// The parts of a Host that need headers of libuv or the system. Private to apps/host*.cc.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "apps/host.h"
#include "netdev/capture_tap.h"
#include "netdev/pcapng_writer.h"
#include "stack/sockets/system_environment.h"
#include "stack/sockets/uv/uv_runner.h"
#include "uv.h"

namespace tapwire::apps {

struct Host::Environment {
  SystemClock clock;
  SystemRandom random;
};

struct Host::Capture {
  Capture(std::unique_ptr<netdev::ByteSink> sink, bool raw, Duration wall_clock_offset)
      : writer(std::move(sink), {}),
        tap(writer, {.raw = raw, .wall_clock_offset = wall_clock_offset}) {}
  netdev::PcapngWriter writer;
  netdev::CaptureTap tap;
};

// Signal handlers that do not keep the loop alive.
struct Host::Signals {
  explicit Signals(uv_loop_t* l) : loop(l) {}
  ~Signals() {
    for (Handler* handler : handlers) {
      uv_close(reinterpret_cast<uv_handle_t*>(&handler->handle),
               [](uv_handle_t* h) { delete static_cast<Handler*>(h->data); });
    }
  }
  void On(int signal, absl::AnyInvocable<void()> callback) {
    auto* handler = new Handler;
    handler->callback = std::move(callback);
    uv_signal_init(loop, &handler->handle);
    handler->handle.data = handler;
    uv_signal_start(
        &handler->handle, [](uv_signal_t* h, int) { static_cast<Handler*>(h->data)->callback(); },
        signal);
    uv_unref(reinterpret_cast<uv_handle_t*>(&handler->handle));
    handlers.push_back(handler);
  }

 private:
  struct Handler {
    uv_signal_t handle;
    absl::AnyInvocable<void()> callback;
  };
  uv_loop_t* loop;
  std::vector<Handler*> handlers;  // each frees itself in its close callback
};

}  // namespace tapwire::apps
