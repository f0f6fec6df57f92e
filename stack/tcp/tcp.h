// SPDX-License-Identifier: Apache-2.0
// Tcp: the protocol object of one stack: tables of connections, listeners and TIME-WAIT entries,
// input checks, ports, and the once-per-batch lists of connections that have output or events.
// Sockets are in stack/sockets/tcp_socket.h and tcp_listener.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "netdev/net_context.h"
#include "stack/flow_key.h"
#include "stack/ip.h"
#include "stack/stack.h"
#include "stack/tcp/config.h"
#include "stack/tcp/connection.h"
#include "stack/tcp/isn.h"
#include "stack/tcp/listener.h"
#include "stack/tcp/options.h"
#include "stack/tcp/syn_cookie.h"
#include "stack/tcp/time_wait.h"

namespace tapwire::tcp {

class Tcp final : public TransportProtocol, private netdev::FlushHook {
 public:
  // The TCP of `stack`, made and registered on first use with the given configuration (ignored
  // afterwards); owned by the stack.
  static Tcp& Install(Stack& stack, const Config& config = Config::Linux());
  Tcp(Stack& stack, const Config& config);
  ~Tcp() override;

  Stack& stack() const { return stack_; }
  Config& config() { return config_; }
  const Config& config() const { return config_; }

  // Active OPEN. `local` may have the unspecified address (chosen by the route) and port 0 (chosen,
  // RFC 6056). Errors: kInvalidArgument (remote unspecified, a group, or port 0) and
  // ENETUNREACH (broadcast): MUST-46; kNotFound no route, EADDRNOTAVAIL (no such local address, no
  // free port), EADDRINUSE (the four-tuple is taken), kResourceExhausted. The result comes through
  // `observer`.
  absl::StatusOr<Connection*> Connect(const Endpoint& local, const Endpoint& remote,
                                      const SocketOptions& options, ConnectionObserver* observer);
  // Passive OPEN. A port of 0 is chosen. EADDRINUSE, EADDRNOTAVAIL. The caller owns the listener
  // through CloseListener().
  absl::StatusOr<Listener*> Listen(const Endpoint& local, size_t backlog,
                                   const SocketOptions& options, ListenerObserver* observer);
  // Connections that were not accepted are reset, half-open ones dropped.
  void CloseListener(Listener& listener);

  // Whether `local` may be bound (bind() before connect or listen): EADDRINUSE, EADDRNOTAVAIL. As
  // Linux has it, connections and TIME-WAIT on the port forbid it unless both sides reuse. A
  // port of 0 is replaced by a free one. The port stays reserved until ReleasePort().
  absl::StatusOr<Endpoint> ReservePort(const Endpoint& local, const SocketOptions& options);
  void ReleasePort(const Endpoint& local);

  DropReason Input(PacketPtr packet, const IpPacketInfo& info) override;
  bool OnIcmpError(const IcmpErrorInfo& error) override;

  // Tells the observer now what it would be told after the batch.
  void TellNow(Connection& connection);

  size_t connection_count() const { return connections_.size(); }
  size_t listener_count() const { return listeners_.size(); }
  size_t time_wait_count() const { return time_wait_.size(); }
  // Connections that close in the background, their user being gone.
  size_t orphan_count() const { return orphans_; }
  // All of them, in no particular order, for views such as ss.
  std::vector<const Connection*> connections() const;
  std::vector<const Listener*> listeners() const;

 private:
  friend class Connection;
  friend class Listener;
  friend class TimeWaitTable;

  struct FlowHash {
    using is_transparent = void;
    FlowKeyHash hash;
    size_t operator()(const FlowKey& flow) const { return hash(flow); }
    size_t operator()(const Connection* c) const { return hash(c->flow()); }
  };
  struct FlowEqual {
    using is_transparent = void;
    static const FlowKey& Key(const FlowKey& flow) { return flow; }
    static const FlowKey& Key(const Connection* c) { return c->flow(); }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return Key(a) == Key(b);
    }
  };

  // tcp.cc
  void Flush() override;
  DropReason Parse(PacketPtr packet, const IpPacketInfo& info, Segment& segment);
  DropReason Deliver(Segment& segment);
  DropReason NoSocket(Segment& segment);
  DropReason CountDrop(Segment& segment, DropReason reason);
  void DeferEvents();
  void RunEvents();
  void RunEventsOf(Connection& connection);
  void Bury(Connection& connection);
  // For connections and listeners.
  void ScheduleOutput(Connection& connection);
  void ScheduleEvent(Connection& connection);
  void ScheduleAcceptEvent(Listener& listener);
  void Remove(Connection& connection);  // out of the table; destroyed after the batch
  void ResetFor(const Segment& segment);
  void SendReset(const FlowKey& flow, const Route& route, Seq seq, std::optional<Seq> ack);
  void SendBare(const FlowKey& flow, const Route& route, const wire::TcpFields& fields);

  // demux.cc
  Connection* FindConnection(const FlowKey& flow) const;
  Listener* FindListener(const Endpoint& local) const;
  absl::Status CheckLocalAddress(const Endpoint& local) const;
  bool IsPortFree(const Endpoint& local, const SocketOptions& options) const;
  void UsePort(uint16_t port) { ++port_use_[port]; }
  void UnusePort(uint16_t port);
  bool IsTakenByConnections(const Endpoint& local, const SocketOptions& options) const;
  bool IsTupleFree(const FlowKey& flow) const;
  absl::StatusOr<FlowKey> ChooseFlow(const Endpoint& local, const Endpoint& remote,
                                     const Route& route);
  // Null at the limit of connections.
  Connection* AddConnection(const FlowKey& flow, const Route& route,
                            std::shared_ptr<SocketOptions> options);
  std::shared_ptr<SocketOptions> ShareOptions(const SocketOptions& options);
  Seq ChooseIss(const FlowKey& flow);

  Stack& stack_;
  Config config_;
  IsnGenerator isn_;
  SynCookies cookies_;
  FlowKeyHash hash_;
  absl::flat_hash_set<Connection*, FlowHash, FlowEqual> connections_;
  absl::flat_hash_map<uint16_t, std::vector<std::unique_ptr<Listener>>> listeners_;
  // Connections and TIME-WAIT entries by local port, so that bind() need not look for them.
  absl::flat_hash_map<uint16_t, uint32_t> port_use_;
  TimeWaitTable time_wait_;
  std::shared_ptr<SocketOptions> shared_options_;  // of the last Connect()
  size_t orphans_ = 0;                             // connections whose user is gone
  struct Reservation {
    IpAddress address;
    bool reuse = false;
    bool v6_only = false;
  };
  absl::flat_hash_map<uint16_t, std::vector<Reservation>> reservations_;
  IntrusiveList<Connection, OutputTag> output_list_;
  IntrusiveList<Connection, EventTag> event_list_;
  // Gone, but not yet told so. (A connection that is gone waits in no accept queue.)
  IntrusiveList<Connection, AcceptTag> departed_;
  std::vector<std::unique_ptr<Connection>> graveyard_;
  std::vector<Listener*> accept_events_;
  std::vector<Listener*>* accepting_ = nullptr;  // those being told now
  bool events_deferred_ = false;
  // While a SYN that reopens a TIME-WAIT tuple is handled: its ISS must be above this (RFC 6191).
  std::optional<Seq> min_isn_;
  std::shared_ptr<Tcp*> alive_;  // deferred work holds it weakly
};

// Here, where Tcp is known, so that they cost no call: every segment asks a dozen times.
inline Stack& Connection::stack() const { return tcp_.stack(); }
inline Time Connection::now() const { return tcp_.stack().now(); }
inline const Config& Connection::config() const { return tcp_.config(); }

}  // namespace tapwire::tcp
