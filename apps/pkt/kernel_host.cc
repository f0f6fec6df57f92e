// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/kernel_host.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "apps/pkt/call_args.h"
#include "apps/pkt/settings.h"

namespace tapwire::pkt {
namespace {

using drivers::UniqueFd;

constexpr char kTunName[] = "tun0";

absl::Status SystemError(absl::string_view what) {
  return absl::ErrnoToStatus(errno, std::string(what));
}

bool WriteFile(const std::string& path, absl::string_view text) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file.valid() &&
         write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// The start of every run: buffers as the scripts' collections have them, and without what belongs
// to the link or to features beside the point.
struct KernelSetting {
  const char *path, *value;
};
constexpr KernelSetting kKernelDefaults[] = {
    {"net/ipv4/tcp_rmem", "4096 131072 15728640"},
    {"net/ipv4/tcp_wmem", "4096 16384 4194304"},
    {"net/ipv4/tcp_ecn", "0"},
    {"net/ipv4/tcp_recovery", "0"},
    {"net/ipv4/tcp_early_retrans", "0"},
    {"net/ipv4/tcp_frto", "0"},
    {"net/ipv4/tcp_autocorking", "0"},
    {"net/ipv4/tcp_syncookies", "0"},
    {"net/ipv4/tcp_comp_sack_nr", "0"},
    {"net/ipv4/icmp_ratelimit", "0"},
    {"net/ipv6/icmp/ratelimit", "0"},
};

bool ApplyOne(absl::string_view path, absl::string_view value) {
  std::string file = absl::StrReplaceAll(path, {{".", "/"}});
  absl::string_view below = file;
  absl::ConsumePrefix(&below, "/proc/sys/");
  if (!absl::StartsWith(below, "net/")) return false;
  return WriteFile(absl::StrCat("/proc/sys/", below), value);
}

absl::Status EnterNamespace() {
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  const bool root = unshare(CLONE_NEWNET) == 0;
  if (!root) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return SystemError("network namespace");
    WriteFile("/proc/self/setgroups", "deny");
    if (!WriteFile("/proc/self/uid_map", absl::StrCat("0 ", uid, " 1")) ||
        !WriteFile("/proc/self/gid_map", absl::StrCat("0 ", gid, " 1"))) {
      return SystemError("user namespace");
    }
  }
  return absl::OkStatus();
}

void Name(ifreq& request, const char* name) {
  request = {};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
}

absl::Status BringUp(int control, const char* name) {
  ifreq request;
  Name(request, name);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return ioctl(control, SIOCSIFFLAGS, &request) == 0 ? absl::OkStatus()
                                                     : SystemError(absl::StrCat(name, " up"));
}

void PutAddress(sockaddr& out, Ipv4Address address) {
  const sockaddr_storage storage = ToSockaddr({address, 0, 0}, /*v6=*/false);
  std::memcpy(&out, &storage, sizeof(out));
}

absl::Status AddIpv4(int control, Ipv4Address local) {
  ifreq request;
  Name(request, kTunName);
  PutAddress(request.ifr_addr, local);
  if (ioctl(control, SIOCSIFADDR, &request) != 0) return SystemError("IPv4 address");
  PutAddress(request.ifr_netmask, Ipv4Address{255, 255, 255, 0});
  if (ioctl(control, SIOCSIFNETMASK, &request) != 0) return SystemError("IPv4 netmask");
  return absl::OkStatus();
}

absl::Status RouteIpv4(int control) {
  char name[] = "tun0";
  rtentry route{};
  PutAddress(route.rt_dst, Ipv4Address{0, 0, 0, 0});
  PutAddress(route.rt_genmask, Ipv4Address{0, 0, 0, 0});
  route.rt_flags = RTF_UP;
  route.rt_dev = name;
  return ioctl(control, SIOCADDRT, &route) == 0 ? absl::OkStatus() : SystemError("IPv4 route");
}

absl::Status AddIpv6(const Ipv6Address& local) {
  const UniqueFd control(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!control.valid()) return SystemError("IPv6");
  const auto index = static_cast<int>(if_nametoindex(kTunName));
  in6_ifreq address{};
  local.CopyTo(address.ifr6_addr.s6_addr);
  address.ifr6_prefixlen = 64;
  address.ifr6_ifindex = index;
  if (ioctl(control.get(), SIOCSIFADDR, &address) != 0) return SystemError("IPv6 address");
  in6_rtmsg route{};
  route.rtmsg_flags = RTF_UP;
  route.rtmsg_metric = 1;
  route.rtmsg_ifindex = index;
  if (ioctl(control.get(), SIOCADDRT, &route) != 0) return SystemError("IPv6 route");
  // The kernel makes it usable a moment later.
  const sockaddr_storage name = ToSockaddr({local, 0, 0}, /*v6=*/true);
  constexpr int kMostTries = 5000;
  for (int i = 0; i < kMostTries; ++i) {
    if (bind(control.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(sockaddr_in6)) == 0) {
      return absl::OkStatus();
    }
    usleep(200);
  }
  return SystemError("IPv6 address in use");
}

bool IsMulticast(const std::vector<uint8_t>& datagram) {
  if (datagram.size() < 20) return true;
  if (datagram[0] >> 4 == 4) return datagram[16] >> 4 == 0xe;
  return datagram.size() < 40 || datagram[24] == 0xff;
}

}  // namespace

KernelHost::KernelHost(const NetSetup& setup, Waiter& waiter)
    : calls_(std::make_unique<KernelCalls>(waiter)) {
  status_ = Configure(setup);
  // Where it is allowed: a script that is late proves nothing.
  prctl(PR_SET_TIMERSLACK, 1000UL);
  sched_param priority{.sched_priority = 1};
  sched_setscheduler(0, SCHED_RR, &priority);
  calls_->StartThreads();
}

absl::Status KernelHost::Configure(const NetSetup& setup) {
  if (absl::Status entered = EnterNamespace(); !entered.ok()) return entered;
  tun_ = UniqueFd(open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!tun_.valid()) return SystemError("/dev/net/tun");
  ifreq request;
  Name(request, kTunName);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (ioctl(tun_.get(), TUNSETIFF, &request) != 0) return SystemError("TUNSETIFF");
  const UniqueFd control(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  Name(request, kTunName);
  request.ifr_mtu = static_cast<int>(setup.mtu);
  if (ioctl(control.get(), SIOCSIFMTU, &request) != 0) return SystemError("MTU");
  // No packets that the script did not ask for.
  ApplyOne("net/ipv6/conf/tun0/addr_gen_mode", "1");
  ApplyOne("net/ipv6/conf/tun0/router_solicitations", "0");
  for (const KernelSetting& setting : kKernelDefaults) ApplyOne(setting.path, setting.value);
  if (absl::Status v4 = AddIpv4(control.get(), setup.local4); !v4.ok()) return v4;
  for (const char* name : {"lo", kTunName}) {
    if (absl::Status up = BringUp(control.get(), name); !up.ok()) return up;
  }
  if (absl::Status routed = RouteIpv4(control.get()); !routed.ok()) return routed;
  return setup.mtu < 1280 ? absl::OkStatus() : AddIpv6(setup.local6);
}

Time KernelHost::now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Time(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

bool KernelHost::Inject(std::span<const uint8_t> datagram) {
  return write(tun_.get(), datagram.data(), datagram.size()) ==
         static_cast<ssize_t>(datagram.size());
}

bool KernelHost::Settle() {
  std::vector<uint8_t> buffer(65536);
  for (;;) {
    const ssize_t length = read(tun_.get(), buffer.data(), buffer.size());
    if (length <= 0) return true;
    SentDatagram datagram{{buffer.begin(), buffer.begin() + length}, now()};
    if (!IsMulticast(datagram.bytes)) sent_.push_back(std::move(datagram));
  }
}

void KernelHost::SetTime(Time time) {
  const Duration left = std::max(time - now(), Duration{0});
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec timeout{seconds.count(), (left - seconds).count()};
  pollfd fds[] = {{tun_.get(), POLLIN, 0}, {calls_->wake_fd(), POLLIN, 0}};
  ppoll(fds, 2, &timeout, nullptr);
  eventfd_t ended = 0;
  eventfd_read(calls_->wake_fd(), &ended);
}

std::optional<std::string> KernelHost::Apply(absl::string_view command) {
  std::vector<Setting> settings;
  if (auto reason = ReadCommand(command, settings)) return reason;
  for (const Setting& setting : settings) {
    if (setting.path == kDefaultSettings) {
      for (const KernelSetting& each : kKernelDefaults) ApplyOne(each.path, each.value);
      ApplyOne("net/ipv4/tcp_early_retrans", "3");
    } else if (absl::EndsWith(setting.path, "tcp_congestion_control")) {
      calls_->set_congestion_control(setting.value);
    } else if (!ApplyOne(setting.path, setting.value)) {
      return absl::StrCat("setting ", setting.path, "=", setting.value, " of the kernel");
    }
  }
  return std::nullopt;
}

size_t KernelHost::Destroy() {
  tun_.Reset();
  return 0;
}

}  // namespace tapwire::pkt
