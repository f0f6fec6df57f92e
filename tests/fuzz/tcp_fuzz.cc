// SPDX-License-Identifier: Apache-2.0
//
// A listening host and a peer whose segments the input describes, relative to where the connection
// stands and with good checksums, so that the fuzzer is in the middle of TCP at once. A record is
// 12 bytes: TCP flags; what the user does (1 reads, 2 writes, 4 shuts down, 8 closes, 16 a second
// passes, 32 a minute passes, 64 the SYN of a new connection first); sequence number and
// acknowledgment as signed offsets from the expected ones (two bytes each), window, bytes of
// options (modulo 41), payload (two bytes, modulo 3,000), urgent pointer / 256; the options follow.
// Aborts if memory grows beyond a bound, packets are left or time makes the host work for ever.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "netdev/base/byteorder.h"
#include "netdev/net_context.h"
#include "netdev/registry.h"
#include "netdev/rx_path.h"
#include "netdev/wire/ethernet.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/tcp.h"
#include "stack/interface.h"
#include "stack/stack.h"
#include "stack/tcp/tcp.h"
#include "tests/testutil/fake_clock.h"

namespace tapwire {
namespace {

constexpr MacAddress kHostMac{2, 0, 0, 0, 0, 1}, kPeerMac{2, 0, 0, 0, 0, 2};
constexpr Ipv4Address kHost(10, 0, 0, 2), kPeer(10, 0, 0, 1);
constexpr uint16_t kPort = 7;
constexpr size_t kRecord = 12;
constexpr size_t kMemoryBound = 64u << 20;

// Remembers what the host's last segment said, as a peer would.
class PeerDevice final : public netdev::NetDevice {
 public:
  explicit PeerDevice(netdev::NetContext& context)
      : NetDevice(context, {.name = "fuzz0", .mac = kHostMac}) {}
  absl::string_view kind() const override { return "fuzz"; }
  uint32_t next_seq = 0;  // what the host wants next
  uint32_t next_ack = 0;  // what it has sent

 protected:
  netdev::TxResult StartXmit(PacketPtr packet, bool /*more*/) override {
    std::array<uint8_t, 54> head;
    if (packet->length() < head.size()) return netdev::TxResult::kSent;
    packet->CopyOut(0, head);
    if (LoadBe16(head.data() + 12) != 0x0800 || head[23] != 6) return netdev::TxResult::kSent;
    const size_t header = 34 + size_t{4} * (head[46] >> 4);
    const uint8_t flags = head[47];
    if ((flags & 0x04) != 0) return netdev::TxResult::kSent;
    const auto length =
        static_cast<uint32_t>(packet->length() - std::min(header, packet->length()));
    next_ack = LoadBe32(head.data() + 38) + length + ((flags & 0x03) != 0 ? 1 : 0);
    if ((flags & 0x10) != 0) next_seq = LoadBe32(head.data() + 42);
    return netdev::TxResult::kSent;
  }
};

class FuzzPeer final : private tcp::ConnectionObserver {
 public:
  FuzzPeer() : context_(environment_.environment()) {
    auto device = std::make_unique<PeerDevice>(context_);
    device_ = device.get();
    static_cast<void>(*context_.registry().Register(std::move(device)));
    StackConfig config;
    config.duplicate_address_detection = false;
    config.link_local_address = false;
    stack_ = std::make_unique<Stack>(context_, config);
    Interface* interface = *stack_->AddInterface(*device_);
    device_->Up().IgnoreError();
    interface->AddAddress({kHost, 24}).IgnoreError();
    interface->neighbors(IpFamily::kV4).AddPermanent(kPeer, kPeerMac).IgnoreError();
    tcp_ = &tcp::Tcp::Install(*stack_);
    listener_ = *tcp_->Listen({IpAddress(kHost), kPort, 0}, 4, {}, nullptr);
    Run();
    Open();
  }
  ~FuzzPeer() {
    if (connection_ != nullptr) connection_->Abort();
    tcp_->CloseListener(*listener_);
    Run();
    stack_.reset();
    Run();
    if (context_.pool().stats().packets_in_use != 0) std::abort();
  }

  void Play(std::span<const uint8_t> record, std::span<const uint8_t> options) {
    if ((record[1] & 64) != 0) Open();
    const auto seq = static_cast<uint32_t>(static_cast<int16_t>(LoadBe16(record.data() + 2)));
    const auto ack = static_cast<uint32_t>(static_cast<int16_t>(LoadBe16(record.data() + 4)));
    Send(record[0], device_->next_seq + seq, device_->next_ack + ack, record, options,
         LoadBe16(record.data() + 9) % 3000);
    if (connection_ == nullptr) Accept();
    if (connection_ != nullptr) UserActs(record[1]);
    Run();
    if ((record[1] & 16) != 0) Wait(std::chrono::seconds(1));
    if ((record[1] & 32) != 0) Wait(std::chrono::seconds(61));
    if (connection_ != nullptr && connection_->true_size() > kMemoryBound) std::abort();
  }

 private:
  void OnConnected() override {}
  void OnReadable() override {}
  void OnWritable() override {}
  void OnUrgent() override {}
  void OnGone(const absl::Status& /*status*/) override { connection_ = nullptr; }

  void UserActs(uint8_t what) {
    std::array<uint8_t, 5000> data{};
    if ((what & 1) != 0) connection_->Consumed(connection_->Read(data));
    if ((what & 2) != 0) connection_->SendCopy(data);
    if ((what & 4) != 0) connection_->ShutdownWrite();
    if ((what & 8) != 0) std::exchange(connection_, nullptr)->Release();
  }

  // A handshake with every option, from a new port.
  void Open() {
    ++peer_port_;
    const std::array<uint8_t, kRecord> record{0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0};
    const std::array<uint8_t, 20> options{2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0,
                                          0, 1, 0, 0,    0, 0, 1, 3,  3, 7};
    Send(0x02, 1000, 0, record, options, 0);
    Run();
    Send(0x10, device_->next_seq, device_->next_ack, record, {}, 0);
    Run();
    if (connection_ == nullptr) Accept();
  }
  void Accept() {
    connection_ = listener_->Accept();
    if (connection_ != nullptr) connection_->set_observer(this);
  }

  void Send(uint8_t flags, uint32_t seq, uint32_t ack, std::span<const uint8_t> record,
            std::span<const uint8_t> options, size_t payload) {
    const size_t option_bytes = (options.size() + 3) / 4 * 4;
    std::vector<uint8_t> frame(14 + 20 + 20 + option_bytes + payload, 0x5a);
    wire::EthernetFields{.destination = kHostMac, .source = kPeerMac, .ether_type = 0x0800}.Emit(
        frame);
    wire::Ipv4Fields ip;
    ip.total_length = static_cast<uint16_t>(frame.size() - 14);
    ip.ttl = 64;
    ip.protocol = 6;
    ip.source = kPeer;
    ip.destination = kHost;
    ip.Emit(std::span(frame).subspan(14));
    wire::TcpFields tcp;
    tcp.src_port = peer_port_;
    tcp.dst_port = kPort;
    tcp.seq = seq;
    tcp.ack = ack;
    tcp.flags = wire::TcpFlags(flags);
    tcp.window = LoadBe16(record.data() + 6);
    tcp.urgent_pointer = static_cast<uint16_t>(record[11] << 8 | record[11]);
    tcp.Emit(std::span(frame).subspan(34));
    frame[46] = static_cast<uint8_t>((20 + option_bytes) / 4 << 4);
    std::fill_n(frame.begin() + 54, option_bytes, uint8_t{0});
    std::copy(options.begin(), options.end(), frame.begin() + 54);
    PacketPtr packet = PacketFromBytes(context_.pool(), frame);
    if (packet == nullptr) return;
    packet->meta.rx_time = context_.now();
    packet->meta.rx_device = device_->ifindex();
    packet->meta.csum_state = CsumState::kUnnecessary;
    netdev::RxPath::Receive(context_, std::move(packet));
    Run();
  }

  void Run() {
    for (int i = 0; context_.RunOnce(); ++i) {
      if (i > 10'000) std::abort();
    }
  }
  void Wait(Duration duration) {
    const Time end = environment_.clock.Now() + duration;
    for (int steps = 0;; ++steps) {
      if (steps > 20'000) std::abort();
      const std::optional<Time> next = context_.next_deadline();
      if (!next || *next > end) break;
      environment_.clock.Set(std::max(*next, environment_.clock.Now()));
      Run();
    }
    environment_.clock.Set(end);
    Run();
  }

  TestEnvironment environment_;
  netdev::NetContext context_;
  PeerDevice* device_ = nullptr;
  std::unique_ptr<Stack> stack_;
  tcp::Tcp* tcp_ = nullptr;
  tcp::Listener* listener_ = nullptr;
  tcp::Connection* connection_ = nullptr;
  uint16_t peer_port_ = 1000;
};

}  // namespace
}  // namespace tapwire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tapwire::FuzzPeer peer;
  std::span<const uint8_t> rest(data, size);
  for (int records = 0; rest.size() >= tapwire::kRecord && records < 64; ++records) {
    const std::span<const uint8_t> record = rest.first(tapwire::kRecord);
    rest = rest.subspan(tapwire::kRecord);
    const size_t options = std::min<size_t>(record[8] % 41, rest.size());
    peer.Play(record, rest.first(options));
    rest = rest.subspan(options);
  }
  return 0;
}
