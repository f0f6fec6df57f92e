// SPDX-License-Identifier: Apache-2.0
#include "apps/perf/iperf3_channel.h"

#include <utility>

namespace tapwire::apps::iperf3 {

ControlChannel::ControlChannel(std::unique_ptr<TcpSocket> socket, Callbacks callbacks)
    : socket_(std::move(socket)), callbacks_(std::move(callbacks)) {
  socket_->options().nodelay = true;
  socket_->OptionsChanged();
  socket_->SetWritableCallback([this] { Write(); });
  if (!socket_->ReadyStart([this] { Read(); }).ok()) End();
}

void ControlChannel::Send(const std::string& bytes) {
  if (ended_) return;
  unsent_ += bytes;
  Write();
}

void ControlChannel::Write() {
  while (!unsent_.empty()) {
    const absl::StatusOr<size_t> sent =
        socket_->TryWrite({reinterpret_cast<const uint8_t*>(unsent_.data()), unsent_.size()});
    // What waits goes out when there is room; a connection that failed ends by its read side.
    if (!sent.ok()) return;
    unsent_.erase(0, *sent);
  }
}

void ControlChannel::Read() {
  uint8_t buffer[4096];
  while (!ended_) {
    const absl::StatusOr<size_t> got = socket_->TryRead(buffer);
    if (!got.ok() && IsWouldBlock(got.status())) return;
    if (!got.ok() || *got == 0) return End();
    callbacks_.on_bytes({buffer, *got});
  }
}

void ControlChannel::End() {
  if (std::exchange(ended_, true)) return;
  socket_->ReadStop();
  callbacks_.on_closed();
}

void ControlChannel::Close(std::function<void()> closed) {
  ended_ = true;
  // What the peer said too much must not turn the end into a reset.
  uint8_t buffer[4096];
  for (absl::StatusOr<size_t> got = 1; got.ok() && *got > 0;) got = socket_->TryRead(buffer);
  socket_->Close([closed = std::move(closed)] { closed(); });
}

}  // namespace tapwire::apps::iperf3
