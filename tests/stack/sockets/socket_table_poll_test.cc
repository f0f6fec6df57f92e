// SPDX-License-Identifier: Apache-2.0
// poll and epoll, compared with the kernel's (see socket_table_oracle.h).

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "tests/stack/sockets/socket_table_oracle.h"

namespace tapwire {
namespace {

using testutil::Flavour;
using testutil::FlavourName;
using testutil::Script;
using testutil::Session;

class SocketTablePollTest : public testutil::KernelComparison {};

TEST_P(SocketTablePollTest, AnswersAsTheKernel) { Compare(); }

void Add(Session& s, int ep, int fd, uint32_t events, uint64_t tag, int op = EPOLL_CTL_ADD) {
  epoll_event e = {};
  e.events = events;
  e.data.u64 = tag;
  s.Note("epoll_ctl", s.api.EpollCtl(ep, op, fd, &e));
}

// Waits and notes what is ready, in the order of the tags.
void Wait(Session& s, int ep, int timeout_ms = 0, int max = 10) {
  epoll_event events[10] = {};
  const int n = s.api.EpollWait(ep, events, max, timeout_ms);
  s.Note("epoll_wait", n);
  std::vector<std::string> lines;
  for (int i = 0; i < n; ++i) {
    lines.push_back(absl::StrCat("tag ", static_cast<uint64_t>(events[i].data.u64), " ",
                                 Session::EventText(events[i].events)));
  }
  std::sort(lines.begin(), lines.end());
  for (const std::string& line : lines) s.Note(line);
}

void PollMany(Session& s) {
  const auto c = s.Pair();
  s.Send(c.client, "x");
  s.Await(c.server, POLLIN);
  pollfd p[5] = {{c.server, POLLIN, 0},
                 {-1, POLLIN, 0x7f},
                 {9999, POLLIN, 0},
                 {c.client, POLLIN | POLLOUT, 0},
                 {c.listener, POLLIN, 0x7f}};
  s.Note("poll", s.api.Poll(p, 5, 0));
  for (const pollfd& entry : p) s.Note("revents", entry.revents);
  s.Note("nothing", s.api.Poll(nullptr, 0, 0));
  s.Note("null", s.api.Poll(nullptr, 1, 0));
  s.Note("time passes", s.api.Poll(&p[4], 1, 20));
  p[0].events = 0;
  s.Note("no events asked", s.api.Poll(p, 1, 0));
}

void LevelTriggered(Session& s) {
  const auto c = s.Pair();
  const int ep = s.Own(s.api.EpollCreate(1));
  Add(s, ep, c.server, EPOLLIN | EPOLLRDHUP, 1);
  Add(s, ep, c.client, EPOLLIN, 2);
  Wait(s, ep);
  s.Send(c.client, "ab");
  Wait(s, ep, 1000);
  s.Recv(c.server, 1);
  Wait(s, ep);
  s.Recv(c.server, 1);
  Wait(s, ep);
  Add(s, ep, c.server, EPOLLOUT, 3, EPOLL_CTL_MOD);
  Wait(s, ep);
  Add(s, ep, c.server, 0, 4, EPOLL_CTL_MOD);
  Wait(s, ep);
  s.Close(c.client);
  s.Await(c.server, POLLRDHUP);
  Wait(s, ep);
  Add(s, ep, c.server, EPOLLIN | EPOLLRDHUP, 5, EPOLL_CTL_MOD);
  Wait(s, ep);
  s.Close(c.server);
  Wait(s, ep);
}

void EdgeTriggered(Session& s) {
  const auto c = s.Pair();
  const int ep = s.Own(s.api.EpollCreate(1));
  Add(s, ep, c.server, EPOLLIN | EPOLLET, 1);
  Wait(s, ep);
  s.Send(c.client, "ab");
  Wait(s, ep, 1000);
  Wait(s, ep);
  s.Recv(c.server, 1);
  Wait(s, ep);
  s.Send(c.client, "c");
  Wait(s, ep, 1000);
  Wait(s, ep);
  Add(s, ep, c.server, EPOLLIN | EPOLLET, 2, EPOLL_CTL_MOD);
  Wait(s, ep);
  Wait(s, ep);
  s.Note("shutdown", s.api.Shutdown(c.client, SHUT_WR));
  Wait(s, ep, 1000);
  Wait(s, ep);
}

void OneShot(Session& s) {
  const auto c = s.Pair();
  const int ep = s.Own(s.api.EpollCreate(1));
  Add(s, ep, c.server, EPOLLIN | EPOLLONESHOT, 1);
  s.Send(c.client, "ab");
  Wait(s, ep, 1000);
  Wait(s, ep);
  s.Send(c.client, "c");
  Wait(s, ep, 20);
  Add(s, ep, c.server, EPOLLIN | EPOLLONESHOT, 2, EPOLL_CTL_MOD);
  Wait(s, ep);
  Wait(s, ep);
}

void ListenersAndConnects(Session& s) {
  const int listener = s.Listener();
  const int ep = s.Own(s.api.EpollCreate(1));
  Add(s, ep, listener, EPOLLIN, 1);
  const int client = s.Tcp(SOCK_NONBLOCK);
  Add(s, ep, client, EPOLLOUT | EPOLLET, 2);
  Wait(s, ep);
  s.Connect(client, s.NameOf(listener));
  s.Await(client, POLLOUT);
  s.Await(listener, POLLIN);
  Wait(s, ep);
  Wait(s, ep);
  const int server = s.Own(s.api.Accept4(listener, nullptr, nullptr, 0));
  s.Note("accept", std::min(server, 0));
  Wait(s, ep);
}

void Errors(Session& s) {
  s.Note("size 0", s.api.EpollCreate(0));
  s.Note("size -1", s.api.EpollCreate(-1));
  const int ep = s.Own(s.api.EpollCreate(1)), fd = s.Udp();
  epoll_event e = {};
  e.events = EPOLLIN;
  s.Note("unknown op", s.api.EpollCtl(ep, 99, fd, &e));
  s.Note("null event", s.api.EpollCtl(ep, EPOLL_CTL_ADD, fd, nullptr));
  s.Note("mod missing", s.api.EpollCtl(ep, EPOLL_CTL_MOD, fd, &e));
  s.Note("del missing", s.api.EpollCtl(ep, EPOLL_CTL_DEL, fd, nullptr));
  s.Note("itself", s.api.EpollCtl(ep, EPOLL_CTL_ADD, ep, &e));
  s.Note("not a set", s.api.EpollCtl(fd, EPOLL_CTL_ADD, ep, &e));
  s.Note("bad fd", s.api.EpollCtl(ep, EPOLL_CTL_ADD, 9999, &e));
  s.Note("bad set", s.api.EpollCtl(9999, EPOLL_CTL_ADD, fd, &e));
  s.Note("add", s.api.EpollCtl(ep, EPOLL_CTL_ADD, fd, &e));
  s.Note("add again", s.api.EpollCtl(ep, EPOLL_CTL_ADD, fd, &e));
  s.Note("del", s.api.EpollCtl(ep, EPOLL_CTL_DEL, fd, nullptr));
  s.Note("max 0", s.api.EpollWait(ep, &e, 0, 0));
  s.Note("max -1", s.api.EpollWait(ep, &e, -1, 0));
  s.Note("not a set", s.api.EpollWait(fd, &e, 1, 0));
  s.Note("bad set", s.api.EpollWait(9999, &e, 1, 0));
  s.Note("nothing", s.api.EpollWait(ep, &e, 1, 20));
  char byte = 0;
  s.Note("read", s.api.Read(ep, &byte, 1));
  s.Note("write", s.api.Write(ep, &byte, 1));
  s.Note("recv", s.api.Recv(ep, &byte, 1, 0));
  s.Note("send", s.api.Send(ep, &byte, 1, 0));
  s.Note("listen", s.api.Listen(ep, 1));
  s.Note("accept", s.api.Accept4(ep, nullptr, nullptr, 0));
  s.Note("shutdown", s.api.Shutdown(ep, SHUT_RD));
  s.SockName(ep, 0);
  s.PeerName(ep, 0);
  s.Bind(ep, s.Loopback(0));
  s.Connect(ep, s.Loopback(9));
  s.GetInt(ep, SOL_SOCKET, SO_ERROR, "SO_ERROR");
  s.SetInt(ep, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE");
}

void NestedSets(Session& s) {
  const int inner = s.Own(s.api.EpollCreate(1)), outer = s.Own(s.api.EpollCreate(1));
  const auto c = s.Pair();
  Add(s, inner, c.server, EPOLLIN, 1);
  Add(s, outer, inner, EPOLLIN, 2);
  Add(s, inner, outer, EPOLLIN, 3);
  s.Events(outer);
  Wait(s, outer);
  s.Send(c.client, "x");
  Wait(s, outer, 1000);
  s.Events(inner);
  s.Recv(c.server, 1);
  Wait(s, outer);
  s.Events(inner);
}

void FewAtATime(Session& s) {
  const int ep = s.Own(s.api.EpollCreate(1));
  std::vector<int> fds;
  for (uint64_t i = 0; i < 4; ++i) {
    fds.push_back(s.Udp());
    Add(s, ep, fds.back(), EPOLLOUT, i);
  }
  // Level-triggered ones take turns.
  for (int i = 0; i < 4; ++i) Wait(s, ep, 0, 3);
}

const std::vector<Script> kScripts = {
    {"PollMany", &PollMany},
    {"LevelTriggered", &LevelTriggered},
    {"EdgeTriggered", &EdgeTriggered},
    {"OneShot", &OneShot},
    {"ListenersAndConnects", &ListenersAndConnects},
    {"Errors", &Errors},
    {"NestedSets", &NestedSets},
    {"FewAtATime", &FewAtATime},
};

INSTANTIATE_TEST_SUITE_P(Scripts, SocketTablePollTest,
                         ::testing::Combine(::testing::ValuesIn(kScripts),
                                            ::testing::Values(Flavour::kV4, Flavour::kV6)),
                         [](const auto& p) {
                           return std::string(std::get<0>(p.param).name) +
                                  FlavourName(std::get<1>(p.param));
                         });

}  // namespace
}  // namespace tapwire
