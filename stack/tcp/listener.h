// SPDX-License-Identifier: Apache-2.0
// Listener: a passive OPEN (RFC 9293 §3.10.7.2): connections in SYN-RECEIVED, bounded, and the
// queue of established ones that wait to be accepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "netdev/base/intrusive_list.h"
#include "netdev/base/time.h"
#include "netdev/wire/ip_address.h"
#include "stack/route.h"
#include "stack/tcp/connection.h"
#include "stack/tcp/options.h"
#include "stack/tcp/segment.h"

namespace tapwire::tcp {

class ListenerObserver {
 public:
  virtual ~ListenerObserver() = default;
  // A connection waits to be accepted. After the batch.
  virtual void OnAcceptable() = 0;
  // The stack is gone, and the listener with it.
  virtual void OnListenerGone() = 0;
};

class Listener {
 public:
  Listener(Tcp& tcp, const Endpoint& local, size_t backlog, const SocketOptions& options);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const Endpoint& local() const { return local_; }
  void set_observer(ListenerObserver* observer) { observer_ = observer; }
  ListenerObserver* observer() const { return observer_; }
  size_t backlog() const { return backlog_; }
  void set_backlog(size_t backlog) { backlog_ = backlog; }

  // The oldest established connection, handed over without observer; null if none waits. It may
  // have been closed or reset by its peer since: then an observer that is set now gets OnGone().
  Connection* Accept();
  size_t waiting() const { return accept_count_; }
  size_t half_open() const { return half_open_; }

  // Options for the connections to come.
  SocketOptions& options();

 private:
  friend class Connection;
  friend class Tcp;

  // A segment for the listener itself: a SYN that makes a connection, or nothing to us.
  DropReason Input(Segment& segment);
  DropReason OnSyn(Segment& segment);
  DropReason AnswerWithCookie(const Segment& syn, const Route& route);
  // An acknowledgment of nothing we remember.
  DropReason OnAck(Segment& segment);
  DropReason OpenFromCookie(Segment& ack, uint16_t mss);
  absl::StatusOr<Route> RouteFor(const Segment& segment) const;
  void TakeGone(std::vector<Connection*>& out);
  bool accept_queue_full() const { return accept_count_ >= backlog_ + 1; }
  // Called by the connection: its handshake ended, or it left before that.
  void OnEstablished(Connection& connection);
  void OnConnectionGone(Connection& connection);

  Tcp& tcp_;
  Endpoint local_;
  size_t backlog_;
  std::shared_ptr<SocketOptions> options_;
  ListenerObserver* observer_ = nullptr;
  IntrusiveList<Connection, AcceptTag> accept_queue_;
  size_t accept_count_ = 0;
  size_t half_open_ = 0;
  Time last_cookie_{};  // cookies are believed for a while after the last one
  bool event_pending_ = false;
};

}  // namespace tapwire::tcp
