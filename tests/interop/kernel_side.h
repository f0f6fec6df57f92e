// SPDX-License-Identifier: Apache-2.0
// The kernel's end of an interop test: sockets, namespaces and settings of the calling thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "drivers/tap/unique_fd.h"
#include "netdev/wire/ip_address.h"
#include "tests/testutil/packet_builder.h"
#include "tests/testutil/tap_fixture.h"

namespace tapwire::interop {

using testutil::ByteVector;

// `ip -batch`: one program for all lines. The error holds what it printed.
absl::Status IpBatch(const std::vector<std::string>& lines);
// Below /proc/sys/net.
absl::Status WriteSysctl(absl::string_view name, absl::string_view value);

// The kernel's counters of bad checksums in this namespace, by name; of all layers and families.
std::map<std::string, uint64_t> KernelCsumErrors();
// A file of this namespace's /proc/net ("dev").
std::string ProcNet(absl::string_view name);

// A UDP socket of the kernel, non-blocking.
class KernelUdp {
 public:
  // Bound to `port` (0: any) on every address.
  explicit KernelUdp(IpFamily family, uint16_t port = 0);

  uint16_t port() const;
  int fd() const { return fd_.get(); }
  void SetOption(int level, int name, int value);
  void Connect(const Endpoint& peer);
  // The errno, 0 if sent.
  int Send(std::span<const uint8_t> data, const std::optional<Endpoint>& to = std::nullopt);
  struct Received {
    ByteVector data;
    Endpoint source;
  };
  // What has arrived; nullopt if nothing, or an error is pending: see error().
  std::optional<Received> Receive();
  // The errno of the last Receive() that gave nothing; EAGAIN if there was nothing to report.
  int error() const { return error_; }
  // Sends everything that has arrived back to where it came from; the number of datagrams so far.
  int Echo();

 private:
  drivers::UniqueFd fd_;
  int error_ = 0;
  int echoed_ = 0;
};

// Sends whole frames out of an interface of the kernel (AF_PACKET).
class RawFrameSocket {
 public:
  explicit RawFrameSocket(const std::string& interface);
  // The errno, 0 if the kernel took it.
  int Send(std::span<const uint8_t> frame);

 private:
  drivers::UniqueFd fd_;
};

// A second network namespace, owned like the present one. It ends with the object.
class OtherNetns {
 public:
  OtherNetns();
  // A path that `ip link set … netns PATH` takes.
  std::string path() const;
  // Calls `body` with the calling thread in it.
  void Inside(absl::FunctionRef<void()> body) const;
  // For a program to be run in it.
  testutil::CommandOptions Options(testutil::CommandOptions options = {}) const;

 private:
  drivers::UniqueFd fd_;
};

// The kernel's neighbour entry as `ip neigh` prints it: "… lladdr 02:… REACHABLE"; empty if none.
std::string KernelNeighbor(const IpAddress& address, const std::string& interface);

}  // namespace tapwire::interop
