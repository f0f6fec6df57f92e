// SPDX-License-Identifier: Apache-2.0
// TCP sockets of the table, compared call by call with the kernel's (see socket_table_oracle.h).

#include "stack/sockets/socket_table.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/stack/sockets/socket_table_oracle.h"

namespace tapwire {
namespace {

using testutil::Address;
using testutil::AskEverything;
using testutil::MakeAddress;
using testutil::Script;
using testutil::Session;

class SocketTableTest : public testutil::KernelComparison {};

TEST_P(SocketTableTest, AnswersAsTheKernel) { Compare(); }

void FreshSocket(Session& s) {
  const int fd = s.Tcp();
  AskEverything(s, fd);
  s.SockName(fd, 0);
  s.PeerName(fd, 0);
  s.Send(fd, "x");
  s.Send(fd, "");
  s.Note("write 0", s.api.Write(fd, "", 0));
  s.Note("accept", s.api.Accept4(fd, nullptr, nullptr, 0));
  s.Note("shutdown RD", s.api.Shutdown(fd, SHUT_RD));
  s.Events(fd);
  s.Recv(fd, 1);
  s.Note("shutdown WR", s.api.Shutdown(fd, SHUT_WR));
  s.Events(fd);
  s.Note("shutdown 3", s.api.Shutdown(fd, 3));
  s.Note("shutdown -1", s.api.Shutdown(fd, -1));
  s.Close(fd);
  s.Close(fd);
  s.Recv(fd, 1);
  s.Events(fd);
}

void KindsOfSocket(Session& s) {
  const int d = s.domain();
  for (const auto& [domain, type, protocol] :
       std::vector<std::tuple<int, int, int>>{{d, SOCK_STREAM, IPPROTO_TCP},
                                              {d, SOCK_STREAM, IPPROTO_UDP},
                                              {d, SOCK_DGRAM, IPPROTO_UDP},
                                              {d, SOCK_DGRAM, IPPROTO_TCP},
                                              {d, SOCK_STREAM, 9999},
                                              {d, SOCK_STREAM, -1},
                                              {d, SOCK_SEQPACKET, 0},
                                              {d, 12, 0},
                                              {d, SOCK_STREAM | 0x100, 0},
                                              {9999, SOCK_STREAM, 0},
                                              {-1, SOCK_STREAM, 0}}) {
    const int fd = s.Own(s.api.Socket(domain, type, protocol));
    s.Note("socket", std::min(fd, 0));
    if (fd < 0) continue;
    s.GetInt(fd, SOL_SOCKET, SO_TYPE, "SO_TYPE");
    s.GetInt(fd, SOL_SOCKET, SO_DOMAIN, "SO_DOMAIN");
    s.GetInt(fd, SOL_SOCKET, SO_PROTOCOL, "SO_PROTOCOL");
  }
  const int fd = s.Own(s.api.Socket(d, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  s.Note("F_GETFL", s.api.Fcntl(fd, F_GETFL, 0) & (O_NONBLOCK | O_ACCMODE));
  s.Note("F_SETFL", s.api.Fcntl(fd, F_SETFL, 0));
  s.Note("F_GETFL", s.api.Fcntl(fd, F_GETFL, 0) & (O_NONBLOCK | O_ACCMODE));
  int on = 1;
  s.Note("FIONBIO", s.api.Ioctl(fd, FIONBIO, &on));
  s.Note("F_GETFL", s.api.Fcntl(fd, F_GETFL, 0) & (O_NONBLOCK | O_ACCMODE));
  s.Note("F_GETFL bad", s.api.Fcntl(12345, F_GETFL, 0));
}

void BindMisuse(Session& s) {
  const int fd = s.Tcp();
  Address a = s.Loopback(0);
  s.Note("null", s.api.Bind(fd, nullptr, 16));
  s.Note("short", s.api.Bind(fd, a.get(), 1));
  s.Note("one less", s.api.Bind(fd, a.get(), s.v4() ? 15 : 23));
  Address other = MakeAddress(s.v4() ? AF_INET6 : AF_INET, s.v4() ? "::1" : "127.0.0.1", 0);
  s.Bind(fd, other);
  Address foreign = MakeAddress(s.domain(), s.v4() ? "198.51.100.7" : "2001:db8::7", 0);
  s.Bind(fd, foreign);
  Address unspec = s.Any(0);
  unspec.storage.ss_family = AF_UNSPEC;
  s.Note("unspec", s.api.Bind(fd, unspec.get(), unspec.length));
  if (!s.v4()) s.Bind(fd, a);
  s.Note("again", s.api.Bind(fd, a.get(), a.length));
  s.SockName(fd, s.PortOf(fd));
  s.Note("bad fd", s.api.Bind(9999, a.get(), a.length));
}

void AddressesInUse(Session& s) {
  const int a = s.Tcp();
  s.Bind(a, s.Loopback(0));
  const Address name = s.NameOf(a);
  const int b = s.Tcp();
  s.Bind(b, name);
  const int c = s.Tcp();
  s.Bind(c, s.Any(s.PortOf(a)));
  s.SetInt(c, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
  s.Bind(c, name);
  const int d = s.Tcp(), e = s.Tcp();
  s.SetInt(d, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
  s.SetInt(e, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
  s.Bind(d, s.Loopback(0));
  s.Bind(e, s.NameOf(d));
  s.Listen(d);
  s.Listen(e);
  s.Close(d);
  s.Listen(e);
  s.Close(a);
  s.Bind(b, name);
}

void ListenStates(Session& s) {
  const int fd = s.Listener();
  AskEverything(s, fd);
  s.Send(fd, "x");
  s.Connect(fd, s.NameOf(fd));
  s.PeerName(fd, 0);
  s.Listen(fd, -1);
  s.Listen(fd, 1);
  s.Note("accept flags", s.api.Accept4(fd, nullptr, nullptr, 1));
  s.Note("nonblocking", s.api.Fcntl(fd, F_SETFL, O_NONBLOCK));
  s.Note("accept", s.api.Accept4(fd, nullptr, nullptr, 0));
  s.Note("shutdown WR", s.api.Shutdown(fd, SHUT_WR));
  s.GetInt(fd, SOL_SOCKET, SO_ACCEPTCONN, "SO_ACCEPTCONN");
  s.Note("shutdown RD", s.api.Shutdown(fd, SHUT_RD));
  s.GetInt(fd, SOL_SOCKET, SO_ACCEPTCONN, "SO_ACCEPTCONN");
  s.Note("accept", s.api.Accept4(fd, nullptr, nullptr, 0));
  s.Events(fd);
  s.SockName(fd, s.PortOf(fd));
  s.Listen(fd);
  s.GetInt(fd, SOL_SOCKET, SO_ACCEPTCONN, "SO_ACCEPTCONN");
}

void ListenUnbound(Session& s) {
  const int fd = s.Tcp();
  s.Listen(fd);
  s.SockName(fd, s.PortOf(fd));
  const int client = s.Tcp();
  s.Connect(client, s.NameOf(fd));
  s.Listen(client);
  Address a;
  a.length = sizeof(a.storage);
  const int server = s.Own(s.api.Accept4(fd, a.get(), &a.length, SOCK_NONBLOCK));
  s.NoteName("accept", std::min(server, 0), a, s.PortOf(client));
  s.Note("F_GETFL", s.api.Fcntl(server, F_GETFL, 0) & O_NONBLOCK);
  Address shorter;
  shorter.length = 4;
  const int second = s.Tcp();
  s.Connect(second, s.NameOf(fd));
  const int other = s.Own(s.api.Accept4(fd, shorter.get(), &shorter.length, 0));
  s.Note("accept with four bytes", std::min(other, 0));
  s.Note("length", shorter.length);
  s.Note("F_GETFL", s.api.Fcntl(other, F_GETFL, 0) & O_NONBLOCK);
}

void ConnectMisuse(Session& s) {
  const int listener = s.Listener();
  const Address to = s.NameOf(listener);
  const int fd = s.Tcp();
  s.Note("null", s.api.Connect(fd, nullptr, to.length));
  s.Note("length 1", s.api.Connect(fd, to.get(), 1));
  s.Note("one less", s.api.Connect(fd, to.get(), s.v4() ? 15 : 23));
  s.Connect(fd, MakeAddress(s.v4() ? AF_INET6 : AF_INET, s.v4() ? "::1" : "127.0.0.1", 9));
  if (s.v4()) s.Connect(fd, MakeAddress(AF_INET, "224.0.0.1", 9));
  if (s.v4()) s.Connect(fd, MakeAddress(AF_INET, "255.255.255.255", 9));
  s.Connect(fd, to);
  s.Connect(fd, to);
  s.SockName(fd, s.PortOf(fd));
  s.PeerName(fd, s.PortOf(listener));
  s.Bind(fd, s.Loopback(0));
  s.Note("accept", s.api.Accept4(fd, nullptr, nullptr, 0));
  s.Note("bad fd", s.api.Connect(9999, to.get(), to.length));
}

void ConnectUnspecified(Session& s) {
  const int listener = s.Tcp();
  s.Bind(listener, s.Any(0));
  s.Listen(listener);
  const int fd = s.Tcp();
  s.Connect(fd, s.Any(s.PortOf(listener)));
  s.PeerName(fd, s.PortOf(listener));
}

void ConnectBound(Session& s) {
  const int listener = s.Listener();
  const int fd = s.Tcp();
  s.Bind(fd, s.Any(0));
  const uint16_t port = s.PortOf(fd);
  s.Connect(fd, s.NameOf(listener));
  s.SockName(fd, port);
}

// A port that nobody listens on.
Address Refusing(Session& s) {
  const int fd = s.Tcp();
  s.api.Bind(fd, s.Loopback(0).get(), s.Loopback(0).length);
  return s.NameOf(fd);
}

void ConnectRefused(Session& s) {
  const Address nobody = Refusing(s);
  const int fd = s.Tcp();
  s.Connect(fd, nobody);
  s.GetInt(fd, SOL_SOCKET, SO_ERROR, "SO_ERROR");
  s.Events(fd);
  s.Recv(fd, 1);
  s.Send(fd, "x");
  s.PeerName(fd, 0);
  s.Connect(fd, nobody);
  const int listener = s.Listener();
  s.Connect(fd, s.NameOf(listener));
  s.Events(fd);
}

void ConnectNonblocking(Session& s) {
  const int listener = s.Listener();
  const int fd = s.Tcp(SOCK_NONBLOCK);
  s.Connect(fd, s.NameOf(listener));
  s.Await(fd, POLLOUT);
  s.GetInt(fd, SOL_SOCKET, SO_ERROR, "SO_ERROR");
  s.Connect(fd, s.NameOf(listener));
  s.Connect(fd, s.NameOf(listener));
  s.Recv(fd, 1);
}

void ConnectNonblockingRefused(Session& s) {
  const Address nobody = Refusing(s);
  const int fd = s.Tcp(SOCK_NONBLOCK);
  s.Connect(fd, nobody);
  s.Await(fd, POLLOUT);
  s.PeerName(fd, 0);
  s.GetInt(fd, SOL_SOCKET, SO_ERROR, "SO_ERROR");
  s.GetInt(fd, SOL_SOCKET, SO_ERROR, "SO_ERROR");
  s.Events(fd);
  s.Connect(fd, nobody);
  s.Connect(fd, nobody);
  s.Await(fd, POLLERR);
  s.Connect(fd, nobody);
  s.Recv(fd, 1);
}

void RefusedReadFirst(Session& s) {
  const int fd = s.Tcp(SOCK_NONBLOCK);
  s.Connect(fd, Refusing(s));
  s.Await(fd, POLLOUT);
  s.Recv(fd, 1);
  s.Recv(fd, 1);
  s.Send(fd, "x");
  s.Listen(fd);
}

void RefusedWriteFirst(Session& s) {
  const int fd = s.Tcp(SOCK_NONBLOCK);
  s.Connect(fd, Refusing(s));
  s.Await(fd, POLLOUT);
  s.Send(fd, "x");
  s.Send(fd, "x");
  s.Recv(fd, 1);
}

void DisconnectWithUnspec(Session& s) {
  const auto c = s.Pair();
  Address unspec = s.Any(0);
  unspec.storage.ss_family = AF_UNSPEC;
  s.Note("disconnect", s.api.Connect(c.client, unspec.get(), unspec.length));
  s.Await(c.server, POLLIN);
  s.Recv(c.server, 1);
  s.Recv(c.server, 1);
  s.PeerName(c.client, 0);
  s.Connect(c.client, s.Loopback(c.port));
  s.PeerName(c.client, c.port);
}

#define SCRIPT(name) \
  { #name, &name }
const std::vector<Script> kScripts = {
    SCRIPT(FreshSocket),      SCRIPT(KindsOfSocket),      SCRIPT(BindMisuse),
    SCRIPT(AddressesInUse),   SCRIPT(ListenStates),       SCRIPT(ListenUnbound),
    SCRIPT(ConnectMisuse),    SCRIPT(ConnectUnspecified), SCRIPT(ConnectBound),
    SCRIPT(ConnectRefused),   SCRIPT(ConnectNonblocking), SCRIPT(ConnectNonblockingRefused),
    SCRIPT(RefusedReadFirst), SCRIPT(RefusedWriteFirst),  SCRIPT(DisconnectWithUnspec)};
#undef SCRIPT

INSTANTIATE_TEST_SUITE_P(Scripts, SocketTableTest, testutil::InEveryFlavour(kScripts),
                         testutil::ComparisonName);

}  // namespace
}  // namespace tapwire
