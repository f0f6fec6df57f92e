// SPDX-License-Identifier: Apache-2.0
// Data, urgent data and the ends of TCP connections, compared call by call with the kernel's (see
// socket_table_oracle.h).

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "stack/sockets/socket_table.h"
#include "tests/stack/sockets/socket_table_oracle.h"

namespace tapwire {
namespace {

using testutil::Address;
using testutil::AskEverything;
using testutil::Script;
using testutil::Session;

class SocketTableDataTest : public testutil::KernelComparison {};

TEST_P(SocketTableDataTest, AnswersAsTheKernel) { Compare(); }

void ReadingAndPeeking(Session& s) {
  const auto c = s.Pair();
  s.Events(c.client);
  AskEverything(s, c.server);
  s.Send(c.client, "hello world");
  s.Await(c.server, POLLIN);
  s.Inq(c.server, SIOCINQ, "SIOCINQ");
  s.Recv(c.server, 0);
  s.Recv(c.server, 3, MSG_PEEK);
  s.Recv(c.server, 30, MSG_PEEK);
  s.Recv(c.server, 3);
  s.Recv(c.server, 2, MSG_TRUNC);
  s.Inq(c.server, SIOCINQ, "SIOCINQ");
  s.Recv(c.server, 5, MSG_WAITALL);
  s.Recv(c.server, 5, MSG_WAITALL | MSG_DONTWAIT);
  s.Recv(c.server, 5, MSG_WAITALL | MSG_DONTWAIT);
  s.Events(c.server);
  s.Send(c.client, "");
  s.Events(c.server);
  char a[3] = "ab", b[4] = "cde";
  const iovec out[3] = {{a, 2}, {nullptr, 0}, {b, 3}};
  s.Note("writev", s.api.Writev(c.client, out, 3));
  s.Await(c.server, POLLIN);
  char x[4] = {}, y[4] = {};
  const iovec in[2] = {{x, 3}, {y, 3}};
  s.Note("readv", s.api.Readv(c.server, in, 2));
  s.Note(std::string(x) + "," + y);
  s.Note("writev -1", s.api.Writev(c.client, out, -1));
  s.Note("writev 1025", s.api.Writev(c.client, out, 1025));
  s.Note("writev 0", s.api.Writev(c.client, out, 0));
}

void Messages(Session& s) {
  const auto c = s.Pair();
  char text[] = "message";
  iovec iov = {text, 7};
  msghdr m = {};
  m.msg_iov = &iov;
  m.msg_iovlen = 1;
  s.Note("sendmsg", s.api.SendMsg(c.client, &m, 0));
  s.Await(c.server, POLLIN);
  char in[4] = {};
  Address from;
  iov = {in, 3};
  m.msg_name = from.get();
  m.msg_namelen = sizeof(from.storage);
  m.msg_flags = 0x7777;
  s.Note("recvmsg", s.api.RecvMsg(c.server, &m, MSG_DONTWAIT));
  s.Note("name length", m.msg_namelen);
  s.Note("flags", m.msg_flags & ~MSG_CMSG_CLOEXEC);
  Address a;
  a.length = sizeof(a.storage);
  s.Note("recvfrom", s.api.RecvFrom(c.server, in, 3, MSG_DONTWAIT, a.get(), &a.length));
  s.Note("address length", a.length);
  // The address is ignored on a connected stream.
  const Address to = s.Loopback(1);
  s.Note("sendto", s.api.SendTo(c.client, "x", 1, 0, to.get(), to.length));
  s.Note("null", s.api.SendMsg(c.client, nullptr, 0));
  s.Note("null", s.api.RecvMsg(c.client, nullptr, MSG_DONTWAIT));
  m.msg_iovlen = 1025;
  s.Note("1025 pieces", s.api.SendMsg(c.client, &m, 0));
  s.Note("null data", s.api.Send(c.client, nullptr, 4, 0));
  s.Note("bad fd", s.api.Send(9999, "x", 1, 0));
}

void HalfClose(Session& s) {
  const auto c = s.Pair();
  s.Send(c.client, "last");
  s.Note("shutdown WR", s.api.Shutdown(c.client, SHUT_WR));
  s.Events(c.client);
  s.Send(c.client, "x");
  s.Send(c.client, "");
  s.Await(c.server, POLLRDHUP);
  s.Inq(c.server, SIOCINQ, "SIOCINQ");
  s.Recv(c.server, 10);
  s.Events(c.server);
  s.Recv(c.server, 10);
  s.Recv(c.server, 10);
  s.Recv(c.server, 10, MSG_PEEK | MSG_DONTWAIT);
  s.Send(c.server, "answer");
  s.Await(c.client, POLLIN);
  s.Recv(c.client, 10, MSG_WAITALL | MSG_DONTWAIT);
  s.Note("shutdown WR again", s.api.Shutdown(c.client, SHUT_WR));
  s.Note("shutdown WR", s.api.Shutdown(c.server, SHUT_WR));
  s.Await(c.client, POLLHUP);
  s.Recv(c.client, 10);
  s.Await(c.server, POLLHUP);
  s.Note("shutdown after the end", s.api.Shutdown(c.server, SHUT_RDWR));
  s.PeerName(c.server, s.PortOf(c.client));
  s.Send(c.server, "x");
  s.Recv(c.server, 10);
  s.GetInt(c.server, SOL_SOCKET, SO_ERROR, "SO_ERROR");
  s.SockName(c.server, c.port);
}

void DataLeftAtTheEnd(Session& s) {
  const auto c = s.Pair();
  s.Send(c.client, "to the server");
  s.Note("shutdown WR", s.api.Shutdown(c.client, SHUT_WR));
  s.Await(c.server, POLLRDHUP);
  s.Note("shutdown WR", s.api.Shutdown(c.server, SHUT_WR));
  s.Await(c.server, POLLHUP);
  // The connection is gone, and its data is still there.
  s.Inq(c.server, SIOCINQ, "SIOCINQ");
  s.Recv(c.server, 6, MSG_PEEK);
  s.Recv(c.server, 6);
  s.Events(c.server);
  s.Recv(c.server, 60);
  s.Recv(c.server, 60);
}

void ShutdownReading(Session& s) {
  const auto c = s.Pair();
  s.Send(c.client, "early");
  s.Await(c.server, POLLIN);
  s.Note("shutdown RD", s.api.Shutdown(c.server, SHUT_RD));
  s.Events(c.server);
  s.Recv(c.server, 10);
  s.Recv(c.server, 10);
  s.Send(c.client, "late");
  s.Await(c.server, POLLIN);
  s.Send(c.server, "still");
  s.Await(c.client, POLLIN);
  s.Recv(c.client, 10);
}

void CloseWithUnreadData(Session& s) {
  const auto c = s.Pair();
  s.Send(c.client, "unread");
  s.Await(c.server, POLLIN);
  s.Close(c.server);
  s.Await(c.client, POLLERR);
  s.Recv(c.client, 10);
  s.Events(c.client);
  s.Recv(c.client, 10);
  s.Send(c.client, "x");
  s.GetInt(c.client, SOL_SOCKET, SO_ERROR, "SO_ERROR");
  s.Note("shutdown", s.api.Shutdown(c.client, SHUT_RDWR));
  s.Connect(c.client, s.Loopback(c.port));
}

void ResetAfterData(Session& s) {
  const auto c = s.Pair();
  s.Send(c.server, "before the reset");
  s.Await(c.client, POLLIN);
  const struct linger zero = {1, 0};
  s.Note("SO_LINGER", s.api.SetSockOpt(c.server, SOL_SOCKET, SO_LINGER, &zero, sizeof(zero)));
  s.Close(c.server);
  s.Await(c.client, POLLERR);
  s.Inq(c.client, SIOCINQ, "SIOCINQ");
  s.Recv(c.client, 6);
  s.Recv(c.client, 60);
  s.Recv(c.client, 60);
  s.Recv(c.client, 60);
}

void ResetSeenByWriting(Session& s) {
  const auto c = s.Pair();
  const struct linger zero = {1, 0};
  s.api.SetSockOpt(c.server, SOL_SOCKET, SO_LINGER, &zero, sizeof(zero));
  s.Close(c.server);
  s.Await(c.client, POLLERR);
  s.Send(c.client, "x");
  s.Send(c.client, "x");
  s.Recv(c.client, 1);
}

void WriteAfterPeerClosed(Session& s) {
  const auto c = s.Pair();
  s.Close(c.server);
  s.Await(c.client, POLLRDHUP);
  s.Send(c.client, "nobody reads");
  s.Await(c.client, POLLERR);
  s.Recv(c.client, 1);
  s.GetInt(c.client, SOL_SOCKET, SO_ERROR, "SO_ERROR");
  s.Send(c.client, "x");
  s.Recv(c.client, 1);
}

void AcceptQueueAndClose(Session& s) {
  const int listener = s.Listener();
  const int client = s.Tcp();
  s.Connect(client, s.NameOf(listener));
  s.Await(listener, POLLIN);
  s.Send(client, "queued");
  s.Close(listener);
  s.Await(client, POLLERR);
  s.Recv(client, 1);
}

void AcceptAfterPeerClosed(Session& s) {
  const int listener = s.Listener();
  const int client = s.Tcp();
  s.Connect(client, s.NameOf(listener));
  s.Send(client, "bye");
  s.Close(client);
  s.Await(listener, POLLIN);
  const int server = s.Own(s.api.Accept4(listener, nullptr, nullptr, 0));
  s.Note("accept", std::min(server, 0));
  s.Await(server, POLLRDHUP);
  s.Recv(server, 10);
  s.Recv(server, 10);
  s.Await(listener, 0);
}

void FullSendBuffer(Session& s) {
  const auto c = s.Pair();
  s.api.Fcntl(c.client, F_SETFL, O_NONBLOCK);
  const std::string block(100'000, 'b');
  int64_t total = 0;
  for (int64_t n = 0; n >= 0 && total < 100'000'000;) {
    n = s.api.Send(c.client, block.data(), block.size(), 0);
    if (n > 0) total += n;
    if (n < 0) s.Note("send", n);
    if (n == 0) break;
  }
  s.Events(c.client);
  std::string in(1'000'000, '\0');
  int64_t read = 0;
  while (read < total) {
    const int64_t n = s.api.Recv(c.server, in.data(), in.size(), 0);
    if (n <= 0) {
      s.Note("recv", n);
      break;
    }
    read += n;
  }
  s.Note("all of it", read == total);
  s.Await(c.client, POLLOUT);
}

void LowWater(Session& s) {
  const auto c = s.Pair();
  s.SetInt(c.server, SOL_SOCKET, SO_RCVLOWAT, 5, "SO_RCVLOWAT");
  s.GetInt(c.server, SOL_SOCKET, SO_RCVLOWAT, "SO_RCVLOWAT");
  s.Send(c.client, "abc");
  pollfd p = {c.server, POLLIN, 0};
  s.Note("poll", s.api.Poll(&p, 1, 50));
  s.Recv(c.server, 1, MSG_PEEK | MSG_DONTWAIT);
  s.Send(c.client, "defg");
  s.Await(c.server, POLLIN);
  s.Recv(c.server, 10);
  timeval soon = {0, 20'000};
  s.Note("SO_RCVTIMEO", s.api.SetSockOpt(c.server, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)));
  s.Recv(c.server, 10, 0);
  s.Send(c.client, "hij");
  s.Recv(c.server, 10, 0);
}

void Timeouts(Session& s) {
  const auto c = s.Pair();
  timeval soon = {0, 30'000};
  s.Note("SO_RCVTIMEO", s.api.SetSockOpt(c.server, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)));
  s.Recv(c.server, 1, 0);
  s.Recv(c.server, 4, MSG_WAITALL);
  s.Send(c.client, "ab");
  s.Recv(c.server, 4, MSG_WAITALL);
  s.Note("SO_RCVTIMEO", s.api.SetSockOpt(c.listener, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)));
  s.Note("accept", s.api.Accept4(c.listener, nullptr, nullptr, 0));
  s.Note("SO_SNDTIMEO", s.api.SetSockOpt(c.client, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon)));
  const std::string much(64'000'000, 'm');
  const int64_t n = s.api.Send(c.client, much.data(), much.size(), 0);
  s.Note("some of it was sent", n > 0 && n < static_cast<int64_t>(much.size()));
  // What a second attempt takes depends on how the kernel's buffers have grown meanwhile.
}

void BlockingTransferInBothDirections(Session& s) {
  const auto c = s.Pair();
  const std::string data(50'000, 'd');
  for (int i = 0; i < 4; ++i) {
    s.Note("send", s.api.Send(i % 2 == 0 ? c.client : c.server, data.data(), data.size(), 0));
    std::string in(data.size(), '\0');
    s.Note("recv", s.api.Recv(i % 2 == 0 ? c.server : c.client, in.data(), in.size(), MSG_WAITALL));
    s.Note("same", in == data);
  }
}

void UrgentByte(Session& s) {
  const auto c = s.Pair();
  s.Recv(c.server, 1, MSG_OOB);
  s.Send(c.client, "abc");
  s.Send(c.client, "dU", MSG_OOB);
  s.Send(c.client, "ef");
  s.Await(c.server, POLLPRI);
  s.Inq(c.server, SIOCATMARK, "SIOCATMARK");
  s.Inq(c.server, SIOCINQ, "SIOCINQ");
  s.Recv(c.server, 10, MSG_PEEK);
  s.Recv(c.server, 10);
  s.Inq(c.server, SIOCATMARK, "SIOCATMARK");
  s.Events(c.server);
  s.Recv(c.server, 1, MSG_OOB | MSG_PEEK);
  s.Recv(c.server, 0, MSG_OOB | MSG_PEEK);
  s.Recv(c.server, 1, MSG_OOB);
  s.Recv(c.server, 1, MSG_OOB);
  s.Events(c.server);
  s.Recv(c.server, 10);
  s.Inq(c.server, SIOCATMARK, "SIOCATMARK");
  s.Recv(c.server, 1, MSG_OOB);
}

void UrgentByteSkipped(Session& s) {
  const auto c = s.Pair();
  s.Send(c.client, "xU", MSG_OOB);
  s.Send(c.client, "yz");
  s.Await(c.server, POLLPRI);
  s.Recv(c.server, 10);
  s.Recv(c.server, 10);
  s.Events(c.server);
  s.Recv(c.server, 1, MSG_OOB);
}

void UrgentByteInline(Session& s) {
  const auto c = s.Pair();
  s.SetInt(c.server, SOL_SOCKET, SO_OOBINLINE, 1, "SO_OOBINLINE");
  s.Send(c.client, "xU", MSG_OOB);
  s.Send(c.client, "yz");
  s.Await(c.server, POLLPRI);
  s.Recv(c.server, 1, MSG_OOB);
  s.Inq(c.server, SIOCINQ, "SIOCINQ");
  s.Recv(c.server, 10);
  s.Inq(c.server, SIOCATMARK, "SIOCATMARK");
  s.Recv(c.server, 10);
  s.Events(c.server);
}

void LingeringClose(Session& s) {
  const auto c = s.Pair();
  const struct linger two = {1, 2};
  s.Note("SO_LINGER", s.api.SetSockOpt(c.client, SOL_SOCKET, SO_LINGER, &two, sizeof(two)));
  s.Send(c.client, "data");
  s.Close(c.client);
  s.Await(c.server, POLLRDHUP);
  s.Recv(c.server, 10);
  s.Recv(c.server, 10);
}

void QueuesCounted(Session& s) {
  const auto c = s.Pair();
  s.Send(c.client, "abcdef");
  s.Await(c.server, POLLIN);
  s.Inq(c.client, SIOCOUTQNSD, "SIOCOUTQNSD");
  s.Inq(c.client, SIOCATMARK, "SIOCATMARK");
  s.Note("no argument", s.api.Ioctl(c.client, SIOCINQ, nullptr));
  int value = 0;
  s.Note("unknown request", s.api.Ioctl(c.client, 0x1234, &value));
  s.Note("bad fd", s.api.Ioctl(9999, SIOCINQ, &value));
}

#define SCRIPT(name) \
  { #name, &name }
const std::vector<Script> kScripts = {SCRIPT(ReadingAndPeeking),
                                      SCRIPT(Messages),
                                      SCRIPT(HalfClose),
                                      SCRIPT(DataLeftAtTheEnd),
                                      SCRIPT(ShutdownReading),
                                      SCRIPT(CloseWithUnreadData),
                                      SCRIPT(ResetAfterData),
                                      SCRIPT(ResetSeenByWriting),
                                      SCRIPT(WriteAfterPeerClosed),
                                      SCRIPT(AcceptQueueAndClose),
                                      SCRIPT(AcceptAfterPeerClosed),
                                      SCRIPT(FullSendBuffer),
                                      SCRIPT(LowWater),
                                      SCRIPT(Timeouts),
                                      SCRIPT(BlockingTransferInBothDirections),
                                      SCRIPT(UrgentByte),
                                      SCRIPT(UrgentByteSkipped),
                                      SCRIPT(UrgentByteInline),
                                      SCRIPT(LingeringClose),
                                      SCRIPT(QueuesCounted)};
#undef SCRIPT

INSTANTIATE_TEST_SUITE_P(Scripts, SocketTableDataTest, testutil::InEveryFlavour(kScripts),
                         testutil::ComparisonName);

}  // namespace
}  // namespace tapwire
