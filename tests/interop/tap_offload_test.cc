// SPDX-License-Identifier: Apache-2.0
//
// What offloads do between TapDevice and the kernel: checksums, super-packets, switches, the probe.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <cerrno>
#include <map>
#include <string>

#include "drivers/tap/tap_device.h"
#include "netdev/csum_offload.h"
#include "netdev/gro.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/ipv6.h"
#include "netdev/wire/tcp.h"
#include "netdev/wire/udp.h"
#include "tests/interop/tap_interop.h"

namespace tapwire::drivers {
namespace {

using netdev::Feature;
using netdev::FeatureSet;
using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Le;

constexpr uint16_t kPort = 5000;

// RFC 1071 in its simplest form: the sum of big-endian words, not complemented.
uint16_t SimpleSum(std::span<const uint8_t> bytes, uint32_t sum) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    sum += i % 2 == 0 ? uint32_t{bytes[i]} << 8 : uint32_t{bytes[i]};
  }
  while (sum >> 16 != 0) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return static_cast<uint16_t>(sum);
}

// Both families, with the kernel's side addressed and our neighbour entry in place.
class TapOffloadInterop : public TapInterop, public ::testing::WithParamInterface<bool> {
 protected:
  bool v6() const { return GetParam(); }
  size_t l4() const { return v6() ? 54 : 34; }
  IpAddress ours() const {
    return v6() ? IpAddress(*Ipv6Address::Parse("fd00:9::2")) : Ipv4Address(10, 9, 0, 2);
  }
  IpAddress kernels() const {
    return v6() ? IpAddress(*Ipv6Address::Parse("fd00:9::1")) : Ipv4Address(10, 9, 0, 1);
  }

  TapDevice* OpenAddressed(TapOptions options) {
    options.name = "tw0";
    options.kernel_addrs = {*IpPrefix::Parse("10.9.0.1/24"), *IpPrefix::Parse("fd00:9::1/64")};
    auto device = TryOpen(options);
    EXPECT_TRUE(device.ok()) << device.status();
    if (!device.ok()) return nullptr;
    for (const char* address : {"10.9.0.2", "fd00:9::2"}) {
      Ip(absl::StrCat("neigh add ", address, " lladdr ", (*device)->mac().ToString(), " dev tw0"));
    }
    EXPECT_TRUE((*device)->Up().ok());
    (*device)->AddPacketType(ip_sink_);
    device_ = *device;
    return device_;
  }

  void TearDown() override {
    ip_sink_.packets.clear();
    TapInterop::TearDown();
  }

  // Ethernet and IP headers for `length` bytes of transport.
  Bytes Headers(uint8_t protocol, size_t length) const {
    Bytes frame(l4() + length);
    wire::EthernetFields{.destination = device_->kernel_mac(),
                         .source = device_->mac(),
                         .ether_type = v6() ? wire::EtherType::kIpv6 : wire::EtherType::kIpv4}
        .Emit(frame);
    const std::span<uint8_t> ip = std::span(frame).subspan(14);
    if (v6()) {
      wire::Ipv6Fields{.payload_length = static_cast<uint16_t>(length),
                       .next_header = protocol,
                       .source = ours().v6(),
                       .destination = kernels().v6()}
          .Emit(ip);
    } else {
      wire::Ipv4Fields{.total_length = static_cast<uint16_t>(20 + length),
                       .dont_fragment = true,
                       .protocol = protocol,
                       .source = ours().v4(),
                       .destination = kernels().v4()}
          .Emit(ip);
    }
    return frame;
  }

  // Marks the transport checksum as partial and sets the positions.
  PacketPtr Partial(const Bytes& frame, uint8_t protocol) {
    PacketPtr packet = ToPacket(frame);
    packet->set_l2_here();
    packet->set_l3_in_data(14);
    packet->set_l4_in_data(static_cast<int32_t>(l4()));
    packet->Pull(l4());
    netdev::SetPartialChecksum(*packet,
                               {.source = ours(), .destination = kernels(), .protocol = protocol},
                               protocol == 6 ? 16 : 6);
    packet->Push(l4());
    return packet;
  }

  Bytes Udp(const Bytes& payload) const {
    Bytes frame = Headers(17, 8 + payload.size());
    wire::UdpFields{
        .src_port = 6000, .dst_port = kPort, .length = static_cast<uint16_t>(8 + payload.size())}
        .Emit(std::span(frame).subspan(l4()));
    std::copy(payload.begin(), payload.end(), frame.begin() + static_cast<ptrdiff_t>(l4()) + 8);
    return frame;
  }

  static Bytes Payload(size_t length) {
    Bytes payload(length);
    for (size_t i = 0; i < length; ++i) payload[i] = static_cast<uint8_t>(i * 5 + i / 256);
    return payload;
  }

  // A socket of the kernel's side.
  UniqueFd KernelSocket(int type, uint16_t port) const {
    UniqueFd fd(socket(v6() ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_storage address = Address(v6() ? IpAddress(Ipv6Address()) : Ipv4Address(), port);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), AddressLength()), 0)
        << std::strerror(errno);
    return fd;
  }
  sockaddr_storage Address(const IpAddress& ip, uint16_t port) const {
    sockaddr_storage storage = {};
    if (v6()) {
      auto* address = reinterpret_cast<sockaddr_in6*>(&storage);
      address->sin6_family = AF_INET6;
      address->sin6_port = htons(port);
      ip.v6().CopyTo(address->sin6_addr.s6_addr);
    } else {
      auto* address = reinterpret_cast<sockaddr_in*>(&storage);
      address->sin_family = AF_INET;
      address->sin_port = htons(port);
      ip.v4().CopyTo(reinterpret_cast<uint8_t*>(&address->sin_addr));
    }
    return storage;
  }
  socklen_t AddressLength() const { return v6() ? sizeof(sockaddr_in6) : sizeof(sockaddr_in); }

  static Bytes ReceiveFrom(int fd, int timeout_ms = 2000) {
    pollfd waiting = {.fd = fd, .events = POLLIN, .revents = 0};
    Bytes buffer(70'000);
    if (poll(&waiting, 1, timeout_ms) <= 0) return {};
    const ssize_t n = recv(fd, buffer.data(), buffer.size(), 0);
    buffer.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return buffer;
  }

  // Frames of the family under test, as they came in.
  std::vector<const Packet*> Received(uint8_t protocol) const {
    std::vector<const Packet*> found;
    for (const PacketPtr& packet : ip_sink_.packets) {
      const uint8_t* p = packet->data();
      const bool is_v6 = p[12] == 0x86;
      if (is_v6 == v6() && p[is_v6 ? 20 : 23] == protocol) found.push_back(packet.get());
    }
    return found;
  }

  bool ChecksumIsRight(const Packet& packet, uint8_t protocol) const {
    const Bytes bytes = FrameSink::BytesOf(packet);
    const std::span<const uint8_t> all(bytes);
    const auto length = static_cast<uint32_t>(bytes.size() - l4());
    const uint16_t pseudo =
        SimpleSum(v6() ? all.subspan(22, 32) : all.subspan(26, 8), protocol + length);
    return SimpleSum(all.subspan(l4()), pseudo) == 0xffff;
  }

  // All IP frames.
  FrameSink ip_sink_{netdev::PacketType::kAllTypes};
  TapDevice* device_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(BothFamilies, TapOffloadInterop, ::testing::Values(false, true),
                         [](const auto& param_info) { return param_info.param ? "Ipv6" : "Ipv4"; });

// ---- From us to the kernel ----

TEST_P(TapOffloadInterop, PartialChecksumIsTakenAsGood) {
  ASSERT_NE(OpenAddressed({}), nullptr);
  const auto before = KernelCsumErrors();
  UniqueFd socket = KernelSocket(SOCK_DGRAM, kPort);
  const Bytes payload = Payload(1000);
  Send(*device_, Partial(Udp(payload), 17));
  EXPECT_EQ(ReceiveFrom(socket.get()), payload);
  EXPECT_EQ(device_->stats().tx_csum_software.value(), 0u);
  EXPECT_EQ(KernelCsumErrors(), before);
}

// Covers: bug:B95, netdev:L-01 — nobody ever sums the payload: even garbage in the field is
// delivered. So what is right with offloads proves nothing about our checksums.
TEST_P(TapOffloadInterop, KernelVerifiesNothingThatIsPartial) {
  ASSERT_NE(OpenAddressed({}), nullptr);
  UniqueFd socket = KernelSocket(SOCK_DGRAM, kPort);
  PacketPtr packet = Partial(Udp(Payload(100)), 17);
  packet->data()[l4() + 6] ^= 0x5a;
  Send(*device_, std::move(packet));
  EXPECT_EQ(ReceiveFrom(socket.get()), Payload(100));
}

// Covers: netdev:L-03, demand:16 — without offloads the kernel verifies, and finds ours right.
TEST_P(TapOffloadInterop, CompletedChecksumsAreVerifiedByTheKernel) {
  ASSERT_NE(OpenAddressed({.csum = false}), nullptr);
  const auto before = KernelCsumErrors();
  UniqueFd socket = KernelSocket(SOCK_DGRAM, kPort);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{2}, size_t{999}, size_t{1400}}) {
    Send(*device_, Partial(Udp(Payload(size)), 17));
    EXPECT_EQ(ReceiveFrom(socket.get()), Payload(size));
  }
  EXPECT_EQ(device_->stats().tx_csum_software.value(), 5u);
  EXPECT_EQ(KernelCsumErrors(), before);
  // … and a wrong one wrong.
  PacketPtr packet = Partial(Udp(Payload(100)), 17);
  ASSERT_TRUE(netdev::ChecksumHelp(*packet));
  packet->data()[l4() + 6] ^= 0x5a;
  Send(*device_, std::move(packet));
  EXPECT_THAT(ReceiveFrom(socket.get(), 50), IsEmpty());
  EXPECT_NE(KernelCsumErrors(), before);
}

TEST_P(TapOffloadInterop, UdpSuperPacketArrivesAsDatagrams) {
  ASSERT_NE(OpenAddressed({}), nullptr);
  if (!device_->features().Has(Feature::kGsoUdpL4)) {
    GTEST_SKIP() << "this kernel knows no USO on a TAP (before 6.2)";
  }
  const auto before = KernelCsumErrors();
  UniqueFd socket = KernelSocket(SOCK_DGRAM, kPort);
  const Bytes payload = Payload(10'500);
  PacketPtr packet = Partial(Udp(payload), 17);
  packet->meta.gso = {.type = GsoType::kUdpL4, .size = 1000};
  Send(*device_, std::move(packet));
  EXPECT_EQ(device_->tap_stats().tx_gso_frames.value(), 1u);
  EXPECT_EQ(device_->tap_stats().tx_writes.value(), 1u);
  for (size_t at = 0; at < payload.size(); at += 1000) {
    const auto from = payload.begin() + static_cast<ptrdiff_t>(at);
    const auto to = payload.begin() + static_cast<ptrdiff_t>(std::min(at + 1000, payload.size()));
    EXPECT_EQ(ReceiveFrom(socket.get()), Bytes(from, to)) << at;
  }
  EXPECT_EQ(KernelCsumErrors(), before);
}

// Covers: demand:4 — the 64 KiB frame is one frame on the kernel's side too.
TEST_P(TapOffloadInterop, TcpSuperPacketArrivesWhole) {
  ASSERT_NE(OpenAddressed({}), nullptr);
  PacketSocket kernel("tw0");
  Bytes frame = Headers(6, 20 + 60'000);
  wire::TcpFields{
      .src_port = 6000, .dst_port = kPort, .seq = 1, .ack = 1, .flags = wire::TcpFlags::kAck}
      .Emit(std::span(frame).subspan(l4()));
  const Bytes payload = Payload(60'000);
  std::copy(payload.begin(), payload.end(), frame.begin() + static_cast<ptrdiff_t>(l4()) + 20);
  PacketPtr packet = Partial(frame, 6);
  packet->meta.gso = {.type = v6() ? GsoType::kTcpv6 : GsoType::kTcpv4, .size = 1400};
  Send(*device_, std::move(packet));
  Bytes received;
  // The probe's frames of the same type may be there as well.
  do {
    received = kernel.Receive(v6() ? 0x86dd : 0x0800);
  } while (!received.empty() && received.size() != frame.size());
  ASSERT_EQ(received.size(), frame.size());
  received[l4() + 16] = received[l4() + 17] = 0;
  EXPECT_EQ(received, frame);
}

// ---- From the kernel to us ----

class TapUsoInterop : public TapOffloadInterop {
 protected:
  // The kernel sends 10,500 bytes as datagrams of 1,000 in one call.
  void KernelSendsSegmented() {
    UniqueFd socket = KernelSocket(SOCK_DGRAM, 0);
    const int size = 1000;
    if (setsockopt(socket.get(), SOL_UDP, UDP_SEGMENT, &size, sizeof(size)) != 0) {
      GTEST_SKIP() << "UDP_SEGMENT: " << std::strerror(errno);
    }
    sockaddr_storage to = Address(ours(), 7000);
    const Bytes payload = Payload(10'500);
    ASSERT_EQ(sendto(socket.get(), payload.data(), payload.size(), 0,
                     reinterpret_cast<sockaddr*>(&to), AddressLength()),
              10'500)
        << std::strerror(errno);
    RunUntil([this] { return Bytes10500(); });
  }
  // All payload has come, in however many frames.
  bool Bytes10500() const {
    size_t payload = 0;
    for (const Packet* packet : Received(17)) payload += packet->length() - l4() - 8;
    return payload == 10'500;
  }
};

INSTANTIATE_TEST_SUITE_P(BothFamilies, TapUsoInterop, ::testing::Values(false, true),
                         [](const auto& param_info) { return param_info.param ? "Ipv6" : "Ipv4"; });

TEST_P(TapUsoInterop, UdpSuperPacketIsReceivedWhole) {
  ASSERT_NE(OpenAddressed({}), nullptr);
  if (!device_->rx_offloads().uso) GTEST_SKIP() << "this kernel knows no USO on a TAP (before 6.2)";
  KernelSendsSegmented();
  ASSERT_EQ(Received(17).size(), 1u);
  const Packet& packet = *Received(17).front();
  EXPECT_EQ(packet.meta.gso.type, GsoType::kUdpL4 | GsoType::kDodgy);
  EXPECT_EQ(packet.meta.gso.size, 1000);
  EXPECT_EQ(packet.meta.csum_state, CsumState::kPartial);
  EXPECT_EQ(packet.csum_start_in_data(), static_cast<int32_t>(l4()));
  const Bytes bytes = FrameSink::BytesOf(packet);
  EXPECT_EQ(Bytes(bytes.begin() + static_cast<ptrdiff_t>(l4()) + 8, bytes.end()), Payload(10'500));
}

TEST_P(TapUsoInterop, WithoutUsoTheKernelSegments) {
  ASSERT_NE(OpenAddressed({.uso = false}), nullptr);
  KernelSendsSegmented();
  ASSERT_EQ(Received(17).size(), 11u);
  for (const Packet* packet : Received(17)) EXPECT_EQ(packet->meta.gso, GsoInfo());
}

// Covers: bug:B95 — nothing left undone by the kernel, nothing believed by us.
TEST_P(TapUsoInterop, WithoutChecksumOffloadTheKernelCompletesEverything) {
  ASSERT_NE(OpenAddressed({.csum = false}), nullptr);
  KernelSendsSegmented();
  ASSERT_EQ(Received(17).size(), 11u);
  for (const Packet* packet : Received(17)) {
    EXPECT_EQ(packet->meta.csum_state, CsumState::kNone);
    EXPECT_TRUE(ChecksumIsRight(*packet, 17));
  }
}

TEST_P(TapUsoInterop, ReceiveOffloadsAreSwitchedAtRunTime) {
  ASSERT_NE(OpenAddressed({}), nullptr);
  device_->RequestFeatures(Feature::kGroHw, {});
  EXPECT_EQ(device_->rx_offloads(), (TapOffloads{.csum = true}));
  KernelSendsSegmented();
  EXPECT_EQ(Received(17).size(), 11u);
  EXPECT_EQ(Received(17).front()->meta.csum_state, CsumState::kPartial);
  ip_sink_.packets.clear();
  device_->RequestFeatures(Feature::kRxCsum, {});
  EXPECT_EQ(device_->rx_offloads(), TapOffloads());
  KernelSendsSegmented();
  ASSERT_EQ(Received(17).size(), 11u);
  EXPECT_EQ(Received(17).front()->meta.csum_state, CsumState::kNone);
  EXPECT_TRUE(ChecksumIsRight(*Received(17).front(), 17));
}

class TapTsoInterop : public TapOffloadInterop {
 protected:
  // The kernel connects to a peer made up here and sends as much as its first window allows.
  void KernelSendsTcp() {
    UniqueFd socket = KernelSocket(SOCK_STREAM, 0);
    sockaddr_storage to = Address(ours(), 80);
    ASSERT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&to), AddressLength()), -1);
    ASSERT_EQ(errno, EINPROGRESS);
    ASSERT_TRUE(RunUntil([this] { return !Received(6).empty(); })) << "no SYN";
    const Bytes syn = FrameSink::BytesOf(*Received(6).front());
    const auto header = wire::TcpHeader::Parse(std::span(syn).subspan(l4()));
    ASSERT_TRUE(header.has_value());
    ip_sink_.packets.clear();
    Bytes frame = Headers(6, 20);
    wire::TcpFields{.src_port = 80,
                    .dst_port = header->src_port(),
                    .seq = 1000,
                    .ack = header->seq() + 1,
                    .flags = wire::TcpFlags::kSyn | wire::TcpFlags::kAck,
                    .window = 65'535}
        .Emit(std::span(frame).subspan(l4()));
    Send(*device_, Partial(frame, 6));
    pollfd connected = {.fd = socket.get(), .events = POLLOUT, .revents = 0};
    ASSERT_EQ(poll(&connected, 1, 2000), 1) << "the kernel did not take our SYN-ACK";
    ASSERT_EQ(connected.revents, POLLOUT);
    const Bytes payload = Payload(60'000);
    ASSERT_GT(send(socket.get(), payload.data(), payload.size(), 0), 5000);
    ASSERT_TRUE(RunUntil([this] { return DataBytes() >= 5 * 536; }));
    linger abort = {.l_onoff = 1, .l_linger = 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
  }
  size_t DataBytes() const {
    size_t bytes = 0;
    for (const Packet* packet : Received(6)) bytes += packet->length() - l4() - 20;
    return bytes;
  }
};

INSTANTIATE_TEST_SUITE_P(BothFamilies, TapTsoInterop, ::testing::Values(false, true),
                         [](const auto& param_info) { return param_info.param ? "Ipv6" : "Ipv4"; });

TEST_P(TapTsoInterop, TcpSuperPacketIsReceivedWhole) {
  ASSERT_NE(OpenAddressed({}), nullptr);
  KernelSendsTcp();
  const Packet* super = nullptr;
  for (const Packet* packet : Received(6)) {
    if (packet->meta.gso.size != 0) super = packet;
  }
  ASSERT_NE(super, nullptr) << "no super-packet among " << Received(6).size();
  EXPECT_EQ(super->meta.gso.type, (v6() ? GsoType::kTcpv6 : GsoType::kTcpv4) | GsoType::kDodgy);
  // A peer without an MSS option gets segments of 536 or 1,220 bytes (RFC 9293 §3.7.1, MUST-15).
  EXPECT_EQ(super->meta.gso.size, v6() ? 1220 : 536);
  EXPECT_EQ(super->meta.csum_state, CsumState::kPartial);
  EXPECT_GE(device_->tap_stats().rx_gso_frames.value(), 1u);
}

TEST_P(TapTsoInterop, WithoutTsoTheKernelSegments) {
  ASSERT_NE(OpenAddressed({.tso = false}), nullptr);
  device_->SetGroMode(netdev::GroMode::kOff);  // which would undo what the kernel did
  KernelSendsTcp();
  for (const Packet* packet : Received(6)) {
    EXPECT_LE(packet->length(), 1514u);
    EXPECT_EQ(packet->meta.gso, GsoInfo());
  }
  EXPECT_GE(Received(6).size(), 3u);
}

TEST_P(TapTsoInterop, WithoutChecksumOffloadSegmentsAreComplete) {
  ASSERT_NE(OpenAddressed({.csum = false}), nullptr);
  const auto before = KernelCsumErrors();
  KernelSendsTcp();
  ASSERT_GE(Received(6).size(), 3u);
  for (const Packet* packet : Received(6)) EXPECT_TRUE(ChecksumIsRight(*packet, 6));
  EXPECT_EQ(KernelCsumErrors(), before);
}

// ---- The probe ----

// Covers: demand:8 — this kernel takes what it should, and nobody gets the frames.
TEST_F(TapInterop, ProbeIsAcceptedAndReachesNobody) {
  Ip("link add br0 type bridge");
  Ip("tuntap add dev tw0 mode tap");
  Quiet("br0");
  TapDevice* other = Open({.name = "tw1"});
  ASSERT_NE(other, nullptr);
  FrameSink ipv4(0x0800);
  FrameSink ipv6(0x86dd);
  other->AddPacketType(ipv4);
  other->AddPacketType(ipv6);
  for (const char* port : {"tw0", "tw1"}) Ip(absl::StrCat("link set ", port, " master br0"));
  Ip("link set br0 up");
  PacketSocket kernel("br0");
  const auto before = KernelCsumErrors();
  TapDevice* device = Open({.name = "tw0"});
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->tap_stats().probe_refused.value(), 0u);
  EXPECT_TRUE(device->features().HasAll({Feature::kTso, Feature::kTso6}));
  EXPECT_EQ(device->features().Has(Feature::kGsoUdpL4), device->rx_offloads().uso);
  runner_->RunFor(milliseconds(50));
  for (const FrameSink* sink : {&ipv4, &ipv6}) {
    for (const PacketPtr& packet : sink->packets) {
      EXPECT_NE(wire::EthernetHeader::Parse(packet->head_bytes())->source(), device->mac());
    }
  }
  EXPECT_THAT(kernel.Receive(0x0800, 0), IsEmpty());
  ipv4.packets.clear();
  ipv6.packets.clear();
  EXPECT_EQ(KernelCsumErrors(), before);
  // The kernel has seen them.
  const std::string statistics = Ip("-s link show tw0");
  EXPECT_THAT(statistics,
              ::testing::ContainsRegex(device->rx_offloads().uso ? "RX:[^\n]*\n *[0-9]+ +3 "
                                                                 : "RX:[^\n]*\n *[0-9]+ +2 "));
}

TEST_F(TapInterop, ProbeIsRepeatedWhenTheLinkReturns) {
  TapDevice* device = Open({});
  ASSERT_NE(device, nullptr);
  Ip("link set tw0 down");
  Send(*device, ToPacket(Bytes(60)));
  ASSERT_FALSE(device->has_carrier());
  PacketSocket kernel("tw0");
  Ip("link set tw0 up");
  ASSERT_TRUE(RunUntil([&] { return device->has_carrier(); }));
  const Bytes probe = kernel.Receive(0x0800);
  ASSERT_EQ(probe.size(), 1554u);
  EXPECT_EQ(MacAddress::FromBytes(std::span(probe).first(6)), device->mac());
}

}  // namespace
}  // namespace tapwire::drivers
