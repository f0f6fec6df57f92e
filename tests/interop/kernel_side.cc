// SPDX-License-Identifier: Apache-2.0
#include "tests/interop/kernel_side.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "netdev/base/status_util.h"
#include "tests/interop/kernel_address.h"

namespace tapwire::interop {
namespace {

constexpr size_t kMaxDatagram = 65'536;

int OpenOwnNetns() { return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC); }

}  // namespace

absl::Status IpBatch(const std::vector<std::string>& lines) {
  const testutil::CommandResult result =
      testutil::Command({"ip", "-batch", "-"}, {.input = absl::StrJoin(lines, "\n") + "\n"}).Wait();
  if (result.ok()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("ip -batch: ", result.output, " in: ", absl::StrJoin(lines, "; ")));
}

absl::Status WriteSysctl(absl::string_view name, absl::string_view value) {
  const std::string path = absl::StrCat("/proc/sys/net/", name);
  const drivers::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid() || write(fd.get(), value.data(), value.size()) < 0) {
    return ErrnoStatus(errno, absl::StrCat("write '", value, "' to ", path));
  }
  return absl::OkStatus();
}

// ---- Counters ----

namespace {

// The fixture's functions, for code outside of fixtures.
struct FixtureAccess : testutil::NetnsFixture {
  using NetnsFixture::KernelCsumErrors;
  using NetnsFixture::ProcNet;
};

// Of /proc/net/netstat, which has two lines per group: names, then values.
uint64_t NetstatCounter(absl::string_view group, absl::string_view name) {
  std::vector<absl::string_view> names;
  const std::string text = ProcNet("netstat");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.empty() || words[0] != group) continue;
    if (names.empty()) {
      names = words;
      continue;
    }
    for (size_t i = 1; i < std::min(names.size(), words.size()); ++i) {
      uint64_t value = 0;
      if (names[i] == name && absl::SimpleAtoi(words[i], &value)) return value;
    }
  }
  ADD_FAILURE() << "no " << group << name << " in netstat";
  return 0;
}

}  // namespace

std::string ProcNet(absl::string_view name) { return FixtureAccess::ProcNet(name); }

std::map<std::string, uint64_t> KernelCsumErrors() {
  std::map<std::string, uint64_t> errors = FixtureAccess::KernelCsumErrors();
  // These count expired packets too; the header checksum of IPv4 has a counter of its own.
  errors.erase("IpInHdrErrors");
  errors.erase("Ip6InHdrErrors");
  errors["IpExtInCsumErrors"] = NetstatCounter("IpExt:", "InCsumErrors");
  return errors;
}

// ---- KernelUdp ----

KernelUdp::KernelUdp(IpFamily family, uint16_t port) {
  const int domain = family == IpFamily::kV4 ? AF_INET : AF_INET6;
  fd_.Reset(socket(domain, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  EXPECT_TRUE(fd_.valid()) << std::strerror(errno);
  if (family == IpFamily::kV6) SetOption(IPPROTO_IPV6, IPV6_V6ONLY, 1);
  SocketAddress any = ToKernel({IpAddress::Unspecified(family), port, 0});
  EXPECT_EQ(bind(fd_.get(), any.get(), any.length), 0) << std::strerror(errno);
}

uint16_t KernelUdp::port() const {
  SocketAddress own;
  own.length = sizeof(own.storage);
  EXPECT_EQ(getsockname(fd_.get(), own.get(), &own.length), 0) << std::strerror(errno);
  return FromKernel(own).port;
}

void KernelUdp::SetOption(int level, int name, int value) {
  EXPECT_EQ(setsockopt(fd_.get(), level, name, &value, sizeof(value)), 0) << std::strerror(errno);
}

void KernelUdp::Connect(const Endpoint& peer) {
  SocketAddress address = ToKernel(peer);
  EXPECT_EQ(connect(fd_.get(), address.get(), address.length), 0) << std::strerror(errno);
}

int KernelUdp::Send(std::span<const uint8_t> data, const std::optional<Endpoint>& to) {
  SocketAddress address;
  if (to.has_value()) address = ToKernel(*to);
  const ssize_t sent = sendto(fd_.get(), data.data(), data.size(), 0,
                              to.has_value() ? address.get() : nullptr, address.length);
  return sent < 0 ? errno : 0;
}

std::optional<KernelUdp::Received> KernelUdp::Receive() {
  ByteVector buffer(kMaxDatagram);
  SocketAddress from;
  from.length = sizeof(from.storage);
  const ssize_t got =
      recvfrom(fd_.get(), buffer.data(), buffer.size(), 0, from.get(), &from.length);
  if (got < 0) {
    error_ = errno;
    return std::nullopt;
  }
  error_ = 0;
  buffer.resize(static_cast<size_t>(got));
  return Received{.data = std::move(buffer), .source = FromKernel(from)};
}

int KernelUdp::Echo() {
  while (const std::optional<Received> datagram = Receive()) {
    EXPECT_EQ(Send(datagram->data, datagram->source), 0) << datagram->data.size() << " bytes";
    ++echoed_;
  }
  return echoed_;
}

// ---- RawFrameSocket ----

RawFrameSocket::RawFrameSocket(const std::string& interface)
    : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)) {
  EXPECT_TRUE(fd_.valid()) << std::strerror(errno);
  sockaddr_ll address = {};
  address.sll_family = AF_PACKET;
  address.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0)
      << interface << ": " << std::strerror(errno);
}

int RawFrameSocket::Send(std::span<const uint8_t> frame) {
  return send(fd_.get(), frame.data(), frame.size(), 0) < 0 ? errno : 0;
}

// ---- OtherNetns ----

OtherNetns::OtherNetns() {
  const drivers::UniqueFd own(OpenOwnNetns());
  const bool made = unshare(CLONE_NEWNET) == 0;
  EXPECT_TRUE(made) << "unshare(CLONE_NEWNET): " << std::strerror(errno);
  fd_.Reset(OpenOwnNetns());
  const absl::Status loopback = IpBatch({"link set lo up"});
  EXPECT_TRUE(loopback.ok()) << loopback;
  EXPECT_EQ(setns(own.get(), CLONE_NEWNET), 0) << std::strerror(errno);
}

std::string OtherNetns::path() const { return absl::StrCat("/proc/", getpid(), "/fd/", fd_.get()); }

void OtherNetns::Inside(absl::FunctionRef<void()> body) const {
  const drivers::UniqueFd own(OpenOwnNetns());
  ASSERT_EQ(setns(fd_.get(), CLONE_NEWNET), 0) << std::strerror(errno);
  body();
  ASSERT_EQ(setns(own.get(), CLONE_NEWNET), 0) << std::strerror(errno);
}

testutil::CommandOptions OtherNetns::Options(testutil::CommandOptions options) const {
  options.prepare = [fd = fd_.get()] { return setns(fd, CLONE_NEWNET) == 0; };
  return options;
}

std::string KernelNeighbor(const IpAddress& address, const std::string& interface) {
  const testutil::CommandResult result =
      testutil::Command({"ip", "neigh", "show", address.ToString(), "dev", interface}).Wait();
  return std::string(absl::StripTrailingAsciiWhitespace(result.output));
}

}  // namespace tapwire::interop
