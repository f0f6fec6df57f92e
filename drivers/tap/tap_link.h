// SPDX-License-Identifier: Apache-2.0
//
// Getting hold of a TAP: opening the device node, attaching to an interface, taking over a
// descriptor that somebody else opened, and agreeing on header and offloads. Knows nothing of
// packets; TapDevice drives what comes out of here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "drivers/tap/unique_fd.h"
#include "drivers/tap/vnet_hdr.h"
#include "netdev/wire/ip_address.h"
#include "netdev/wire/mac_address.h"

namespace tapwire::drivers {

inline constexpr char kDefaultTapNode[] = "/dev/net/tun";
inline constexpr size_t kMaxTapQueues = 16;
inline constexpr size_t kMaxInterfaceName = 15;  // IFNAMSIZ without its zero

// An attached TAP: one descriptor per queue, all of the same interface.
struct TapLink {
  std::string name;  // of the kernel's end
  std::vector<UniqueFd> fds;
  MacAddress kernel_mac;    // of the kernel's end; zero if it could not be read
  uint32_t kernel_mtu = 0;  // of the kernel's end; 0 if it is not in our network namespace
  size_t vnet_hdr_size = VnetHdr::kLength;  // 0: the descriptor was opened without IFF_VNET_HDR
  VnetOrder order = VnetOrder::kLittle;
};

// Which offloads the reader of a TAP takes (TUNSETOFFLOAD); the kernel completes the rest itself
// before a frame is read.
struct TapOffloads {
  bool csum = false;
  bool tso = false;  // TSO4, TSO6 and TSO with ECN; needs csum
  bool uso = false;  // USO4 and USO6; needs csum
  bool operator==(const TapOffloads&) const = default;
};

// Whether the kernel takes this as the name of an interface. Empty is fine, and so is one "%d" for
// a number that the kernel chooses.
absl::Status CheckTapName(absl::string_view name);

// Opens a TUN/TAP device node, non-blocking and close-on-exec.
absl::StatusOr<UniqueFd> OpenTapNode(const std::string& path);

// Attaches `queues` descriptors, newly opened from `node_path`, to the interface `name`: created if
// there is none and we may, attached to otherwise. A name that ends in "%d" or is empty lets the
// kernel choose. A multi-queue interface may be attached to with one queue. One that another
// process is attached to is busy (EBUSY), whatever its number of queues: each would get some of the
// frames.
absl::StatusOr<TapLink> AttachTap(const std::string& node_path, const std::string& name,
                                  size_t queues);

// Takes over descriptors that are open already: attached ones, or unattached ones with the `name`
// to attach to. If attached, `name` must be empty or theirs.
absl::StatusOr<TapLink> AdoptTap(std::vector<UniqueFd> fds, const std::string& name);

// Tells the kernel what its frames to us may leave undone. Kernels before 6.2 know no USO: what was
// accepted is returned. `header` is false for a link without vnet header, which gets nothing.
TapOffloads SetTapOffloads(const TapLink& link, TapOffloads wanted);

// Whether others, too, have queues of the interface attached.
bool IsSharedTap(const TapLink& link);

// Shows the kernel's end with or without carrier; false if this kernel (< 5.0) cannot.
bool SetTapCarrier(const TapLink& link, bool on);

// Makes the interface outlive its last descriptor (ip tuntap del … removes it), or not.
absl::Status SetTapPersistent(const TapLink& link, bool on);

// State of the kernel's end as its descriptor shows it.
enum class TapLinkState : uint8_t { kUp, kDown, kGone };
TapLinkState ReadTapLinkState(int fd);

// Sets the MTU of the kernel's end. Needs CAP_NET_ADMIN.
absl::Status SetKernelMtu(const std::string& name, uint32_t mtu);

// Addresses the kernel's end, sets its MTU (0: leaves it) and brings it up. Needs CAP_NET_ADMIN.
absl::Status ConfigureKernelSide(const std::string& name, const std::vector<IpPrefix>& addresses,
                                 uint32_t mtu);

namespace internal {

// The steps that AttachTap and the child of a user namespace share. They allocate nothing, so they
// may run between fork() and exec(). Each returns 0 or an errno.
int TunSetIff(int fd, char name[kMaxInterfaceName + 1], bool multi_queue);

// What to do about a failed TUNSETIFF.
absl::Status TunSetIffError(int err, absl::string_view name, size_t queues);
absl::Status OpenNodeError(int err, absl::string_view path, absl::string_view remedy_for_access);

// What to do about a failed set-up of the kernel's end; empty if the errno says it all.
std::string KernelSideRemedy(int err, absl::string_view name, IpFamily family);

// Sets header size and byte order and reads the kernel end's MAC, for attached descriptors.
absl::Status PrepareTapLink(TapLink& link);

}  // namespace internal
}  // namespace tapwire::drivers
