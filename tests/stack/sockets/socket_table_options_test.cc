// SPDX-License-Identifier: Apache-2.0
// getsockopt and setsockopt, compared with the kernel's (see socket_table_oracle.h); and what only
// we know: the layout of TCP_INFO, buffer sizes.

#include <gtest/gtest.h>

#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

#include "stack/sockets/socket_options.h"
#include "tests/stack/sockets/socket_table_oracle.h"

namespace tapwire {
namespace {

using internal::LinuxTcpInfo;
using testutil::Flavour;
using testutil::Script;
using testutil::Session;
using testutil::SimSockets;

class SocketTableOptionsTest : public testutil::KernelComparison {};

TEST_P(SocketTableOptionsTest, AnswersAsTheKernel) { Compare(); }

struct Named {
  int level, name;
  const char* text;
};
#define OPTION(level, name) \
  { level, name, #name }
const Named kTcpOptions[] = {
    OPTION(SOL_SOCKET, SO_REUSEADDR),
    OPTION(SOL_SOCKET, SO_REUSEPORT),
    OPTION(SOL_SOCKET, SO_KEEPALIVE),
    OPTION(SOL_SOCKET, SO_OOBINLINE),
    OPTION(SOL_SOCKET, SO_RCVLOWAT),
    OPTION(SOL_SOCKET, SO_SNDLOWAT),
    OPTION(SOL_SOCKET, SO_BROADCAST),
    OPTION(SOL_SOCKET, SO_PRIORITY),
    OPTION(IPPROTO_TCP, TCP_NODELAY),
    OPTION(IPPROTO_TCP, TCP_CORK),
    OPTION(IPPROTO_TCP, TCP_KEEPIDLE),
    OPTION(IPPROTO_TCP, TCP_KEEPINTVL),
    OPTION(IPPROTO_TCP, TCP_KEEPCNT),
    OPTION(IPPROTO_TCP, TCP_LINGER2),
    OPTION(IPPROTO_TCP, TCP_DEFER_ACCEPT),
    OPTION(IPPROTO_TCP, TCP_WINDOW_CLAMP),
    OPTION(IPPROTO_TCP, TCP_QUICKACK),
    OPTION(IPPROTO_TCP, TCP_USER_TIMEOUT),
    OPTION(IPPROTO_TCP, TCP_MAXSEG),
    OPTION(IPPROTO_IP, IP_TOS),
    OPTION(IPPROTO_IP, IP_TTL),
    OPTION(IPPROTO_IP, IP_RECVERR),
};
const Named kUdpOptions[] = {
    OPTION(SOL_SOCKET, SO_REUSEADDR), OPTION(SOL_SOCKET, SO_BROADCAST),
    OPTION(SOL_SOCKET, SO_RCVLOWAT),  OPTION(SOL_SOCKET, SO_PRIORITY),
    OPTION(IPPROTO_IP, IP_TOS),       OPTION(IPPROTO_IP, IP_TTL),
    OPTION(IPPROTO_IP, IP_RECVERR),   OPTION(IPPROTO_IP, IP_MTU_DISCOVER),
    OPTION(IPPROTO_IP, IP_MTU),
};
const Named kIpv6Options[] = {
    OPTION(IPPROTO_IPV6, IPV6_V6ONLY),       OPTION(IPPROTO_IPV6, IPV6_UNICAST_HOPS),
    OPTION(IPPROTO_IPV6, IPV6_TCLASS),       OPTION(IPPROTO_IPV6, IPV6_RECVERR),
    OPTION(IPPROTO_IPV6, IPV6_MTU_DISCOVER), OPTION(IPPROTO_IPV6, IPV6_MTU),
};
#undef OPTION

// Reads the default, and each of these values after setting it: what is refused, what is rounded.
void TryValues(Session& s, int fd, const Named& o) {
  s.GetInt(fd, o.level, o.name, o.text);
  for (const int value :
       {0, 1, 2, 5, 64, 88, 87, 127, 128, 252, 255, 256, 1000, 32767, 32768, 1 << 20, -1, -2}) {
    s.SetInt(fd, o.level, o.name, value, o.text);
    s.GetInt(fd, o.level, o.name, o.text);
  }
}

void TcpValues(Session& s) {
  for (const Named& o : kTcpOptions) {
    const int fd = s.Tcp();
    // How large it may be depends on the host's settings.
    if (o.name == SO_RCVLOWAT && o.level == SOL_SOCKET) {
      for (const int value : {0, 1, 5, 1000}) {
        s.SetInt(fd, o.level, o.name, value, o.text);
        s.GetInt(fd, o.level, o.name, o.text);
      }
      continue;
    }
    // Root may set any priority, others up to 6.
    if (o.name == SO_PRIORITY && o.level == SOL_SOCKET) {
      s.GetInt(fd, o.level, o.name, o.text);
      s.SetInt(fd, o.level, o.name, 6, o.text);
      s.GetInt(fd, o.level, o.name, o.text);
      continue;
    }
    TryValues(s, fd, o);
  }
}

void UdpValues(Session& s) {
  for (const Named& o : kUdpOptions) {
    if (o.name == SO_PRIORITY && o.level == SOL_SOCKET) continue;
    TryValues(s, s.Udp(), o);
  }
}

void Ipv6Values(Session& s) {
  for (const Named& o : kIpv6Options) {
    if (o.name == IPV6_MTU) {
      s.GetInt(s.Udp(), o.level, o.name, o.text);
      continue;
    }
    TryValues(s, s.Udp(), o);
    if (o.name != IPV6_MTU_DISCOVER) TryValues(s, s.Tcp(), o);
  }
}

void ReadOnlyAndUnknown(Session& s) {
  const int fd = s.Tcp();
  for (const int name : {SO_ERROR, SO_TYPE, SO_DOMAIN, SO_PROTOCOL, SO_ACCEPTCONN, SO_SNDLOWAT}) {
    s.SetInt(fd, SOL_SOCKET, name, 1, "read only");
  }
  for (const auto& [level, name] : std::vector<std::pair<int, int>>{
           {SOL_SOCKET, 9999}, {IPPROTO_TCP, 9999}, {IPPROTO_IP, 9999}, {9999, 1}}) {
    s.GetInt(fd, level, name, "unknown");
    s.SetInt(fd, level, name, 1, "unknown");
  }
  s.GetInt(9999, SOL_SOCKET, SO_ERROR, "bad fd");
  s.SetInt(9999, SOL_SOCKET, SO_ERROR, 1, "bad fd");
}

void Lengths(Session& s) {
  const int fd = s.Tcp();
  int value = 1;
  for (const auto& [level, name] : std::vector<std::pair<int, int>>{{SOL_SOCKET, SO_KEEPALIVE},
                                                                    {IPPROTO_TCP, TCP_NODELAY},
                                                                    {IPPROTO_IP, IP_TOS},
                                                                    {IPPROTO_IP, IP_TTL},
                                                                    {SOL_SOCKET, SO_LINGER},
                                                                    {SOL_SOCKET, SO_RCVTIMEO}}) {
    for (const socklen_t size : {0u, 1u, 3u, 4u}) {
      s.Note("set", s.api.SetSockOpt(fd, level, name, &value, size));
      value = 0x01010101;
      socklen_t length = size;
      s.Note("get", s.api.GetSockOpt(fd, level, name, &value, &length));
      s.Note("length", length);
      s.Note("value", value);
      value = 1;
    }
    s.Note("null value", s.api.SetSockOpt(fd, level, name, nullptr, 4));
    s.Note("null length", s.api.GetSockOpt(fd, level, name, &value, nullptr));
    socklen_t negative = static_cast<socklen_t>(-1);
    s.Note("negative length", s.api.GetSockOpt(fd, level, name, &value, &negative));
  }
}

void Structures(Session& s) {
  const int fd = s.Tcp();
  struct linger l = {1, 7};
  s.Note("linger", s.api.SetSockOpt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
  l = {};
  socklen_t size = sizeof(l);
  s.Note("linger", s.api.GetSockOpt(fd, SOL_SOCKET, SO_LINGER, &l, &size));
  s.Note("on", l.l_onoff);
  s.Note("seconds", l.l_linger);
  for (const timeval t :
       {timeval{1, 500'000}, timeval{0, 1'000'000}, timeval{0, -1}, timeval{0, 0}}) {
    s.Note("timeout", s.api.SetSockOpt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)));
    timeval back = {};
    size = sizeof(back);
    s.Note("timeout", s.api.GetSockOpt(fd, SOL_SOCKET, SO_SNDTIMEO, &back, &size));
    s.Note("seconds", back.tv_sec);
    s.Note("microseconds", back.tv_usec);
  }
  char name[16] = "reno";
  s.Note("congestion", s.api.SetSockOpt(fd, IPPROTO_TCP, TCP_CONGESTION, name, 4));
  size = sizeof(name);
  s.Note("congestion", s.api.GetSockOpt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size));
  s.Note(std::string(name));
  s.Note("length", size);
  s.Note("nonsense", s.api.SetSockOpt(fd, IPPROTO_TCP, TCP_CONGESTION, "nonsense", 8));
  s.Note("empty", s.api.SetSockOpt(fd, IPPROTO_TCP, TCP_CONGESTION, "", 0));
}

void OptionsOfTheAccepted(Session& s) {
  const int listener = s.Listener();
  s.SetInt(listener, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE");
  s.SetInt(listener, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
  s.SetInt(listener, IPPROTO_TCP, TCP_KEEPIDLE, 77, "TCP_KEEPIDLE");
  s.SetInt(listener, SOL_SOCKET, SO_RCVLOWAT, 3, "SO_RCVLOWAT");
  const int client = s.Tcp();
  s.Connect(client, s.NameOf(listener));
  const int server = s.Own(s.api.Accept4(listener, nullptr, nullptr, 0));
  s.GetInt(server, SOL_SOCKET, SO_KEEPALIVE, "SO_KEEPALIVE");
  s.GetInt(server, IPPROTO_TCP, TCP_NODELAY, "TCP_NODELAY");
  s.GetInt(server, IPPROTO_TCP, TCP_KEEPIDLE, "TCP_KEEPIDLE");
  s.GetInt(server, SOL_SOCKET, SO_RCVLOWAT, "SO_RCVLOWAT");
  s.GetInt(server, SOL_SOCKET, SO_ACCEPTCONN, "SO_ACCEPTCONN");
  s.GetInt(listener, SOL_SOCKET, SO_ACCEPTCONN, "SO_ACCEPTCONN");
  s.SetInt(server, IPPROTO_TCP, TCP_WINDOW_CLAMP, 0, "TCP_WINDOW_CLAMP");
  if (s.flavour() == Flavour::kV4) s.GetInt(server, IPPROTO_IP, IP_MTU, "IP_MTU");
  if (s.flavour() == Flavour::kV6) s.GetInt(server, IPPROTO_IPV6, IPV6_MTU, "IPV6_MTU");
  if (!s.v4()) s.SetInt(server, IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY");
}

// TCP_INFO's state of each kind of socket.
void InfoStates(Session& s) {
  const auto state = [&s](int fd) {
    uint8_t info[512] = {};
    socklen_t size = sizeof(info);
    s.Note("TCP_INFO", s.api.GetSockOpt(fd, IPPROTO_TCP, TCP_INFO, info, &size));
    s.Note("state", info[0]);
  };
  const int fresh = s.Tcp();
  state(fresh);
  const auto c = s.Pair();
  state(c.listener);
  state(c.client);
  state(c.server);
  s.api.Shutdown(c.client, SHUT_WR);
  s.Await(c.server, POLLRDHUP);
  state(c.server);  // the client's depends on whether its FIN is acknowledged yet
  s.api.Shutdown(c.server, SHUT_WR);
  s.Await(c.client, POLLHUP);
  state(c.client);
  state(c.server);
}

const std::vector<Script> kScripts = {
    {"TcpValues", &TcpValues},
    {"UdpValues", &UdpValues},
    {"Ipv6Values", &Ipv6Values},
    {"ReadOnlyAndUnknown", &ReadOnlyAndUnknown},
    {"Lengths", &Lengths},
    {"Structures", &Structures},
    {"OptionsOfTheAccepted", &OptionsOfTheAccepted},
    {"InfoStates", &InfoStates},
};

INSTANTIATE_TEST_SUITE_P(Scripts, SocketTableOptionsTest, testutil::InEveryFlavour(kScripts),
                         testutil::ComparisonName);

// The C library's header is the judge of the offsets that it has, the kernel's (6.1) of the
// numbers.
TEST(SocketTableOptionsTest, TcpInfoHasLinuxLayout) {
#define SAME(field) \
  EXPECT_EQ(offsetof(LinuxTcpInfo, field), offsetof(struct tcp_info, tcpi_##field))
  SAME(state);
  SAME(ca_state);
  SAME(options);
  SAME(rto);
  SAME(snd_mss);
  SAME(unacked);
  SAME(lost);
  SAME(last_data_sent);
  SAME(last_ack_recv);
  SAME(pmtu);
  SAME(rtt);
  SAME(snd_ssthresh);
  SAME(snd_cwnd);
  SAME(advmss);
  SAME(reordering);
  SAME(rcv_space);
  SAME(total_retrans);
#undef SAME
  EXPECT_EQ(offsetof(LinuxTcpInfo, pacing_rate), 104u);
  EXPECT_EQ(offsetof(LinuxTcpInfo, bytes_acked), 120u);
  EXPECT_EQ(offsetof(LinuxTcpInfo, segs_out), 136u);
  EXPECT_EQ(offsetof(LinuxTcpInfo, notsent_bytes), 144u);
  EXPECT_EQ(offsetof(LinuxTcpInfo, min_rtt), 148u);
  EXPECT_EQ(offsetof(LinuxTcpInfo, data_segs_out), 156u);
  EXPECT_EQ(offsetof(LinuxTcpInfo, delivery_rate), 160u);
  EXPECT_EQ(offsetof(LinuxTcpInfo, delivered), 192u);
  EXPECT_EQ(offsetof(LinuxTcpInfo, bytes_sent), 200u);
  EXPECT_EQ(offsetof(LinuxTcpInfo, dsack_dups), 216u);
  EXPECT_EQ(offsetof(LinuxTcpInfo, snd_wnd), 228u);
  // The tail of 6.18.
  EXPECT_EQ(offsetof(LinuxTcpInfo, rcv_wnd), 232u);
  EXPECT_EQ(offsetof(LinuxTcpInfo, rehash), 236u);
  EXPECT_EQ(offsetof(LinuxTcpInfo, total_rto), 240u);
  EXPECT_EQ(offsetof(LinuxTcpInfo, total_rto_recoveries), 242u);
  EXPECT_EQ(offsetof(LinuxTcpInfo, total_rto_time), 244u);
  EXPECT_EQ(offsetof(LinuxTcpInfo, received_ce), 248u);
  EXPECT_EQ(offsetof(LinuxTcpInfo, received_e1_bytes), 264u);
  EXPECT_EQ(offsetof(LinuxTcpInfo, accecn), 276u);
}

TEST(SocketTableOptionsTest, TcpInfoIsCutToTheCallersBuffer) {
  SimSockets sim;
  const int fd = sim.table().Socket(AF_INET, SOCK_STREAM, 0);
  std::vector<uint8_t> info(400, 0xee);
  socklen_t size = 400;
  EXPECT_EQ(sim.table().GetSockOpt(fd, IPPROTO_TCP, TCP_INFO, info.data(), &size), 0);
  EXPECT_EQ(size, 280u);
  EXPECT_EQ(info[279], 0);
  EXPECT_EQ(info[280], 0xee);
  size = 104;
  EXPECT_EQ(sim.table().GetSockOpt(fd, IPPROTO_TCP, TCP_INFO, info.data(), &size), 0);
  EXPECT_EQ(size, 104u);
  EXPECT_EQ(sim.table().Close(fd), 0);
}

// Linux tells twice the size asked for, and has a least one.
TEST(SocketTableOptionsTest, BufferSizesAreDoubledAndBounded) {
  SimSockets sim;
  SocketTable& t = sim.table();
  for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
    const int fd = t.Socket(AF_INET, type, 0);
    for (const auto& [name, least] : {std::pair(SO_SNDBUF, 4608), std::pair(SO_RCVBUF, 2304)}) {
      for (const auto& [asked, told] :
           {std::pair(50'000, 100'000), std::pair(0, least), std::pair(1, least)}) {
        EXPECT_EQ(t.SetSockOpt(fd, SOL_SOCKET, name, &asked, sizeof(asked)), 0);
        int value = 0;
        socklen_t size = sizeof(value);
        EXPECT_EQ(t.GetSockOpt(fd, SOL_SOCKET, name, &value, &size), 0);
        EXPECT_EQ(value, told) << "type " << type << " option " << name;
      }
    }
    EXPECT_EQ(t.Close(fd), 0);
  }
}

}  // namespace
}  // namespace tapwire
