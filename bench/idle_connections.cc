// SPDX-License-Identifier: Apache-2.0
// What an established TCP connection costs while nothing happens on it: 10,000 of them between two
// hosts in this process, 10 s of virtual time after the last handshake. Both ends are ours, each
// with its TcpSocket and read callback, so a connection is two endpoints and the figure is what all
// of them take, divided by twice the number of connections. Counted: memory allocated and not freed
// (malloc's own count), and slabs of the pool that someone holds. Slabs on free lists are not: they
// belong to the pool. The growth of the process's resident memory stands beside it.
//
// Prints one JSON object.

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "netdev/net_context.h"
#include "netdev/veth.h"
#include "stack/interface.h"
#include "stack/sockets/tcp_listener.h"
#include "stack/sockets/tcp_socket.h"
#include "stack/stack.h"
#include "tests/testutil/fake_clock.h"

namespace tapwire {
namespace {

constexpr Duration kIdle = std::chrono::seconds(10);

struct Memory {
  size_t heap = 0;
  size_t slabs = 0;
  size_t resident = 0;
};

size_t ResidentBytes() {
  size_t pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%*s %zu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

class Hosts {
 public:
  Hosts() : context_(environment_.environment()) {
    StackConfig config;
    config.duplicate_address_detection = false;
    config.link_local_address = false;
    auto pair = *netdev::CreateVethPair(context_, {});
    client_ = std::make_unique<Stack>(context_, config);
    server_ = std::make_unique<Stack>(context_, config);
    Attach(*client_, *pair.first, "10.0.0.1/16");
    Attach(*server_, *pair.second, "10.0.0.2/16");
    listener_ = *TcpListener::Listen(*server_, *Endpoint::Parse("10.0.0.2:7"), 4096);
    listener_
        ->AcceptStart(
            [this](std::unique_ptr<TcpSocket> socket) { Keep(accepted, std::move(socket)); })
        .IgnoreError();
    Settle();
  }

  bool Connect() {
    auto socket = TcpSocket::Connect(*client_, *Endpoint::Parse("10.0.0.2:7"), {}, nullptr);
    if (!socket.ok()) return false;
    Keep(connected, *std::move(socket));
    return true;
  }
  void Settle() {
    while (context_.RunOnce()) {
    }
  }
  // Virtual time, timer by timer.
  void Idle(Duration time) {
    const Time end = environment_.clock.Now() + time;
    while (environment_.clock.Now() < end) {
      environment_.clock.Set(std::min(end, context_.next_deadline().value_or(end)));
      Settle();
    }
  }
  Memory Measure() {
    Memory memory;
    malloc_trim(0);
    memory.heap = mallinfo2().uordblks + mallinfo2().hblkhd;
    memory.resident = ResidentBytes();
    const SlabPoolStats& pool = context_.pool().stats();
    memory.slabs = pool[SlabClass::kSmall].in_use * kSmallSlabBytes +
                   pool[SlabClass::kLarge].in_use * kLargeSlabBytes +
                   pool[SlabClass::kJumbo].in_use * kJumboSlabBytes;
    return memory;
  }

  std::vector<std::unique_ptr<TcpSocket>> connected;
  std::vector<std::unique_ptr<TcpSocket>> accepted;

 private:
  static void Attach(Stack& stack, netdev::NetDevice& device, const char* address) {
    Interface* const interface = *stack.AddInterface(device);
    device.Up().IgnoreError();
    interface->AddAddress(*IpPrefix::Parse(address)).IgnoreError();
  }
  static void Keep(std::vector<std::unique_ptr<TcpSocket>>& list,
                   std::unique_ptr<TcpSocket> socket) {
    socket->ReadStart([](const absl::StatusOr<BufferSlice>&) {}).IgnoreError();
    list.push_back(std::move(socket));
  }

  TestEnvironment environment_;
  netdev::NetContext context_;
  std::unique_ptr<Stack> client_, server_;
  std::unique_ptr<TcpListener> listener_;
};

int Fail(const std::string& why) {
  std::fprintf(stderr, "idle_connections: %s\n", why.c_str());
  return 1;
}

int Measure(size_t connections) {
  Hosts hosts;
  hosts.connected.reserve(connections + 1);
  hosts.accepted.reserve(connections + 1);
  // One before: what a stack has once (tables, neighbours, free lists of the pool) is not counted.
  if (!hosts.Connect()) return Fail("no connection");
  hosts.Settle();
  hosts.Idle(kIdle);
  const Memory before = hosts.Measure();
  for (size_t i = 0; i < connections; ++i) {
    if (!hosts.Connect()) return Fail("no connection");
    if (i % 16 == 0) hosts.Settle();
  }
  hosts.Settle();
  hosts.Idle(kIdle);
  const Memory after = hosts.Measure();
  for (const auto* list : {&hosts.connected, &hosts.accepted}) {
    for (const auto& socket : *list) {
      if (!socket->connected()) return Fail("a connection did not last");
    }
  }
  if (hosts.accepted.size() != connections + 1) return Fail("not all were accepted");
  const auto each = [connections](size_t now, size_t then) {
    return (static_cast<double>(now) - static_cast<double>(then)) /
           (2.0 * static_cast<double>(connections));
  };
  const double heap = each(after.heap, before.heap);
  const double slabs = each(after.slabs, before.slabs);
  std::printf(
      "{\"benchmarks\": [\n {\"name\": \"memory.idle_connection_bytes\", \"value\": %.1f, "
      "\"unit\": \"bytes per endpoint\", \"heap\": %.1f, \"slabs\": %.1f, \"rss\": %.1f, "
      "\"connections\": %zu, \"endpoints\": %zu}]}\n",
      heap + slabs, heap, slabs, each(after.resident, before.resident), connections,
      2 * connections);
  return 0;
}

int Main(int argc, char** argv) {
  size_t connections = 10'000;
  CLI::App app("Memory of an idle TCP connection.", "idle_connections");
  app.add_option("--connections", connections, "how many, both ends in this process")
      ->check(CLI::Range(1, 25'000))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return Measure(connections);
}

}  // namespace
}  // namespace tapwire

int main(int argc, char** argv) { return tapwire::Main(argc, argv); }
