// SPDX-License-Identifier: Apache-2.0
// Two hosts in one process, joined by a veth pair: no device, no privilege, no threads. One answers
// UDP on port 7, the other sends datagrams one at a time and compares what comes back.
//
//   example_veth_echo [COUNT [SIZE]]
//
// Prints per address family: "COUNT SIZE MIN_US AVG_US MAX_US"; exit code 1 if anything is lost or
// different.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "netdev/net_context.h"
#include "netdev/veth.h"
#include "stack/sockets/system_environment.h"
#include "stack/sockets/udp_socket.h"
#include "stack/stack.h"

namespace {

constexpr uint16_t kEchoPort = 7;

struct Times {
  double min_us = 0, sum_us = 0, max_us = 0;
  size_t count = 0;

  void Add(double us) {
    min_us = count == 0 ? us : std::min(min_us, us);
    max_us = std::max(max_us, us);
    sum_us += us;
    ++count;
  }
};

// A stack on one end of the pair, with one address of each family.
absl::StatusOr<std::unique_ptr<tapwire::Stack>> MakeHost(tapwire::netdev::NetContext& context,
                                                         tapwire::netdev::NetDevice& device,
                                                         const char* address4,
                                                         const char* address6) {
  tapwire::StackConfig config;
  config.duplicate_address_detection = false;  // nobody else is on this wire
  auto stack = std::make_unique<tapwire::Stack>(context, config);
  auto interface = stack->AddInterface(device);
  if (!interface.ok()) return interface.status();
  if (absl::Status up = device.Up(); !up.ok()) return up;
  for (const char* address : {address4, address6}) {
    absl::Status added = (*interface)->AddAddress(*tapwire::IpPrefix::Parse(address));
    if (!added.ok()) return added;
  }
  return stack;
}

absl::StatusOr<std::unique_ptr<tapwire::UdpSocket>> MakeSocket(tapwire::Stack& stack,
                                                               tapwire::IpFamily family,
                                                               uint16_t port) {
  auto socket = tapwire::UdpSocket::Create(stack, {.family = family});
  if (!socket.ok()) return socket.status();
  const tapwire::Endpoint local{tapwire::IpAddress::Unspecified(family), port, 0};
  if (absl::Status bound = (*socket)->Bind(local); !bound.ok()) return bound;
  return socket;
}

// Sends one datagram and runs the context until it is back; nullopt if it does not come back whole.
std::optional<double> Exchange(tapwire::netdev::NetContext& context, tapwire::UdpSocket& client,
                               const std::vector<uint8_t>& data) {
  const auto start = std::chrono::steady_clock::now();
  if (!client.Send(data).ok()) return std::nullopt;
  std::optional<tapwire::Datagram> answer = client.TryReceive();
  while (!answer && context.RunOnce()) answer = client.TryReceive();
  if (!answer) answer = client.TryReceive();
  const std::chrono::duration<double, std::micro> elapsed =
      std::chrono::steady_clock::now() - start;
  std::vector<uint8_t> back(data.size() + 1);
  if (!answer || answer->CopyTo(back) != data.size()) return std::nullopt;
  back.pop_back();
  return back == data ? std::optional<double>(elapsed.count()) : std::nullopt;
}

absl::Status EchoOver(tapwire::netdev::NetContext& context, tapwire::Stack& client_host,
                      tapwire::Stack& server_host, const tapwire::IpAddress& server_address,
                      size_t count, size_t size) {
  auto server = MakeSocket(server_host, server_address.family(), kEchoPort);
  if (!server.ok()) return server.status();
  absl::Status started = (*server)->ReceiveStart([&](tapwire::Datagram datagram) {
    const tapwire::Endpoint peer = datagram.source();
    (*server)->SendPacket(datagram.TakePacket(), peer).IgnoreError();
  });
  if (!started.ok()) return started;
  auto client = MakeSocket(client_host, server_address.family(), 0);
  if (!client.ok()) return client.status();
  absl::Status connected = (*client)->Connect({server_address, kEchoPort, 0});
  if (!connected.ok()) return connected;

  Times times;
  std::vector<uint8_t> data(size);
  for (size_t n = 0; n < count; ++n) {
    for (size_t i = 0; i < size; ++i) data[i] = static_cast<uint8_t>(i * 31 + n);
    const std::optional<double> us = Exchange(context, **client, data);
    if (!us) return absl::DataLossError("a datagram did not come back as it was sent");
    times.Add(*us);
  }
  std::printf("%zu %zu %.0f %.0f %.0f\n", times.count, size, times.min_us,
              times.sum_us / static_cast<double>(times.count), times.max_us);
  return absl::OkStatus();
}

absl::Status Run(size_t count, size_t size) {
  tapwire::SystemEnvironment system;
  tapwire::netdev::NetContext context(system.environment());
  auto pair = tapwire::netdev::CreateVethPair(context, {});
  if (!pair.ok()) return pair.status();
  auto a = MakeHost(context, *pair->first, "10.9.0.2/24", "fd00:9::2/64");
  if (!a.ok()) return a.status();
  auto b = MakeHost(context, *pair->second, "10.9.0.1/24", "fd00:9::1/64");
  if (!b.ok()) return b.status();
  for (const char* address : {"10.9.0.1", "fd00:9::1"}) {
    absl::Status done =
        EchoOver(context, **a, **b, *tapwire::IpAddress::Parse(address), count, size);
    if (!done.ok()) return done;
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const size_t count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 100;
  const size_t size = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 65507;
  if (argc > 3 || count == 0 || size > 65507) {
    std::fprintf(stderr, "usage: %s [COUNT [SIZE up to 65507]]\n", argv[0]);
    return 2;
  }
  if (absl::Status done = Run(count, size); !done.ok()) {
    std::fprintf(stderr, "%s\n", std::string(done.message()).c_str());
    return 1;
  }
  return 0;
}
