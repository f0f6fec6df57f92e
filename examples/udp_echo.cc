// SPDX-License-Identifier: Apache-2.0
// The smallest embedding: a network host of one's own on a libuv loop, answering UDP on port 7.
//
//   sudo ip tuntap add dev tw0 mode tap user $USER vnet_hdr
//   sudo ip addr add 10.9.0.1/24 dev tw0 && sudo ip link set tw0 up
//   example_udp_echo tw0 10.9.0.2/24

#include <cstdio>
#include <memory>
#include <string>

#include "drivers/tap/tap_device.h"
#include "netdev/net_context.h"
#include "netdev/registry.h"
#include "stack/sockets/system_environment.h"
#include "stack/sockets/udp_socket.h"
#include "stack/sockets/uv/uv_runner.h"
#include "stack/stack.h"
#include "uv.h"

namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: %s TAP ADDRESS/LENGTH\n", argv[0]), 2;
  const auto address = tapwire::IpPrefix::Parse(argv[2]);
  if (!address) return std::fprintf(stderr, "%s is not ADDRESS/LENGTH\n", argv[2]), 2;

  // The world comes in from outside: clock and random numbers here, frames from the device.
  tapwire::SystemEnvironment system;
  tapwire::netdev::NetContext context(system.environment());
  tapwire::Stack stack(context);

  auto tap = tapwire::drivers::TapDevice::Open(context, {.name = argv[1]});
  if (!tap.ok()) return Fail(tap.status());
  auto device = context.registry().Register(*std::move(tap));
  if (!device.ok()) return Fail(device.status());
  auto interface = stack.AddInterface(**device);
  if (!interface.ok()) return Fail(interface.status());
  if (absl::Status up = (*device)->Up(); !up.ok()) return Fail(up);
  if (absl::Status added = (*interface)->AddAddress(*address); !added.ok()) return Fail(added);

  auto socket = tapwire::UdpSocket::Create(stack, {.family = address->address.family()});
  if (!socket.ok()) return Fail(socket.status());
  const tapwire::Endpoint any{tapwire::IpAddress::Unspecified(address->address.family()), 7, 0};
  if (absl::Status bound = (*socket)->Bind(any); !bound.ok()) return Fail(bound);
  absl::Status started = (*socket)->ReceiveStart([&](tapwire::Datagram datagram) {
    const tapwire::Endpoint peer = datagram.source();
    // The buffer goes back as it is: no copy between the two frames.
    (*socket)->SendPacket(datagram.TakePacket(), peer).IgnoreError();
  });
  if (!started.ok()) return Fail(started);

  auto runner = tapwire::UvRunner::Attach(uv_default_loop(), &context);
  if (!runner.ok()) return Fail(runner.status());
  (*runner)->Ref();
  std::printf("echo on %s port 7/udp\n", argv[2]);
  return uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}
