// SPDX-License-Identifier: Apache-2.0
// Many datagrams of all sizes over a bad link, both families at once: what arrives is what was
// sent, everything that was lost is accounted for, and nothing is left at the end.

#include <chrono>
#include <memory>
#include <vector>

#include "stack/ipv4/ipv4.h"
#include "stack/ipv6/ipv6.h"
#include "stack/sockets/udp_socket.h"
#include "stack/stack.h"
#include "tests/soak/soak.h"
#include "tests/testutil/sim/simulator.h"

namespace tapwire {
namespace {

using std::chrono::milliseconds;

// The payload says its own seed and length, so that a receiver can check it alone.
std::vector<uint8_t> MakePayload(uint32_t seed, size_t size) {
  std::vector<uint8_t> bytes(std::max<size_t>(size, 8));
  StoreBe32(bytes.data(), seed);
  StoreBe32(bytes.data() + 4, static_cast<uint32_t>(bytes.size()));
  uint32_t state = seed * 2654435761u + 1;
  for (size_t i = 8; i < bytes.size(); ++i) {
    state = state * 1664525u + 1013904223u;
    bytes[i] = static_cast<uint8_t>(state >> 24);
  }
  return bytes;
}

class DatagramSoak {
 public:
  explicit DatagramSoak(IpFamily family, Stack& from, Stack& to, const IpAddress& peer)
      : peer_{peer, 7, 0},
        sender_(*UdpSocket::Create(from, {.family = family})),
        receiver_(*UdpSocket::Create(
            to, {.family = family, .v6_only = true, .receive_buffer_bytes = 16u << 20})) {
    EXPECT_TRUE(receiver_->Bind({IpAddress::Unspecified(family), 7, 0}).ok());
    EXPECT_TRUE(receiver_->ReceiveStart([this](Datagram d) { Check(d); }).ok());
  }
  void SendOne(SeededRandom& random) {
    // Mostly small, some of every size up to the largest.
    const size_t limit = random.Uniform(8) == 0 ? 65507 : 1600;
    const std::vector<uint8_t> data =
        MakePayload(random.Next32(), 8 + random.Uniform(static_cast<uint32_t>(limit - 7)));
    if (sender_->Send(data, peer_).ok()) ++sent;
  }
  uint64_t sent = 0, received = 0, damaged = 0;

 private:
  void Check(const Datagram& d) {
    ++received;
    std::vector<uint8_t> bytes(d.size());
    d.CopyTo(bytes);
    if (bytes.size() < 8 ||
        bytes != MakePayload(LoadBe32(bytes.data()), LoadBe32(bytes.data() + 4)))
      ++damaged;
  }

  Endpoint peer_;
  std::unique_ptr<UdpSocket> sender_, receiver_;
};

TEST(DatagramSoakTest, WhatArrivesOverABadLinkIsWhatWasSent) {
  // More than 65,536 datagrams in the two minutes of RFC 6864 §4.3: identifications come again.
  testutil::Simulator sim({.seed = 7, .ignored_rules = {capture::Rule::kIpv4Id}, .capture = false});
  testutil::SimHost& a = sim.AddHost("a");
  testutil::SimHost& b = sim.AddHost("b");
  auto [da, db] = sim.AddLink(a, b,
                              {.rate_bits_per_s = 1'000'000'000,
                               .delay = milliseconds(2),
                               .loss = 0.002,
                               .duplicate = 0.01,
                               .reorder = 0.02});
  StackConfig config;
  config.duplicate_address_detection = false;
  {
    Stack sa(a.context(), config), sb(b.context(), config);
    Interface* ia = *sa.AddInterface(*da);
    Interface* ib = *sb.AddInterface(*db);
    ASSERT_TRUE(ia->AddAddress(*IpPrefix::Parse("10.0.0.1/24")).ok());
    ASSERT_TRUE(ib->AddAddress(*IpPrefix::Parse("10.0.0.2/24")).ok());
    ASSERT_TRUE(ia->AddAddress(*IpPrefix::Parse("fd00::1/64")).ok());
    ASSERT_TRUE(ib->AddAddress(*IpPrefix::Parse("fd00::2/64")).ok());
    DatagramSoak v4(IpFamily::kV4, sa, sb, *IpAddress::Parse("10.0.0.2"));
    DatagramSoak v6(IpFamily::kV6, sa, sb, *IpAddress::Parse("fd00::2"));
    const uint64_t rounds = testutil::SoakCount(100'000);
    for (uint64_t i = 0; i < rounds; ++i) {
      v4.SendOne(sim.random());
      v6.SendOne(sim.random());
      sim.RunFor(milliseconds(1));
    }
    sim.RunFor(std::chrono::seconds(70));  // the last reassembly has been given up
    for (const DatagramSoak* soak : {&v4, &v6}) {
      EXPECT_EQ(soak->damaged, 0u);
      EXPECT_GT(soak->received, soak->sent * 8 / 10);
      EXPECT_LT(soak->received, soak->sent * 12 / 10);  // duplicates
    }
    EXPECT_EQ(sb.ipv4().reassembler().bytes(), 0u);
    EXPECT_EQ(sb.ipv6().reassembler().bytes(), 0u);
    EXPECT_EQ(sb.drops().value(DropReason::kUdpBadChecksum), 0u);
  }
  sim.RunFor(std::chrono::seconds(1));
}

}  // namespace
}  // namespace tapwire
