// SPDX-License-Identifier: Apache-2.0
// TcpDescriptor: a TCP socket of the table. It outlives its connection: what was received and not
// read, the error and the addresses stay until the descriptor is closed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "netdev/packet/buffer_chain.h"
#include "stack/sockets/socket_table_descriptor.h"
#include "stack/tcp/connection.h"
#include "stack/tcp/listener.h"

namespace tapwire::internal {

class TcpDescriptor final : public SocketDescriptor,
                            private tcp::ConnectionObserver,
                            private tcp::ListenerObserver {
 public:
  TcpDescriptor(SocketHost& host, const CommonOptions& options);

  int Bind(const sockaddr* address, socklen_t length) override;
  int Listen(int backlog) override;
  std::shared_ptr<Descriptor> Accept(int& result) override;
  int Connect(const sockaddr* address, socklen_t length) override;
  int ConnectResult() override { return FinishConnect(-EAGAIN); }
  int Shutdown(int how) override;
  int64_t Receive(Transfer& transfer) override;
  int64_t Transmit(Transfer& transfer) override;
  int SockName(Endpoint& out) override;
  int PeerName(Endpoint& out) override;
  Endpoint AcceptedFrom() const override { return remote_; }
  int Ioctl(unsigned long request, int& value) override;
  uint32_t Events() override;
  std::optional<Duration> BeginClose() override;
  bool Lingers() const override;
  void Close() override;

 private:
  // Where connect() is, which is not the connection's state (Linux: enum socket_state).
  enum class Phase : uint8_t { kUnconnected, kConnecting, kConnected, kDisconnecting };

  // tcp::ConnectionObserver
  void OnConnected() override;
  void OnReadable() override;
  void OnWritable() override;
  void OnUrgent() override;
  void OnGone(const absl::Status& status) override;
  // tcp::ListenerObserver
  void OnAcceptable() override;
  void OnListenerGone() override;

  // SocketDescriptor
  int GetOwnOption(const OptionBuffer& out) override;
  int SetOwnOption(const OptionInput& in) override;
  void OnCommonChanged() override;

  tcp::State state() const;
  bool handshaking() const;
  bool read_ended() const { return shut_read_ || fin_received(); }
  bool fin_received() const { return connection_ != nullptr ? connection_->read_closed() : fin_; }

  // socket_table_tcp.cc
  int StartConnect(const Endpoint& remote);
  std::optional<Endpoint> LocalFor(const Endpoint& remote) const;
  int FinishConnect(int pending);
  void Disconnect();  // connect(AF_UNSPEC), and what is left of a failed connect
  void StopListening();
  void Unbind();
  void Adopt(tcp::Connection& connection);
  void ApplyOptions();
  size_t ToldSendBuffer() const;
  SocketFacts Facts() const;
  TcpFacts FactsOfTcp() const;

  // socket_table_tcp_io.cc
  int64_t ReceiveOnce(Transfer& transfer);
  int64_t EndOfReading();
  int64_t ReceiveUrgent(Transfer& transfer);
  bool TakeReceived(Transfer& transfer);
  size_t readable() const;
  void CopyReceived(size_t offset, std::span<uint8_t> out) const;
  void DropReceived(size_t count);
  std::optional<size_t> UrgentMark() const;
  bool UrgentByteWaits() const;
  int SendError();
  void CorkForMore(bool more);

  TcpOptionState tcp_;
  Phase phase_ = Phase::kUnconnected;
  std::optional<Endpoint> bound_;  // reserved with Tcp::ReservePort
  Endpoint local_;
  Endpoint remote_;  // port 0: none
  tcp::Connection* connection_ = nullptr;
  tcp::Listener* listener_ = nullptr;
  BufferChain leftover_;  // received, not read, and the connection is gone
  LinuxTcpInfo last_info_ = {};
  uint64_t stream_offset_ = 0;            // bytes read so far
  std::optional<uint64_t> urgent_taken_;  // place in the stream of the byte that MSG_OOB has read
  bool fin_ = false;                      // of a connection that is gone
  bool no_space_ = false;                 // somebody waits for room in the send buffer
  bool corked_for_more_ = false;          // MSG_MORE
};

}  // namespace tapwire::internal
