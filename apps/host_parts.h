// SPDX-License-Identifier: Apache-2.0
// The parts of a Host that need headers of libuv or the system. Private to apps/host*.cc.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "apps/host.h"
#include "apps/report.h"
#include "apps/signals.h"
#include "apps/uv_readable.h"
#include "netdev/capture_tap.h"
#include "netdev/device.h"
#include "netdev/pcapng_writer.h"
#include "stack/sockets/system_environment.h"
#include "stack/sockets/uv/uv_runner.h"

namespace tapwire::apps {

struct Host::Environment {
  SystemClock clock;
  SystemRandom random;
};

// The capture file. Says on stderr, once and when it happens, that it takes no more: the run goes
// on without it, maybe for days.
class CaptureSink final : public netdev::ByteSink {
 public:
  explicit CaptureSink(std::unique_ptr<netdev::ByteSink> file) : file_(std::move(file)) {}
  absl::Status Write(std::span<const uint8_t> bytes) override { return Note(file_->Write(bytes)); }
  absl::Status Flush() override { return Note(file_->Flush()); }

 private:
  absl::Status Note(const absl::Status& status) {
    if (!status.ok() && !std::exchange(failed_, true)) {
      std::fprintf(stderr, "tapwire: %s; the capture ends here\n",
                   OneLine(status.message()).c_str());
    }
    return status;
  }

  std::unique_ptr<netdev::ByteSink> file_;
  bool failed_ = false;
};

struct Host::Capture {
  Capture(std::unique_ptr<netdev::ByteSink> sink, bool raw, Duration wall_clock_offset)
      : writer(std::move(sink), {}),
        tap(writer, {.raw = raw, .wall_clock_offset = wall_clock_offset}) {}
  netdev::PcapngWriter writer;
  netdev::CaptureTap tap;
};

// Hears of devices that are removed, by the kernel or on request (tapwire ctl).
class Host::DeviceWatch final : public netdev::NetdevObserver {
 public:
  explicit DeviceWatch(Host& host) : host_(host) {}
  void OnNetdevEvent(netdev::NetDevice& device, netdev::NetdevEvent event) override {
    if (event == netdev::NetdevEvent::kUnregister) host_.OnDeviceGone(device);
  }

 private:
  Host& host_;
};

}  // namespace tapwire::apps
