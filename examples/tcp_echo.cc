// SPDX-License-Identifier: Apache-2.0
// The smallest TCP server: a network host of one's own on a libuv loop, echoing on port 7.
//
//   sudo ip tuntap add dev tw0 mode tap user $USER vnet_hdr
//   sudo ip addr add 10.9.0.1/24 dev tw0 && sudo ip link set tw0 up
//   example_tcp_echo tw0 10.9.0.2/24

#include <cstdio>
#include <memory>

#include "drivers/tap/tap_device.h"
#include "netdev/registry.h"
#include "stack/sockets/system_environment.h"
#include "stack/sockets/tcp_listener.h"
#include "stack/sockets/uv/uv_runner.h"
#include "stack/stack.h"
#include "uv.h"

using tapwire::BufferSlice, tapwire::IpAddress, tapwire::TcpSocket;
// Sends back what it reads, a slice at a time: a peer that does not read is not read from either.
// The callback that waits owns the socket, which so goes with the end of the stream or an error.
void Echo(std::shared_ptr<TcpSocket> socket) {
  const auto on_read = [socket](absl::StatusOr<BufferSlice> slice) {
    if (!slice.ok() || slice->empty()) return;
    socket->ReadStop();
    tapwire::BufferChain data;
    data.Append(*std::move(slice));
    const auto sent = [socket](const absl::Status& s) { s.ok() ? Echo(socket) : void(); };
    socket->Write(std::move(data), sent).IgnoreError();
  };
  socket->ReadStart(on_read).IgnoreError();
}

int main(int argc, char** argv) {
  const auto address = argc == 3 ? tapwire::IpPrefix::Parse(argv[2]) : std::nullopt;
  if (!address) return std::fprintf(stderr, "usage: %s TAP ADDRESS/LENGTH\n", argv[0]), 2;
  const auto fail = [](const absl::Status& status) {
    return std::fprintf(stderr, "%s\n", status.ToString().c_str()), 1;
  };
  tapwire::SystemEnvironment system;
  tapwire::netdev::NetContext context(system.environment());
  tapwire::Stack stack(context);
  auto tap = tapwire::drivers::TapDevice::Open(context, {.name = argv[1]});
  if (!tap.ok()) return fail(tap.status());
  auto device = context.registry().Register(*std::move(tap));
  if (!device.ok()) return fail(device.status());
  auto interface = stack.AddInterface(**device);
  if (!interface.ok()) return fail(interface.status());
  if (absl::Status up = (*device)->Up(); !up.ok()) return fail(up);
  if (absl::Status added = (*interface)->AddAddress(*address); !added.ok()) return fail(added);
  const IpAddress any = IpAddress::Unspecified(address->address.family());
  auto listener = tapwire::TcpListener::Listen(stack, {any, 7, 0});
  if (!listener.ok()) return fail(listener.status());
  (*listener)->AcceptStart(Echo).IgnoreError();  // fails only without a callback
  auto runner = tapwire::UvRunner::Attach(uv_default_loop(), &context);
  if (!runner.ok()) return fail(runner.status());
  (*runner)->Ref();
  std::printf("echo on %s port 7/tcp\n", argv[2]);
  return uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}
