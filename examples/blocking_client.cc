// SPDX-License-Identifier: Apache-2.0
// A blocking TCP client in the manner of BSD sockets, with the stack on a thread of its own. Sends
// its standard input to a server and prints what comes back, like netcat.
//
//   sudo ip tuntap add dev tw0 mode tap user $USER vnet_hdr
//   sudo ip addr add 10.9.0.1/24 dev tw0 && sudo ip link set tw0 up
//   echo hello | example_blocking_client tw0 10.9.0.2/24 10.9.0.1 7
//
// Exit code 1 and one line on standard error if anything fails.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "drivers/tap/tap_device.h"
#include "netdev/net_context.h"
#include "netdev/registry.h"
#include "stack/sockets/socket_table.h"
#include "stack/sockets/system_environment.h"
#include "stack/sockets/thread_waiter.h"
#include "stack/stack.h"

namespace {

int Fail(const char* what, int result) {
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(-result));
  return 1;
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}

absl::Status AddTap(tapwire::netdev::NetContext& context, tapwire::Stack& stack, const char* tap,
                    const tapwire::IpPrefix& address) {
  auto opened = tapwire::drivers::TapDevice::Open(context, {.name = tap});
  if (!opened.ok()) return opened.status();
  auto device = context.registry().Register(*std::move(opened));
  if (!device.ok()) return device.status();
  auto interface = stack.AddInterface(**device);
  if (!interface.ok()) return interface.status();
  if (absl::Status up = (*device)->Up(); !up.ok()) return up;
  return (*interface)->AddAddress(address, /*skip_dad=*/true);
}

socklen_t ServerAddress(const char* text, uint16_t port, sockaddr_storage& out) {
  out = {};
  auto* in = reinterpret_cast<sockaddr_in*>(&out);
  auto* in6 = reinterpret_cast<sockaddr_in6*>(&out);
  if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    return sizeof(*in);
  }
  if (inet_pton(AF_INET6, text, &in6->sin6_addr) != 1) return 0;
  in6->sin6_family = AF_INET6;
  in6->sin6_port = htons(port);
  return sizeof(*in6);
}

// Standard input to the server; ends our direction at its end.
void SendInput(tapwire::SocketTable& sockets, int fd) {
  char data[16384];
  for (size_t n = 0; (n = std::fread(data, 1, sizeof(data), stdin)) > 0;) {
    if (sockets.Send(fd, data, n, 0) < 0) return;
  }
  sockets.Shutdown(fd, SHUT_WR);
}

int Talk(tapwire::SocketTable& sockets, const sockaddr_storage& server, socklen_t length) {
  const int fd = sockets.Socket(server.ss_family, SOCK_STREAM, 0);
  if (fd < 0) return Fail("socket", fd);
  const int connected = sockets.Connect(fd, reinterpret_cast<const sockaddr*>(&server), length);
  if (connected < 0) return Fail("connect", connected);
  std::thread sender([&sockets, fd] { SendInput(sockets, fd); });
  char data[16384];
  ssize_t n = 0;
  while ((n = sockets.Recv(fd, data, sizeof(data), 0)) > 0) {
    std::fwrite(data, 1, static_cast<size_t>(n), stdout);
  }
  sender.join();
  sockets.Close(fd);
  return n < 0 ? Fail("recv", static_cast<int>(n)) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    return std::fprintf(stderr, "usage: %s TAP ADDRESS/LENGTH SERVER PORT\n", argv[0]), 2;
  }
  const auto address = tapwire::IpPrefix::Parse(argv[2]);
  sockaddr_storage server;
  const socklen_t length =
      ServerAddress(argv[3], static_cast<uint16_t>(std::strtoul(argv[4], nullptr, 10)), server);
  if (!address || length == 0) return std::fprintf(stderr, "bad address\n"), 2;

  tapwire::SystemEnvironment system;
  tapwire::netdev::NetContext context(system.environment());
  tapwire::Stack stack(context);
  if (absl::Status added = AddTap(context, stack, argv[1], *address); !added.ok()) {
    return Fail(added);
  }
  // From here on the stack belongs to its thread; the table's calls come from any other.
  auto waiter = tapwire::ThreadWaiter::Start(context);
  if (!waiter.ok()) return Fail(waiter.status());
  int result = 0;
  {
    tapwire::SocketTable sockets(stack, **waiter);
    result = Talk(sockets, server, length);
  }
  (*waiter)->Stop();
  return result;
}
