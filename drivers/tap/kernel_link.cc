// SPDX-License-Identifier: Apache-2.0
#include "drivers/tap/kernel_link.h"

#include <linux/ethtool.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace tapwire::drivers {
namespace {

// A netlink request under construction in a fixed buffer, large enough for every message here.
class Request {
 public:
  Request(uint16_t type, uint16_t flags, uint32_t sequence) {
    nlmsghdr header = {};
    header.nlmsg_type = type;
    header.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
    header.nlmsg_seq = sequence;
    Append(&header, sizeof(header));
  }

  void Append(const void* data, size_t size) {
    std::memcpy(&bytes_[length_], data, size);
    length_ += NLMSG_ALIGN(size);
  }

  void Attribute(uint16_t type, const void* data, size_t size) {
    rtattr attribute = {};
    attribute.rta_type = type;
    attribute.rta_len = static_cast<uint16_t>(RTA_LENGTH(size));
    Append(&attribute, sizeof(attribute));
    Append(data, size);
  }

  std::span<const uint8_t> Finish() {
    const auto total = static_cast<uint32_t>(length_);
    std::memcpy(bytes_.data() + offsetof(nlmsghdr, nlmsg_len), &total, sizeof(total));
    return std::span<const uint8_t>(bytes_).first(length_);
  }

 private:
  std::array<uint8_t, 256> bytes_{};
  size_t length_ = 0;
};

// ioctl on an interface by name, through a throw-away socket. The other fields of `io` are the
// caller's.
int InterfaceIoctl(unsigned long request, const char* name, ifreq& io) {
  UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) {
    return errno;
  }
  std::strncpy(io.ifr_name, name, IFNAMSIZ - 1);
  return ioctl(socket.get(), request, &io) == 0 ? 0 : errno;
}

}  // namespace

int KernelLink::Open() {
  socket_.Reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket_.valid()) {
    return errno;
  }
  // The kernel answers at once; the limit is for the case that it does not.
  const timeval limit = {.tv_sec = 5, .tv_usec = 0};
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  return 0;
}

int KernelLink::IndexOf(const char* name, int& ifindex) {
  ifreq io = {};
  const int err = InterfaceIoctl(SIOCGIFINDEX, name, io);
  ifindex = err == 0 ? io.ifr_ifindex : 0;
  return err;
}

uint32_t KernelLink::MtuOf(const char* name) {
  ifreq io = {};
  return InterfaceIoctl(SIOCGIFMTU, name, io) == 0 ? static_cast<uint32_t>(io.ifr_mtu) : 0;
}

int KernelLink::SetMtuOf(const char* name, uint32_t mtu) {
  ifreq io = {};
  io.ifr_mtu = static_cast<int>(mtu);
  return InterfaceIoctl(SIOCSIFMTU, name, io);
}

uint32_t KernelLink::AttachedQueuesOf(const char* name) {
  ethtool_channels channels = {};
  channels.cmd = ETHTOOL_GCHANNELS;
  ifreq io = {};
  io.ifr_data = reinterpret_cast<char*>(&channels);
  return InterfaceIoctl(SIOCETHTOOL, name, io) == 0 ? channels.combined_count : 0;
}

int KernelLink::Transact(std::span<const uint8_t> request) {
  if (send(socket_.get(), request.data(), request.size(), 0) < 0) {
    return errno;
  }
  alignas(nlmsghdr) std::array<uint8_t, 1024> reply;
  while (true) {
    const ssize_t got = recv(socket_.get(), reply.data(), reply.size(), 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    if (static_cast<size_t>(got) < sizeof(nlmsghdr) + sizeof(int)) {
      return EPROTO;
    }
    nlmsghdr header;
    std::memcpy(&header, reply.data(), sizeof(header));
    if (header.nlmsg_seq != sequence_) {
      continue;  // answer to a request that timed out
    }
    int error = 0;
    if (header.nlmsg_type != NLMSG_ERROR) {
      return EPROTO;
    }
    std::memcpy(&error, reply.data() + sizeof(header), sizeof(error));
    return -error;
  }
}

int KernelLink::SetUp(int ifindex, uint32_t mtu) {
  Request request(RTM_NEWLINK, 0, ++sequence_);
  ifinfomsg info = {};
  info.ifi_family = AF_UNSPEC;
  info.ifi_index = ifindex;
  info.ifi_flags = IFF_UP;
  info.ifi_change = IFF_UP;
  request.Append(&info, sizeof(info));
  if (mtu != 0) {
    request.Attribute(IFLA_MTU, &mtu, sizeof(mtu));
  }
  return Transact(request.Finish());
}

int KernelLink::AddAddress(int ifindex, const IpPrefix& prefix) {
  Request request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, ++sequence_);
  ifaddrmsg info = {};
  info.ifa_family = prefix.address.is_v4() ? AF_INET : AF_INET6;
  info.ifa_prefixlen = static_cast<uint8_t>(prefix.length);
  info.ifa_index = static_cast<uint32_t>(ifindex);
  if (prefix.address.is_v6()) {
    info.ifa_flags = IFA_F_NODAD;
  }
  request.Append(&info, sizeof(info));
  const std::span<const uint8_t> address = prefix.address.bytes();
  request.Attribute(IFA_LOCAL, address.data(), address.size());
  request.Attribute(IFA_ADDRESS, address.data(), address.size());
  if (const auto broadcast = prefix.Broadcast(); broadcast.has_value()) {
    request.Attribute(IFA_BROADCAST, broadcast->bytes().data(), Ipv4Address::kLength);
  }
  const int error = Transact(request.Finish());
  return error == EEXIST ? 0 : error;
}

}  // namespace tapwire::drivers
