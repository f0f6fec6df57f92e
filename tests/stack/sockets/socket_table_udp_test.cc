// SPDX-License-Identifier: Apache-2.0
// UDP sockets of the table, compared call by call with the kernel's (see socket_table_oracle.h).

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/stack/sockets/socket_table_oracle.h"

namespace tapwire {
namespace {

using testutil::Address;
using testutil::CompareWithKernel;
using testutil::Flavour;
using testutil::MakeAddress;
using testutil::Script;
using testutil::Session;

class SocketTableUdpTest : public testutil::KernelComparison {};

TEST_P(SocketTableUdpTest, AnswersAsTheKernel) { Compare(); }

int BoundUdp(Session& s) {
  const int fd = s.Udp();
  s.Bind(fd, s.Loopback(0));
  return fd;
}

int64_t SendTo(Session& s, int fd, const std::string& data, const Address& to, int flags = 0) {
  return s.Note("sendto", s.api.SendTo(fd, data.data(), data.size(), flags | MSG_DONTWAIT, to.get(),
                                       to.length));
}

void RecvFrom(Session& s, int fd, size_t size, uint16_t port, int flags = MSG_DONTWAIT) {
  std::string data(size, '\0');
  Address from;
  from.length = sizeof(from.storage);
  const int64_t n = s.api.RecvFrom(fd, data.data(), size, flags, from.get(), &from.length);
  s.Note("recvfrom " + (n > 0 ? data.substr(0, std::min(size, static_cast<size_t>(n))) : ""), n);
  if (n >= 0) s.NoteName("from", 0, from, port);
}

void FreshUdp(Session& s) {
  const int fd = s.Udp();
  s.Events(fd);
  s.Recv(fd, 1);
  s.Recv(fd, 1, MSG_DONTWAIT | MSG_ERRQUEUE);
  s.Send(fd, "x");
  s.Send(fd, "");
  s.SockName(fd, 0);
  s.PeerName(fd, 0);
  s.Listen(fd);
  s.Note("accept", s.api.Accept4(fd, nullptr, nullptr, 0));
  s.Inq(fd, SIOCINQ, "SIOCINQ");
  s.Inq(fd, SIOCOUTQ, "SIOCOUTQ");
  s.GetInt(fd, SOL_SOCKET, SO_ERROR, "SO_ERROR");
  s.GetInt(fd, SOL_SOCKET, SO_TYPE, "SO_TYPE");
  s.GetInt(fd, IPPROTO_TCP, TCP_NODELAY, "TCP_NODELAY");
  s.Note("shutdown 3", s.api.Shutdown(fd, 3));
  s.Note("shutdown RD", s.api.Shutdown(fd, SHUT_RD));
  s.Events(fd);
  s.Recv(fd, 1);
  s.Recv(fd, 1, 0);
  s.Note("shutdown WR", s.api.Shutdown(fd, SHUT_WR));
  s.Events(fd);
  SendTo(s, fd, "x", s.Loopback(9));
}

void Datagrams(Session& s) {
  const int a = BoundUdp(s), b = s.Udp();
  SendTo(s, b, "first", s.NameOf(a));
  SendTo(s, b, "", s.NameOf(a));
  SendTo(s, b, "third and long", s.NameOf(a));
  s.Await(a, POLLIN);
  const uint16_t port = s.PortOf(b);
  s.Inq(a, SIOCINQ, "SIOCINQ");
  RecvFrom(s, a, 20, port, MSG_DONTWAIT | MSG_PEEK);
  RecvFrom(s, a, 20, port);
  s.Inq(a, SIOCINQ, "SIOCINQ");
  RecvFrom(s, a, 20, port);
  RecvFrom(s, a, 5, port, MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC);
  char in[5] = {};
  iovec iov = {in, 4};
  msghdr m = {};
  m.msg_iov = &iov;
  m.msg_iovlen = 1;
  s.Note("recvmsg", s.api.RecvMsg(a, &m, MSG_DONTWAIT));
  s.Note(in);
  s.Note("flags", m.msg_flags);
  RecvFrom(s, a, 5, port);
  s.SockName(b, port);
  s.Events(a);
}

void SendMisuse(Session& s) {
  const int a = BoundUdp(s);
  const Address to = s.NameOf(a);
  const int fd = s.Udp();
  s.Note("short", s.api.SendTo(fd, "x", 1, 0, to.get(), s.v4() ? 15 : 23));
  s.Note("one byte", s.api.SendTo(fd, "x", 1, 0, to.get(), 1));
  if (s.v4()) SendTo(s, fd, "x", MakeAddress(AF_INET6, "::1", 9));
  SendTo(s, fd, "x", s.Loopback(0));
  SendTo(s, fd, "x", to, MSG_OOB);
  const std::string long_one(65536, 'l');
  SendTo(s, fd, long_one, to);
  SendTo(s, fd, long_one.substr(0, s.flavour() == Flavour::kV6 ? 65528 : 65508), to);
  SendTo(s, fd, long_one.substr(0, s.flavour() == Flavour::kV6 ? 65527 : 65507), to);
  std::string in(70'000, '\0');
  s.Await(a, POLLIN);
  s.Note("whole", s.api.Recv(a, in.data(), in.size(), MSG_DONTWAIT));
  SendTo(s, fd, "x",
         MakeAddress(s.domain(), s.v4() ? "255.255.255.255" : "::ffff:255.255.255.255", 9));
  s.Note("bad fd", s.api.SendTo(9999, "x", 1, 0, to.get(), to.length));
  s.Note("null data", s.api.SendTo(fd, nullptr, 1, 0, to.get(), to.length));
}

void Connected(Session& s) {
  const int a = BoundUdp(s), b = BoundUdp(s), third = BoundUdp(s);
  s.Connect(b, s.NameOf(a));
  s.PeerName(b, s.PortOf(a));
  s.Send(b, "to a");
  s.Await(a, POLLIN);
  RecvFrom(s, a, 10, s.PortOf(b));
  // Only the peer's datagrams come in.
  SendTo(s, third, "stranger", s.NameOf(b));
  SendTo(s, a, "peer", s.NameOf(b));
  s.Await(b, POLLIN);
  RecvFrom(s, b, 10, s.PortOf(a));
  RecvFrom(s, b, 10, 0);
  // An address given goes before the peer.
  SendTo(s, b, "elsewhere", s.NameOf(third));
  s.Await(third, POLLIN);
  RecvFrom(s, third, 10, s.PortOf(b));
  s.Connect(b, s.NameOf(third));
  s.PeerName(b, s.PortOf(third));
  const uint16_t port = s.PortOf(b);
  Address unspec = s.Any(0);
  unspec.storage.ss_family = AF_UNSPEC;
  s.Note("disconnect", s.api.Connect(b, unspec.get(), unspec.length));
  s.PeerName(b, 0);
  s.SockName(b, port);
  s.Send(b, "x");
  s.Note("short", s.api.Connect(b, s.Loopback(9).get(), 4));
  if (s.v4()) s.Connect(b, MakeAddress(AF_INET6, "::1", 9));
}

void ConnectUnbound(Session& s) {
  const int a = BoundUdp(s), b = s.Udp();
  s.Connect(b, s.NameOf(a));
  s.SockName(b, s.PortOf(b));
  Address unspec = s.Any(0);
  unspec.storage.ss_family = AF_UNSPEC;
  s.Note("disconnect", s.api.Connect(b, unspec.get(), unspec.length));
  s.SockName(b, 0);
}

void Refused(Session& s) {
  const int gone = s.Udp();
  s.api.Bind(gone, s.Loopback(0).get(), s.Loopback(0).length);
  const Address nobody = s.NameOf(gone);
  s.Close(gone);
  const int fd = s.Udp();
  s.Connect(fd, nobody);
  s.Send(fd, "x");
  s.Await(fd, POLLERR);
  s.GetInt(fd, SOL_SOCKET, SO_ERROR, "SO_ERROR");
  s.GetInt(fd, SOL_SOCKET, SO_ERROR, "SO_ERROR");
  s.Send(fd, "x");
  s.Await(fd, POLLERR);
  s.Recv(fd, 1);
  s.Recv(fd, 1);
  s.Send(fd, "x");
  s.Await(fd, POLLERR);
  s.Send(fd, "x");
  // Without connect nobody is told.
  const int loose = s.Udp();
  SendTo(s, loose, "x", nobody);
  SendTo(s, loose, "x", nobody);
  s.GetInt(loose, SOL_SOCKET, SO_ERROR, "SO_ERROR");
}

void ShutdownConnected(Session& s) {
  const int a = BoundUdp(s), b = BoundUdp(s);
  s.Connect(b, s.NameOf(a));
  SendTo(s, a, "kept", s.NameOf(b));
  s.Await(b, POLLIN);
  s.Note("shutdown RD", s.api.Shutdown(b, SHUT_RD));
  s.Events(b);
  s.Recv(b, 10);
  s.Recv(b, 10);
  s.Note("shutdown WR", s.api.Shutdown(b, SHUT_WR));
  s.Send(b, "x");
  s.Events(b);
}

void BindRules(Session& s) {
  const int a = BoundUdp(s);
  const Address name = s.NameOf(a);
  s.Bind(a, name);
  const int b = s.Udp();
  s.Bind(b, name);
  s.Bind(b, MakeAddress(s.domain(), s.v4() ? "198.51.100.7" : "2001:db8::7", 0));
  s.Note("short", s.api.Bind(b, name.get(), s.v4() ? 15 : 23));
  s.Bind(b, s.Any(0));
  s.SockName(b, s.PortOf(b));
  const int c = s.Udp(), d = s.Udp();
  s.SetInt(c, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
  s.SetInt(d, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
  s.Bind(c, s.Loopback(0));
  s.Bind(d, s.NameOf(c));
  const int e = s.Udp();
  SendTo(s, e, "x", name);
  s.Bind(e, s.Loopback(0));
}

void PiecesWithMore(Session& s) {
  const int a = BoundUdp(s), b = s.Udp();
  s.Connect(b, s.NameOf(a));
  s.Send(b, "one", MSG_MORE);
  s.Send(b, "two", MSG_MORE);
  s.Recv(a, 10);
  s.Send(b, "three");
  s.Await(a, POLLIN);
  s.Recv(a, 20);
  iovec iov[2] = {{const_cast<char*>("AB"), 2}, {const_cast<char*>("CD"), 2}};
  s.Note("writev", s.api.Writev(b, iov, 2));
  s.Await(a, POLLIN);
  s.Recv(a, 20);
}

const std::vector<Script> kScripts = {
    {"FreshUdp", &FreshUdp},
    {"Datagrams", &Datagrams},
    {"SendMisuse", &SendMisuse},
    {"Connected", &Connected},
    {"Refused", &Refused},
    {"ConnectUnbound", &ConnectUnbound},
    {"BindRules", &BindRules},
    {"ShutdownConnected", &ShutdownConnected},
    {"PiecesWithMore", &PiecesWithMore},
};

INSTANTIATE_TEST_SUITE_P(Scripts, SocketTableUdpTest, testutil::InEveryFlavour(kScripts),
                         testutil::ComparisonName);

// An AF_INET6 socket that is bound to no address serves both families (RFC 3493 §5.3).
void DualStack(Session& s) {
  const int six = s.Own(s.api.Socket(AF_INET6, SOCK_DGRAM, 0));
  s.Bind(six, MakeAddress(AF_INET6, "::", 0));
  const uint16_t port = s.PortOf(six);
  const int four = s.Own(s.api.Socket(AF_INET, SOCK_DGRAM, 0));
  SendTo(s, four, "from four", MakeAddress(AF_INET, "127.0.0.1", port));
  s.Await(six, POLLIN);
  RecvFrom(s, six, 20, s.PortOf(four));
  const int other = s.Own(s.api.Socket(AF_INET6, SOCK_DGRAM, 0));
  SendTo(s, other, "from six", MakeAddress(AF_INET6, "::1", port));
  s.Await(six, POLLIN);
  RecvFrom(s, six, 20, s.PortOf(other));
  // An AF_INET address on an AF_INET6 socket.
  s.Bind(four, MakeAddress(AF_INET, "127.0.0.1", 0));
  const int back = s.Own(s.api.Socket(AF_INET, SOCK_DGRAM, 0));
  s.Bind(back, MakeAddress(AF_INET, "127.0.0.1", 0));
  SendTo(s, six, "x", MakeAddress(AF_INET, "127.0.0.1", s.PortOf(back)));
  s.Await(back, POLLIN);
  RecvFrom(s, back, 20, port);
  s.Connect(other, MakeAddress(AF_INET, "127.0.0.1", port));
  s.SockName(other, s.PortOf(other));
  // Only IPv6: mapped addresses are refused in each call's own way.
  const int only = s.Own(s.api.Socket(AF_INET6, SOCK_DGRAM, 0));
  s.SetInt(only, IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY");
  s.Bind(only, MakeAddress(AF_INET6, "::ffff:127.0.0.1", 0));
  s.Connect(only, MakeAddress(AF_INET6, "::ffff:127.0.0.1", port));
  s.Connect(only, MakeAddress(AF_INET, "127.0.0.1", port));
  SendTo(s, only, "x", MakeAddress(AF_INET6, "::ffff:127.0.0.1", port));
  // The same port of the other family is taken by the one without the option.
  const int v4 = s.Own(s.api.Socket(AF_INET, SOCK_DGRAM, 0));
  s.Bind(v4, MakeAddress(AF_INET, "0.0.0.0", port));
  s.Bind(only, MakeAddress(AF_INET6, "::", 0));
  s.Bind(v4, MakeAddress(AF_INET, "0.0.0.0", s.PortOf(only)));
  s.SetInt(only, IPPROTO_IPV6, IPV6_V6ONLY, 0, "IPV6_V6ONLY");
}

TEST(SocketTableUdpTest, BothFamiliesOnOneSocketAsTheKernel) {
  CompareWithKernel({"DualStack", &DualStack}, Flavour::kV6);
}

}  // namespace
}  // namespace tapwire
