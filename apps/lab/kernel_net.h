// SPDX-License-Identifier: Apache-2.0
// The kernel's own macvlans, and what today's kernel has in place of one without offloads: pairs of
// hosts in network namespaces that nobody else sees, and that vanish with their descriptors.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "drivers/tap/unique_fd.h"

namespace tapwire::apps::lab {

class Namespace {
 public:
  // A new network namespace. The calling thread stays in its own. Needs CAP_SYS_ADMIN.
  static absl::StatusOr<Namespace> Create();

  int fd() const { return fd_.get(); }
  // How `ip … netns` takes it, for as long as this process lives.
  std::string path() const;

 private:
  explicit Namespace(drivers::UniqueFd fd) : fd_(std::move(fd)) {}
  drivers::UniqueFd fd_;
};

// The calling thread, and the processes it forks meanwhile, are in that namespace.
class NamespaceVisit {
 public:
  static absl::StatusOr<NamespaceVisit> Enter(const Namespace& there);
  NamespaceVisit(NamespaceVisit&&) = default;
  NamespaceVisit& operator=(NamespaceVisit&&) = delete;
  ~NamespaceVisit();

 private:
  friend class Namespace;
  explicit NamespaceVisit(drivers::UniqueFd home) : home_(std::move(home)) {}
  drivers::UniqueFd home_;
};

// `ip -batch` inside the namespace. kNotFound if there is no such program; an error has what it
// printed.
absl::Status IpBatch(const Namespace& where, const std::vector<std::string>& lines);

// Switches tx checksums, scatter-gather, TSO, GSO and GRO of a device off.
absl::Status SwitchOffloadsOff(const Namespace& where, absl::string_view device);

enum class KernelPath {
  kMacvlans,            // two macvlans in bridge mode on a veth whose offloads are off
  kMacvlansOneSegment,  // the same with `gso_max_segs 1`: every segment travels alone
  kVethNoOffloads,      // a veth pair, offloads off
};
// plain, gso_max_segs_1, veth_no_offloads.
absl::string_view KernelPathName(KernelPath path);

// Where the client is that talks to the host on the macvlan.
enum class KernelClient {
  kSecondMacvlan,
  kFarEnd,  // of the veth below
};

struct KernelPair {
  // The client has kClientAddress, the server kServerAddress.
  Namespace client, server, between;
};
absl::StatusOr<KernelPair> MakeKernelPair(KernelPath path, KernelClient where);

// "6.18.1": for the table.
std::string KernelRelease();

}  // namespace tapwire::apps::lab
