// SPDX-License-Identifier: Apache-2.0
// KernelHost: the Linux kernel as the host of a script. It moves the calling process into a network
// namespace of its own whose only link is a TUN device that the script speaks on, so it is for a
// child process that exits afterwards (kernel_run.h). Time is real.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "apps/pkt/host.h"
#include "apps/pkt/kernel_calls.h"
#include "apps/pkt/world.h"
#include "drivers/tap/unique_fd.h"
#include "stack/sockets/waiter.h"

namespace tapwire::pkt {

class KernelHost final : public Host {
 public:
  // Needs root or a user namespace, and /dev/net/tun. `waiter` outlives the host.
  KernelHost(const NetSetup& setup, Waiter& waiter);

  const absl::Status& status() const override { return status_; }
  SocketCalls& calls() override { return *calls_; }
  bool Inject(std::span<const uint8_t> datagram) override;
  std::deque<SentDatagram>& sent() override { return sent_; }
  Time now() override;
  bool Settle() override;
  std::optional<Time> NextDeadline() override { return kInfiniteFuture; }
  // Until a packet or the end of a call at most.
  void SetTime(Time time) override;
  Duration patience() const override { return std::chrono::seconds(10); }
  // Settings are made in the namespace; nothing is ever run.
  std::optional<std::string> Apply(absl::string_view command) override;
  size_t Destroy() override;

 private:
  absl::Status Configure(const NetSetup& setup);

  std::unique_ptr<KernelCalls> calls_;
  drivers::UniqueFd tun_;
  std::deque<SentDatagram> sent_;
  absl::Status status_;
};

}  // namespace tapwire::pkt
