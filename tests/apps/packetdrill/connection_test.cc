// SPDX-License-Identifier: Apache-2.0
// Connections through the plug-in, as scripts make them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <cstddef>
#include <numeric>

#include "tests/apps/packetdrill/stub_caller.h"

namespace tapwire::packetdrill {
namespace {

// Linux's layout without timestamps: mss, nop, nop, sackOK, nop, wscale. 8 is the scale of a
// receive buffer of 15 MB (RFC 7323 §2.3: 2^16 << 8 is the first to cover it).
Bytes SynAckOptions(uint16_t mss) {
  return {2, 4, static_cast<uint8_t>(mss >> 8), static_cast<uint8_t>(mss), 1, 1, 4, 2, 1, 3, 3, 8};
}
const Bytes kSynOptions = {2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 7};

struct Family {
  const char* name;
  const char* flags;
  const char* local;
  const char* remote;
};
class PacketdrillFamilyTest : public testing::TestWithParam<Family> {
 protected:
  PacketdrillFamilyTest() : c(GetParam().flags) {
    c.local = GetParam().local;
    c.remote = GetParam().remote;
  }
  StubCaller c;
};
INSTANTIATE_TEST_SUITE_P(Ip, PacketdrillFamilyTest,
                         testing::Values(Family{"v4", nullptr, "192.168.77.5", "192.0.2.1"},
                                         Family{"v6", "mtu=1520", "fd3d:1::5", "2001:db8::1"}),
                         [](const auto& which) { return which.param.name; });

// The address is one that the plug-in was not told: the SYN brings it.
TEST_P(PacketdrillFamilyTest, PassiveOpenDataAndClose) {
  auto& t = c.table;
  const int listener = c.Listener();
  const auto syn_ack = c.OpenFromPeer(kSynOptions);
  ASSERT_TRUE(syn_ack);
  EXPECT_EQ(syn_ack->segment.flags, Segment::kSyn | Segment::kAck);
  EXPECT_EQ(syn_ack->segment.source, c.local);
  EXPECT_EQ(syn_ack->segment.destination, c.remote);
  EXPECT_EQ(syn_ack->segment.ack, 1u);
  EXPECT_EQ(syn_ack->segment.options, SynAckOptions(1460));
  const int fd = t.accept(c.user(), listener, nullptr, nullptr);
  ASSERT_GE(fd, 0);

  c.Inject(c.FromPeer(Segment::kPsh | Segment::kAck, 1, c.isn + 1, {'h', 'e', 'l', 'l', 'o'}));
  const auto ack = c.Receive();
  ASSERT_TRUE(ack);
  EXPECT_EQ(ack->segment.flags, Segment::kAck);
  EXPECT_EQ(ack->segment.ack, 6u);
  char text[16] = {};
  EXPECT_EQ(t.read(c.user(), fd, text, sizeof(text)), 5);
  EXPECT_STREQ(text, "hello");

  EXPECT_EQ(t.write(c.user(), fd, "world!", 6), 6);
  const auto data = c.Receive();
  ASSERT_TRUE(data);
  EXPECT_EQ(data->segment.flags, Segment::kPsh | Segment::kAck);
  EXPECT_EQ(data->segment.payload, Bytes({'w', 'o', 'r', 'l', 'd', '!'}));
  c.Inject(c.FromPeer(Segment::kAck, 6, c.isn + 7));

  EXPECT_EQ(t.close(c.user(), fd), 0);
  const auto fin = c.Receive();
  ASSERT_TRUE(fin);
  EXPECT_EQ(fin->segment.flags, Segment::kFin | Segment::kAck);
  EXPECT_EQ(fin->segment.seq, c.isn + 7);
  c.Inject(c.FromPeer(Segment::kFin | Segment::kAck, 6, c.isn + 8));
  const auto last = c.Receive();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->segment.flags, Segment::kAck);
  EXPECT_EQ(last->segment.ack, 7u);
  EXPECT_EQ(t.close(c.user(), listener), 0);
}

// A bound address is ours from then on, and the source of what the socket sends.
TEST_P(PacketdrillFamilyTest, ActiveOpenFromABoundAddress) {
  auto& t = c.table;
  const int fd = c.Socket(SOCK_STREAM | SOCK_NONBLOCK);
  ASSERT_EQ(c.Bind(fd, c.local, 8080), 0);
  EXPECT_EQ(c.Connect(fd), -1);
  EXPECT_EQ(errno, EINPROGRESS);
  const auto syn = c.Receive();
  ASSERT_TRUE(syn);
  EXPECT_EQ(syn->segment.flags, Segment::kSyn);
  EXPECT_EQ(syn->segment.source, c.local);
  EXPECT_EQ(syn->segment.source_port, 8080);
  EXPECT_EQ(c.Connect(fd), -1);
  EXPECT_EQ(errno, EALREADY);
  c.remote_port = 8080;
  c.Inject(c.FromPeer(Segment::kSyn | Segment::kAck, 0, syn->segment.seq + 1));
  const auto ack = c.Receive();
  ASSERT_TRUE(ack);
  EXPECT_EQ(ack->segment.flags, Segment::kAck);
  EXPECT_EQ(ack->segment.ack, 1u);
  int error = -1;
  socklen_t length = sizeof(error);
  EXPECT_EQ(t.getsockopt(c.user(), fd, SOL_SOCKET, SO_ERROR, &error, &length), 0);
  EXPECT_EQ(error, 0);
  EXPECT_EQ(c.Connect(fd), 0);  // Linux tells once that it has worked
  EXPECT_EQ(c.Connect(fd), -1);
  EXPECT_EQ(errno, EISCONN);
}

TEST_P(PacketdrillFamilyTest, Datagrams) {
  auto& t = c.table;
  const int fd = c.Socket(SOCK_DGRAM);
  ASSERT_EQ(c.Bind(fd, c.local, 8080), 0);
  Segment in = c.FromPeer(0, 0, 0, {1, 2, 3});
  in.udp = true;
  c.Inject(in);
  uint8_t data[16] = {};
  sockaddr_storage from = {};
  socklen_t length = sizeof(from);
  ASSERT_EQ(
      t.recvfrom(c.user(), fd, data, sizeof(data), 0, reinterpret_cast<sockaddr*>(&from), &length),
      3);
  ASSERT_EQ(t.sendto(c.user(), fd, data, 2, 0, reinterpret_cast<sockaddr*>(&from), length), 2);
  const auto out = c.Receive();
  ASSERT_TRUE(out);
  EXPECT_TRUE(out->segment.udp);
  EXPECT_EQ(out->segment.destination_port, c.remote_port);
  EXPECT_EQ(out->segment.payload, Bytes({1, 2}));
}

// More than the link's MTU in one datagram, as scripts inject `1:60001(60000)`.
TEST_P(PacketdrillFamilyTest, SegmentOfSixtyThousandBytes) {
  auto& t = c.table;
  const int listener = c.Listener();
  const int fd = c.Accepted(listener);
  ASSERT_GE(fd, 0);
  Bytes sent(60'000);
  std::iota(sent.begin(), sent.end(), uint8_t{0});
  Bytes got;
  for (uint32_t seq = 1; got.size() < sent.size();) {
    // The window without scaling is below 64 KiB: what fits now, and the rest in a second one.
    c.Inject(c.FromPeer(Segment::kPsh | Segment::kAck, seq, c.isn + 1,
                        {sent.begin() + static_cast<ptrdiff_t>(seq - 1), sent.end()}));
    Bytes piece(70'000);
    const ssize_t size = t.read(c.user(), fd, piece.data(), piece.size());
    ASSERT_GT(size, 0);
    if (got.empty()) {
      EXPECT_GT(size, 20'000);  // not cut to the MTU
    }
    got.insert(got.end(), piece.begin(), piece.begin() + size);
    seq += static_cast<uint32_t>(size);
  }
  EXPECT_EQ(got, sent);
}

// An IPv6 socket with IPv4 on the link: the peer's address is mapped (RFC 4291 §2.5.5.2).
TEST(PacketdrillMappedTest, PassiveOpen) {
  StubCaller c;
  auto& t = c.table;
  const int listener = t.socket(c.user(), AF_INET6, SOCK_STREAM, 0);
  ASSERT_EQ(c.Bind(listener, "::ffff:192.168.0.2", 8080), 0);
  ASSERT_EQ(t.listen(c.user(), listener, 1), 0);
  const auto syn_ack = c.OpenFromPeer(kSynOptions);
  ASSERT_TRUE(syn_ack);
  EXPECT_EQ(syn_ack->segment.source, "192.168.0.2");
  sockaddr_in6 peer = {};
  socklen_t length = sizeof(peer);
  ASSERT_GE(t.accept(c.user(), listener, reinterpret_cast<sockaddr*>(&peer), &length), 0);
  EXPECT_EQ(peer.sin6_family, AF_INET6);
  EXPECT_EQ(ntohs(peer.sin6_port), 50000);
  EXPECT_TRUE(IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr));
}

// Without bind() and without any packet there is only what --so_flags says.
TEST(PacketdrillLocalTest, ActiveOpenUsesTheGivenAddress) {
  StubCaller c("local=10.1.2.3");
  EXPECT_EQ(c.Connect(c.Socket(SOCK_STREAM | SOCK_NONBLOCK)), -1);
  EXPECT_EQ(errno, EINPROGRESS);
  const auto syn = c.Receive();
  ASSERT_TRUE(syn);
  EXPECT_EQ(syn->segment.source, "10.1.2.3");
}

TEST(PacketdrillLocalTest, GivenAddressIsTheOnlyOne) {
  StubCaller c("local=10.1.2.3");
  (void)c.Listener();
  c.Inject(c.FromPeer(Segment::kSyn, 0, 0));  // to 192.168.0.2
  EXPECT_FALSE(c.Receive().has_value());
  c.local = "10.1.2.3";
  c.Inject(c.FromPeer(Segment::kSyn, 0, 0));
  EXPECT_TRUE(c.Receive().has_value());
}

TEST(PacketdrillLocalTest, ActiveOpenWithoutAnyAddressHasOne) {
  StubCaller c;
  EXPECT_EQ(c.Connect(c.Socket(SOCK_STREAM | SOCK_NONBLOCK)), -1);
  EXPECT_EQ(errno, EINPROGRESS);
  const auto syn = c.Receive();
  ASSERT_TRUE(syn);
  EXPECT_EQ(syn->segment.source, "192.168.0.2");
}

// Packets that a script cannot speak of stay away from it: a listening IPv6 host joins groups.
TEST(PacketdrillLocalTest, GroupsAreNotShown) {
  StubCaller c;
  c.local = "fd3d:1::5";
  c.remote = "2001:db8::1";
  (void)c.Listener();
  Segment in = c.FromPeer(Segment::kAck, 0, 0);
  c.Inject(in);  // learns the address, with its solicited-node group
  const auto reset = c.Receive();
  ASSERT_TRUE(reset);
  EXPECT_EQ(reset->segment.flags & Segment::kRst, Segment::kRst);
  EXPECT_FALSE(c.Receive().has_value());
}

// ---- What %{ }% collects ----

TEST(PacketdrillInfoTest, TcpInfoHasLinuxsLayout) {
  StubCaller c;
  auto& t = c.table;
  const int listener = c.Listener();
  const int fd = c.Accepted(listener);
  ASSERT_GE(fd, 0);
  c.Inject(c.FromPeer(Segment::kPsh | Segment::kAck, 1, c.isn + 1, Bytes(100, 'x')));
  Bytes info(512, 0xee);
  socklen_t length = 512;
  ASSERT_EQ(t.getsockopt(c.user(), fd, IPPROTO_TCP, TCP_INFO, info.data(), &length), 0);
  EXPECT_EQ(length, 280u);
  EXPECT_EQ(info[280], 0xee);
  const auto word = [&info](size_t at) {
    uint32_t value = 0;
    std::copy_n(&info[at], 4, reinterpret_cast<uint8_t*>(&value));
    return value;
  };
  // Offsets of linux/tcp.h, written out.
  EXPECT_EQ(info[offsetof(tcp_info, tcpi_state)], TCP_ESTABLISHED);
  EXPECT_EQ(word(offsetof(tcp_info, tcpi_snd_mss)), 1460u);
  EXPECT_EQ(word(offsetof(tcp_info, tcpi_advmss)), 1460u);
  EXPECT_EQ(word(offsetof(tcp_info, tcpi_snd_cwnd)), 10u);  // RFC 6928 §2
  EXPECT_EQ(word(128), 100u);                               // tcpi_bytes_received, low half
  EXPECT_EQ(word(228), 65535u);                             // tcpi_snd_wnd
  // A shorter buffer gets the beginning.
  length = 8;
  ASSERT_EQ(t.getsockopt(c.user(), fd, IPPROTO_TCP, TCP_INFO, info.data(), &length), 0);
  EXPECT_EQ(length, 8u);
}

TEST(PacketdrillInfoTest, CongestionInfoIsEmptyAndMemoryPlausible) {
  StubCaller c;
  auto& t = c.table;
  const int fd = c.Accepted(c.Listener());
  ASSERT_GE(fd, 0);
  uint8_t info[64] = {};
  socklen_t length = sizeof(info);
  constexpr int kTcpCcInfo = 26, kSoMeminfo = 55;
  EXPECT_EQ(t.getsockopt(c.user(), fd, IPPROTO_TCP, kTcpCcInfo, info, &length), 0);
  EXPECT_EQ(length, 0u);
  c.Inject(c.FromPeer(Segment::kPsh | Segment::kAck, 1, c.isn + 1, Bytes(100, 'x')));
  uint32_t memory[16] = {};
  length = sizeof(memory);
  ASSERT_EQ(t.getsockopt(c.user(), fd, SOL_SOCKET, kSoMeminfo, memory, &length), 0);
  EXPECT_EQ(length, 36u);        // nine words
  EXPECT_EQ(memory[0], 100u);    // what waits to be read
  EXPECT_GT(memory[1], 10000u);  // SO_RCVBUF
  EXPECT_GT(memory[3], 10000u);  // SO_SNDBUF
}

TEST(PacketdrillEpollTest, ReadinessOfBothKinds) {
  StubCaller c;
  auto& t = c.table;
  const int fd = c.Accepted(c.Listener());
  ASSERT_GE(fd, 0);
  const int epoll = t.epoll_create(c.user(), 1);
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = fd;
  ASSERT_EQ(t.epoll_ctl(c.user(), epoll, EPOLL_CTL_ADD, fd, &event), 0);
  epoll_event got = {};
  EXPECT_EQ(t.epoll_wait(c.user(), epoll, &got, 1, 0), 0);
  pollfd poll = {fd, POLLIN | POLLOUT, 0};
  EXPECT_EQ(t.poll(c.user(), &poll, 1, 0), 1);
  EXPECT_EQ(poll.revents, POLLOUT);
  c.Inject(c.FromPeer(Segment::kPsh | Segment::kAck, 1, c.isn + 1, {'x'}));
  EXPECT_EQ(t.epoll_wait(c.user(), epoll, &got, 1, 0), 1);
  EXPECT_EQ(got.data.fd, fd);
  EXPECT_EQ(t.poll(c.user(), &poll, 1, 0), 1);
  EXPECT_EQ(poll.revents, POLLIN | POLLOUT);
}

TEST(PacketdrillVectorTest, ReadvWritevAndMessages) {
  StubCaller c;
  auto& t = c.table;
  const int fd = c.Accepted(c.Listener());
  ASSERT_GE(fd, 0);
  char a[] = "ab", b[] = "cde";
  iovec out[2] = {{a, 2}, {b, 3}};
  EXPECT_EQ(t.writev(c.user(), fd, out, 2), 5);
  const auto data = c.Receive();
  ASSERT_TRUE(data);
  EXPECT_EQ(data->segment.payload, Bytes({'a', 'b', 'c', 'd', 'e'}));
  msghdr message = {};
  message.msg_iov = out;
  message.msg_iovlen = 2;
  EXPECT_EQ(t.sendmsg(c.user(), fd, &message, 0), 5);
  c.Inject(c.FromPeer(Segment::kPsh | Segment::kAck, 1, c.isn + 6, {'1', '2', '3', '4'}));
  char x[2] = {}, y[4] = {};
  iovec in[2] = {{x, 2}, {y, 1}};
  EXPECT_EQ(t.readv(c.user(), fd, in, 2), 3);
  EXPECT_EQ(y[0], '3');
  message.msg_iov = in;
  EXPECT_EQ(t.recvmsg(c.user(), fd, &message, 0), 1);
  EXPECT_EQ(x[0], '4');
  EXPECT_EQ(t.recv(c.user(), fd, x, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(t.send(c.user(), fd, "z", 1, 0), 1);
}

}  // namespace
}  // namespace tapwire::packetdrill
