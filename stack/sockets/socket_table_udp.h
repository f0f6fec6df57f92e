// SPDX-License-Identifier: Apache-2.0
// UdpDescriptor: a UDP socket of the table.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "stack/sockets/socket_table_descriptor.h"
#include "stack/sockets/udp_socket.h"

namespace tapwire::internal {

class UdpDescriptor final : public SocketDescriptor {
 public:
  UdpDescriptor(SocketHost& host, const CommonOptions& options);

  int Bind(const sockaddr* address, socklen_t length) override;
  int Listen(int) override { return -EOPNOTSUPP; }
  std::shared_ptr<Descriptor> Accept(int& result) override { return result = -EOPNOTSUPP, nullptr; }
  int Connect(const sockaddr* address, socklen_t length) override;
  int ConnectResult() override { return 0; }
  int Shutdown(int how) override;
  int64_t Receive(Transfer& transfer) override;
  int64_t Transmit(Transfer& transfer) override;
  int SockName(Endpoint& out) override;
  int PeerName(Endpoint& out) override;
  int Ioctl(unsigned long request, int& value) override;
  uint32_t Events() override;
  void Close() override;

 private:
  // A datagram that MSG_MORE is putting together.
  struct Corked {
    std::vector<uint8_t> data;
    std::optional<Endpoint> to;
  };

  int GetOwnOption(const OptionBuffer& out) override;
  int SetOwnOption(const OptionInput& in) override;
  void OnCommonChanged() override;

  void MakeSocket(IpFamily socket_family);
  void OnError(const absl::Status& status);
  bool connected() const { return remote_.has_value(); }
  const Datagram* Front();
  int Destination(const Transfer& transfer, std::optional<Endpoint>& to) const;
  int Disconnect();
  int AutoBind();
  int SendNow(std::span<const uint8_t> data, const std::optional<Endpoint>& to);
  SocketFacts Facts() const;

  std::unique_ptr<UdpSocket> socket_;  // null once closed
  IpFamily socket_family_ = IpFamily::kV4;
  std::optional<Endpoint> asked_;   // by bind(), as asked: port 0 is not kept by a disconnect
  bool has_port_ = false;           // the socket is bound, by whatever call
  std::optional<Endpoint> remote_;  // by connect()
  std::deque<Datagram> front_;      // taken from the socket and not read yet
  std::optional<Corked> corked_;
};

}  // namespace tapwire::internal
