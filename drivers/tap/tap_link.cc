// SPDX-License-Identifier: Apache-2.0
#include "drivers/tap/tap_link.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "drivers/tap/kernel_link.h"
#include "drivers/tap/system_error.h"
#include "netdev/base/status_util.h"

namespace tapwire::drivers {
namespace {

// Younger than the headers of Linux 6.1.
constexpr unsigned kTunFUso4 = 0x20;
constexpr unsigned kTunFUso6 = 0x40;

// As dev_valid_name() of the kernel has it, and no character that would garble a message.
bool IsNameCharacter(char c) {
  return !absl::ascii_isspace(static_cast<unsigned char>(c)) &&
         !absl::ascii_iscntrl(static_cast<unsigned char>(c)) && c != '/' && c != ':' && c != '%';
}

absl::Status SetNonBlocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
    return SystemError(errno, absl::StrCat("descriptor ", fd));
  }
  return absl::OkStatus();
}

// Name and flags of the interface that `fd` is attached to. EBADFD: attached to none. Others: not
// a descriptor of the TUN/TAP driver.
int TunGetIff(int fd, ifreq& result) {
  std::memset(&result, 0, sizeof(result));
  return ioctl(fd, TUNGETIFF, &result) == 0 ? 0 : errno;
}

MacAddress HardwareAddress(int fd) {
  ifreq request = {};
  if (ioctl(fd, SIOCGIFHWADDR, &request) != 0) {
    return MacAddress();
  }
  return MacAddress::FromBytes(
      {reinterpret_cast<const uint8_t*>(request.ifr_hwaddr.sa_data), MacAddress::kLength});
}

// The interface of this name in our network namespace may be another one than the descriptor's.
bool IsInOurNamespace(const TapLink& link) {
  UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = {};
  link.name.copy(request.ifr_name, IFNAMSIZ - 1);
  return socket.valid() && ioctl(socket.get(), SIOCGIFHWADDR, &request) == 0 &&
         MacAddress::FromBytes({reinterpret_cast<const uint8_t*>(request.ifr_hwaddr.sa_data),
                                MacAddress::kLength}) == link.kernel_mac;
}

// TUNSETIFF on one descriptor; `name` becomes the interface's.
absl::Status Attach(int fd, std::string& name, size_t queues, bool multi_queue) {
  char buffer[kMaxInterfaceName + 1] = {};
  name.copy(buffer, kMaxInterfaceName);
  int err = internal::TunSetIff(fd, buffer, multi_queue);
  if (err == EINVAL && !multi_queue) {
    // One queue of a multi-queue interface is as good as a single-queue one.
    err = internal::TunSetIff(fd, buffer, true);
  }
  if (err != 0) {
    return internal::TunSetIffError(err, name, queues);
  }
  name = buffer;
  return absl::OkStatus();
}

// Checks an attached descriptor's flags and that all are of one interface.
absl::Status CheckAttached(const ifreq& request, int fd, TapLink& link) {
  const auto flags = static_cast<unsigned>(static_cast<unsigned short>(request.ifr_flags));
  const std::string what = absl::StrCat("descriptor ", fd, " (", request.ifr_name, ")");
  if ((flags & IFF_TAP) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": is a TUN, which carries no Ethernet; open it with IFF_TAP"));
  }
  // Whether it has packet information headers (no IFF_NO_PI) cannot be seen: the kernel uses that
  // bit of the answer for something else.
  if (!link.name.empty() && link.name != request.ifr_name) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": is not attached to ", link.name,
                                                   "; leave the name out or give the right one"));
  }
  link.name = request.ifr_name;
  if ((flags & IFF_VNET_HDR) == 0) {
    link.vnet_hdr_size = 0;
  }
  return absl::OkStatus();
}

}  // namespace

namespace internal {

int TunSetIff(int fd, char name[kMaxInterfaceName + 1], bool multi_queue) {
  ifreq request = {};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_flags =
      static_cast<short>(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | (multi_queue ? IFF_MULTI_QUEUE : 0));
  if (ioctl(fd, TUNSETIFF, &request) != 0) {
    return errno;
  }
  std::memcpy(name, request.ifr_name, kMaxInterfaceName);
  name[kMaxInterfaceName] = '\0';
  return 0;
}

absl::Status TunSetIffError(int err, absl::string_view name, size_t queues) {
  const std::string what = absl::StrCat("attach to TAP '", name, "' (TUNSETIFF)");
  switch (err) {
    case EPERM:
      return SystemError(
          err, what,
          absl::StrCat(
              "it does not exist or belongs to another user; as root run: ip tuntap add dev ",
              name.empty() ? "tap0" : name, " mode tap user <you> vnet_hdr",
              queues > 1 ? " multi_queue" : "",
              "; or use a user namespace (userns), an opened descriptor (fd=N), or root"));
    case ENOTTY:
      return SystemError(err, what,
                         "the device node is no TUN/TAP node; the usual one is /dev/net/tun");
    case EBUSY:
      return SystemError(err, what,
                         "another process is attached to it; stop that one or choose another name");
    case EINVAL:
      return SystemError(
          err, what,
          queues > 1
              ? "the interface exists and is not a multi-queue TAP; use queues=1, or make it with: "
                "ip tuntap add … multi_queue"
              : "an interface of this name exists and is not a TAP; choose another name");
    case E2BIG:
      return SystemError(err, what, "all its queues are attached; use fewer queues");
    case EBADFD:
    case EEXIST:
      return SystemError(err, what, "the descriptor is attached to another interface already");
    default:
      return SystemError(err, what);
  }
}

absl::Status OpenNodeError(int err, absl::string_view path, absl::string_view remedy_for_access) {
  const std::string what = absl::StrCat("open ", path);
  switch (err) {
    case EACCES:
    case EPERM:
      return SystemError(err, what, remedy_for_access);
    case ENOENT:
      return SystemError(err, what,
                         absl::StrCat("there is no such node; make it as root with: mknod -m 0666 ",
                                      path, " c 10 200, or name another one (dev=PATH)"));
    case ENODEV:
    case ENXIO:
      return SystemError(err, what, "the kernel has no TUN/TAP driver; as root run: modprobe tun");
    default:
      return SystemError(err, what);
  }
}

std::string KernelSideRemedy(int err, absl::string_view name, IpFamily family) {
  if (err == EACCES && family == IpFamily::kV6) {  // what rtnetlink says of disable_ipv6
    return absl::StrCat("IPv6 is switched off there; as root run: sysctl net.ipv6.conf.", name,
                        ".disable_ipv6=0");
  }
  if (err == EPERM || err == EACCES) {
    return absl::StrCat("it takes CAP_NET_ADMIN; as root run: ip addr add … dev ", name,
                        " && ip link set ", name, " up");
  }
  return "";
}

absl::Status PrepareTapLink(TapLink& link) {
  for (const UniqueFd& fd : link.fds) {
    TW_RETURN_IF_ERROR(SetNonBlocking(fd.get()));
  }
  const int fd = link.fds.front().get();
  if (link.vnet_hdr_size != 0) {
    int size = static_cast<int>(VnetHdr::kLength);
    if (ioctl(fd, TUNSETVNETHDRSZ, &size) != 0) {
      size = static_cast<int>(VnetHdr::kLegacyLength);
    }
    link.vnet_hdr_size = static_cast<size_t>(size);
    int little = 1;
    link.order = ioctl(fd, TUNSETVNETLE, &little) == 0 ? VnetOrder::kLittle : kNativeVnetOrder;
  }
  link.kernel_mac = HardwareAddress(fd);
  link.kernel_mtu = IsInOurNamespace(link) ? KernelLink::MtuOf(link.name.c_str()) : 0;
  return absl::OkStatus();
}

}  // namespace internal

absl::Status CheckTapName(absl::string_view name) {
  std::string fixed(name);
  if (const size_t number = fixed.find("%d"); number != std::string::npos) {
    fixed.erase(number, 2);
  }
  if (name.size() > kMaxInterfaceName || name == "." || name == ".." ||
      !std::all_of(fixed.begin(), fixed.end(), IsNameCharacter)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", name, "' is no valid interface name: at most ", kMaxInterfaceName,
        " bytes, not '.' or '..', without '/', ':', '%' (but one %d is a number that the kernel "
        "chooses), white space and control characters"));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> OpenTapNode(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) {
    return internal::OpenNodeError(
        errno, path,
        absl::StrCat("make the node accessible (as root: chmod 0666 ", path,
                     "), name another node (dev=PATH), pass an opened descriptor with fd=N, or "
                     "run as root"));
  }
  return fd;
}

absl::StatusOr<TapLink> AttachTap(const std::string& node_path, const std::string& name,
                                  size_t queues) {
  TW_RETURN_IF_ERROR(CheckTapName(name));
  if (queues < 1 || queues > kMaxTapQueues) {
    return absl::InvalidArgumentError(
        absl::StrCat("TAP '", name, "': queues=", queues, " is not in 1..", kMaxTapQueues));
  }
  TapLink link;
  link.name = name;
  for (size_t i = 0; i < queues; ++i) {
    TW_ASSIGN_OR_RETURN(UniqueFd fd, OpenTapNode(node_path));
    TW_RETURN_IF_ERROR(Attach(fd.get(), link.name, queues, queues > 1));
    link.fds.push_back(std::move(fd));
  }
  // The kernel refuses a second owner of a single-queue TAP only.
  if (KernelLink::AttachedQueuesOf(link.name.c_str()) > queues) {
    return internal::TunSetIffError(EBUSY, link.name, queues);
  }
  TW_RETURN_IF_ERROR(internal::PrepareTapLink(link));
  return link;
}

absl::StatusOr<TapLink> AdoptTap(std::vector<UniqueFd> fds, const std::string& name) {
  TW_RETURN_IF_ERROR(CheckTapName(name));
  if (fds.empty() || fds.size() > kMaxTapQueues) {
    return absl::InvalidArgumentError(absl::StrCat("TAP '", name, "': ", fds.size(),
                                                   " descriptors are not in 1..", kMaxTapQueues));
  }
  TapLink link;
  link.name = name;
  for (const UniqueFd& fd : fds) {
    ifreq request;
    const int err = TunGetIff(fd.get(), request);
    if (err == EBADFD) {
      if (link.name.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "descriptor ", fd.get(), ": is not attached to an interface yet; give its name too"));
      }
      TW_RETURN_IF_ERROR(Attach(fd.get(), link.name, fds.size(), fds.size() > 1));
    } else if (err != 0) {
      return SystemError(err, absl::StrCat("descriptor ", fd.get(), " (TUNGETIFF)"),
                         "it is not an opened /dev/net/tun");
    } else {
      TW_RETURN_IF_ERROR(CheckAttached(request, fd.get(), link));
    }
  }
  link.fds = std::move(fds);
  TW_RETURN_IF_ERROR(internal::PrepareTapLink(link));
  return link;
}

TapOffloads SetTapOffloads(const TapLink& link, TapOffloads wanted) {
  if (link.vnet_hdr_size == 0) {
    return TapOffloads();
  }
  const int fd = link.fds.front().get();
  const unsigned csum = wanted.csum ? TUN_F_CSUM : 0U;
  const unsigned tso = csum != 0 && wanted.tso ? TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN : 0U;
  const unsigned uso = csum != 0 && wanted.uso ? kTunFUso4 | kTunFUso6 : 0U;
  for (const unsigned flags : {csum | tso | uso, csum | tso, csum}) {
    if (ioctl(fd, TUNSETOFFLOAD, static_cast<unsigned long>(flags)) == 0) {
      return TapOffloads{.csum = (flags & TUN_F_CSUM) != 0,
                         .tso = (flags & TUN_F_TSO4) != 0,
                         .uso = (flags & kTunFUso4) != 0};
    }
  }
  // Not even checksums: say so, so that the kernel completes everything.
  (void)ioctl(fd, TUNSETOFFLOAD, 0UL);
  return TapOffloads();
}

bool IsSharedTap(const TapLink& link) {
  return IsInOurNamespace(link) &&
         KernelLink::AttachedQueuesOf(link.name.c_str()) > link.fds.size();
}

bool SetTapCarrier(const TapLink& link, bool on) {
  int carrier = on ? 1 : 0;
  return ioctl(link.fds.front().get(), TUNSETCARRIER, &carrier) == 0;
}

absl::Status SetTapPersistent(const TapLink& link, bool on) {
  if (ioctl(link.fds.front().get(), TUNSETPERSIST, on ? 1UL : 0UL) != 0) {
    return SystemError(errno, absl::StrCat("TAP ", link.name, " (TUNSETPERSIST)"));
  }
  return absl::OkStatus();
}

TapLinkState ReadTapLinkState(int fd) {
  // The TUN/TAP driver says "writable" exactly while the interface is up, and "error" once it has
  // been removed.
  pollfd state = {.fd = fd, .events = POLLOUT, .revents = 0};
  if (poll(&state, 1, 0) < 0) {
    return TapLinkState::kDown;
  }
  if ((state.revents & (POLLERR | POLLNVAL)) != 0) {
    return TapLinkState::kGone;
  }
  return (state.revents & POLLOUT) != 0 ? TapLinkState::kUp : TapLinkState::kDown;
}

absl::Status SetKernelMtu(const std::string& name, uint32_t mtu) {
  if (const int err = KernelLink::SetMtuOf(name.c_str(), mtu); err != 0) {
    return SystemError(err, absl::StrCat("set MTU ", mtu, " on the kernel side of ", name),
                       absl::StrCat("as root run: ip link set ", name, " mtu ", mtu));
  }
  return absl::OkStatus();
}

absl::Status ConfigureKernelSide(const std::string& name, const std::vector<IpPrefix>& addresses,
                                 uint32_t mtu) {
  KernelLink kernel;
  if (const int err = kernel.Open(); err != 0) {
    return SystemError(err, "open a rtnetlink socket");
  }
  int ifindex = 0;
  if (const int err = KernelLink::IndexOf(name.c_str(), ifindex); err != 0) {
    return SystemError(err, absl::StrCat("look for the kernel side of ", name),
                       err == ENODEV ? "it is not in this network namespace" : "");
  }
  if (const int err = kernel.SetUp(ifindex, mtu); err != 0) {
    return SystemError(err, absl::StrCat("bring the kernel side of ", name, " up"),
                       internal::KernelSideRemedy(err, name, IpFamily::kV4));
  }
  for (const IpPrefix& address : addresses) {
    if (const int err = kernel.AddAddress(ifindex, address); err != 0) {
      return SystemError(err,
                         absl::StrCat("add ", address.ToString(), " to the kernel side of ", name),
                         internal::KernelSideRemedy(err, name, address.address.family()));
    }
  }
  return absl::OkStatus();
}

}  // namespace tapwire::drivers
