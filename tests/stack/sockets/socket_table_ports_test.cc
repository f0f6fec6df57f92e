// SPDX-License-Identifier: Apache-2.0
// Ports that live or closed connections hold, and connections that were reset before accept():
// compared call by call with the kernel (see socket_table_oracle.h).
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/stack/sockets/socket_table_oracle.h"

namespace tapwire {
namespace {

using testutil::Address;
using testutil::Script;
using testutil::Session;

class SocketTablePortsTest : public testutil::KernelComparison {};

TEST_P(SocketTablePortsTest, AnswersAsTheKernel) { Compare(); }

void Reuse(Session& s, int fd) { s.SetInt(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"); }

// A pair of connected sockets whose listener has SO_REUSEADDR or not.
Session::Connected PairWith(Session& s, bool reuse) {
  Session::Connected c = {};
  c.listener = s.Tcp();
  if (reuse) Reuse(s, c.listener);
  s.Bind(c.listener, s.Loopback(0));
  s.Listen(c.listener);
  c.port = s.PortOf(c.listener);
  c.client = s.Tcp();
  s.Connect(c.client, s.Loopback(c.port));
  c.server = s.Own(s.api.Accept4(c.listener, nullptr, nullptr, 0));
  return c;
}

void Wait(Session& s, int fd, int ms) {
  pollfd p = {fd, 0, 0};
  s.api.Poll(&p, 1, ms);
}

// Who may bind the port now: one without, one with SO_REUSEADDR, and one of the wildcard.
void TryToBind(Session& s, uint16_t port) {
  for (const bool reuse : {false, true}) {
    const int exact = s.Tcp();
    if (reuse) Reuse(s, exact);
    s.Bind(exact, s.Loopback(port));
    s.Close(exact);
    const int any = s.Tcp();
    if (reuse) Reuse(s, any);
    s.Bind(any, s.Any(port));
    s.Close(any);
  }
}

void BindBesideConnection(Session& s) {
  for (const bool reuse : {false, true}) {
    const auto c = PairWith(s, reuse);
    TryToBind(s, c.port);  // the listener is in the way of all
    s.Close(c.listener);
    TryToBind(s, c.port);  // the connection, only of those that do not reuse
    const uint16_t ephemeral = s.PortOf(c.client);
    TryToBind(s, ephemeral);
    s.Close(c.client);
    s.Close(c.server);
  }
}

void ListenAgainBesideConnection(Session& s) {
  const auto c = PairWith(s, true);
  s.Close(c.listener);
  const int again = s.Tcp();
  Reuse(s, again);
  s.Bind(again, s.Loopback(c.port));
  s.Listen(again);
  const int client = s.Tcp();
  s.Connect(client, s.Loopback(c.port));
  s.Send(c.client, "old");
  s.Await(c.server, POLLIN);
  s.Recv(c.server, 10);
}

void BindBesideTimeWait(Session& s) {
  for (const bool reuse : {false, true}) {
    const auto c = PairWith(s, reuse);
    s.Close(c.listener);
    s.Close(c.server);  // closes first, and so is the one that waits
    s.Await(c.client, POLLIN);
    s.Recv(c.client, 1);
    s.Close(c.client);
    const int idle = s.Udp();
    Wait(s, idle, 50);
    TryToBind(s, c.port);
  }
}

void AcceptAfterReset(Session& s) {
  for (const bool data : {false, true}) {
    const int listener = s.Listener();
    const uint16_t port = s.PortOf(listener);
    const int client = s.Tcp();
    s.Connect(client, s.Loopback(port));
    if (data) s.Send(client, "bye");
    const linger now = {1, 0};
    s.api.SetSockOpt(client, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    s.Close(client);
    s.Await(listener, POLLIN);
    Wait(s, listener, 50);
    s.Events(listener);
    Address from;
    from.length = sizeof(from.storage);
    const int server = s.Own(s.api.Accept4(listener, from.get(), &from.length, 0));
    s.NoteName("accept", std::min(server, 0), from, 0);
    if (server < 0) continue;
    s.Events(server);
    s.SockName(server, port);
    s.PeerName(server, 0);
    if (data) s.Recv(server, 10);
    s.Recv(server, 10);
    s.Recv(server, 10);
    s.Send(server, "x");
    s.Events(server);
    s.Close(server);
  }
}

void AcceptAfterResetAsksForTheError(Session& s) {
  const int listener = s.Listener();
  const int client = s.Tcp();
  s.Connect(client, s.NameOf(listener));
  const linger now = {1, 0};
  s.api.SetSockOpt(client, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  s.Close(client);
  Wait(s, listener, 50);
  const int server = s.Own(s.api.Accept4(listener, nullptr, nullptr, 0));
  s.GetInt(server, SOL_SOCKET, SO_ERROR, "SO_ERROR");
  s.GetInt(server, SOL_SOCKET, SO_ERROR, "SO_ERROR");
  s.Recv(server, 1);
  s.Send(server, "x");
}

#define SCRIPT(name) \
  { #name, &name }
const std::vector<Script> kScripts = {
    SCRIPT(BindBesideConnection), SCRIPT(ListenAgainBesideConnection), SCRIPT(BindBesideTimeWait),
    SCRIPT(AcceptAfterReset), SCRIPT(AcceptAfterResetAsksForTheError)};
#undef SCRIPT

INSTANTIATE_TEST_SUITE_P(Scripts, SocketTablePortsTest, testutil::InEveryFlavour(kScripts),
                         testutil::ComparisonName);

}  // namespace
}  // namespace tapwire
