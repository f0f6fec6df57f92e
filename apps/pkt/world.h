// SPDX-License-Identifier: Apache-2.0
// World: the host under test of one script run: a stack with TCP, UDP and sockets on a link that
// only the script speaks on, and time that only the script moves.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "apps/pkt/host.h"
#include "apps/pkt/script_device.h"
#include "apps/pkt/table_calls.h"
#include "netdev/base/environment.h"
#include "netdev/base/seeded_random.h"
#include "netdev/net_context.h"
#include "stack/sockets/socket_table.h"
#include "stack/stack.h"
#include "stack/tcp/config.h"

namespace tapwire::pkt {

enum class IpVersion : uint8_t { kIpv4, kIpv6, kIpv4Mapped };
std::optional<IpVersion> ParseIpVersion(absl::string_view text);

// Addresses of the script's link and the numbers used where a script writes `...`.
struct NetSetup {
  IpVersion version = IpVersion::kIpv4;
  uint32_t mtu = 1500;
  Ipv4Address local4{192, 168, 0, 2}, gateway4{192, 168, 0, 1}, remote4{192, 0, 2, 1};
  Ipv6Address local6, gateway6, remote6;
  uint16_t bind_port = 8080;
  uint16_t connect_port = 8080;
  uint16_t remote_port = 50000;  // of a peer that opens a connection

  NetSetup();
  // The family of the packets on the link.
  IpFamily family() const { return version == IpVersion::kIpv6 ? IpFamily::kV6 : IpFamily::kV4; }
  IpAddress local() const { return Pick(local4, local6); }
  IpAddress remote() const { return Pick(remote4, remote6); }

 private:
  IpAddress Pick(Ipv4Address v4, const Ipv6Address& v6) const {
    return family() == IpFamily::kV4 ? IpAddress(v4) : IpAddress(v6);
  }
};

class ScriptClock final : public Clock {
 public:
  Time Now() override { return now_; }
  void Set(Time now) { now_ = now; }

 private:
  Time now_{std::chrono::seconds(1000)};
};

class World final : public Host {
 public:
  World(const NetSetup& setup, const tcp::Config& config, Waiter& waiter);
  ~World() override;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  // Addresses or routes that the stack refuses.
  const absl::Status& status() const override { return status_; }

  Time now() override { return clock_.Now(); }
  SocketTable& sockets() { return *sockets_; }
  SocketCalls& calls() override { return *calls_; }
  ScriptDevice& device() { return *device_; }
  bool Inject(std::span<const uint8_t> datagram) override { return device_->Inject(datagram); }
  std::deque<SentDatagram>& sent() override { return device_->sent(); }
  Stack& stack() { return *stack_; }
  tcp::Config& tcp_config();

  // Batches until nothing is left to do at this time. False: there is no end to it.
  bool Settle() override;
  // When the stack wants to run next.
  std::optional<Time> NextDeadline() override { return context_.next_deadline(); }
  // Moves the clock forward to `time`, without running anything.
  void SetTime(Time time) override;
  Duration patience() const override { return std::chrono::hours(24); }
  std::optional<std::string> Apply(absl::string_view command) override;

  // Takes the host down. Afterwards, how many packets are still held somewhere.
  size_t Destroy() override;

 private:
  absl::Status Configure(const NetSetup& setup);
  absl::Status AddFamily(Interface& interface, const IpPrefix& local, const IpAddress& gateway);

  ScriptClock clock_;
  SeededRandom random_{1};
  netdev::NetContext context_;
  ScriptDevice* device_ = nullptr;
  std::unique_ptr<Stack> stack_;
  std::unique_ptr<SocketTable> sockets_;
  std::unique_ptr<TableCalls> calls_;
  absl::Status status_;
};

}  // namespace tapwire::pkt
