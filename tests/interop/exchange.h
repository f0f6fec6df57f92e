// SPDX-License-Identifier: Apache-2.0
// The exchanges between stack and kernel that are made with every kind of set-up: offloads on and
// off, as root and without privilege.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "netdev/wire/ip_address.h"
#include "stack/sockets/ping_socket.h"
#include "tests/interop/kernel_side.h"
#include "tests/interop/lab.h"

namespace tapwire::interop {

inline constexpr IpFamily kFamilies[] = {IpFamily::kV4, IpFamily::kV6};

// Payload sizes around one frame of MTU 1500, several fragments, and the largest of all.
std::vector<size_t> PingSizes(IpFamily family, size_t largest4, size_t largest6);
std::vector<size_t> DatagramSizes(IpFamily family);

// ---- ICMP echo ----

// ping and ping -6 to the stack with all sizes and a pattern; to its link-local address; to
// ff02::1.
void KernelPingsStack(Lab& lab);
// PingSocket to the kernel with all sizes, the bytes that come back compared.
void StackPingsKernel(Lab& lab);

// ---- UDP ----

// A kernel socket and the stack's echo service, all sizes; and the other way round.
void KernelSendsDatagrams(Lab& lab);
void StackSendsDatagrams(Lab& lab);
// UDP_SEGMENT: one send of the kernel that is many datagrams.
void KernelSendsSegments(Lab& lab);
// socat through the stack's echo service.
void SocatSendsDatagrams(Lab& lab);
void PortsAreUnreachable(Lab& lab);

// ---- Neighbours ----

// `ip neigh` says REACHABLE after traffic, arping is answered, and flushing the kernel's table in
// the middle of a flow loses nothing.
void KernelKnowsItsNeighbor(Lab& lab);

struct Exchange {
  std::string name;
  std::function<void(Lab&)> run;
};
const std::vector<Exchange>& AllExchanges();

// ---- Steps that other tests use too ----

// One datagram from a kernel socket to the stack's echo port and back; the test fails if it is lost
// or damaged. `deadline` is the time for all attempts; each lost one is sent again after `retry`.
struct EchoOptions {
  Duration deadline = std::chrono::seconds(5);
  std::optional<Duration> retry = {};
};
void ExpectKernelEcho(Lab& lab, IpFamily family, size_t size, EchoOptions options = {});

// One echo request of the stack and what came of it.
struct PingResult {
  std::optional<EchoReply> reply;
  std::optional<EchoError> error;
};
PingResult PingOnce(Lab& lab, EchoRequest request, Duration limit = std::chrono::seconds(5));
ByteVector BytesOf(const Packet& packet);

}  // namespace tapwire::interop
