// SPDX-License-Identifier: Apache-2.0
// Random super-packets through random devices: a receiver gets back what was sent, no frame is
// longer than the MTU, and what the driver is told about checksums is true. Seen with a receiver
// and a segmenting device that share no code with the library, and by the capture checker.
#include <algorithm>
#include <string>
#include <vector>

#include "apps/capture/checker.h"
#include "gtest/gtest.h"
#include "netdev/base/seeded_random.h"
#include "netdev/gso.h"
#include "netdev/tx_path.h"
#include "tests/netdev/fake_device.h"
#include "tests/netdev/frame_builder.h"
#include "tests/testutil/checker_tap.h"

namespace tapwire::netdev {
namespace {

using enum Feature;
using testing::BytesOf;
using testing::Cut;
using testing::FakeDevice;
using testing::FrameLayout;
using testing::FrameSpec;
using testing::Get16;
using testing::Get32;
using testing::LayoutOf;
using testing::Put16;

using Bytes = std::vector<uint8_t>;

constexpr uint8_t kFin = 0x01, kPsh = 0x08, kEce = 0x40, kCwr = 0x80;

constexpr Feature kTransmitFeatures[] = {kSg,       kHwCsum,    kIpCsum,       kIpv6Csum,
                                         kTso,      kTso6,      kTsoEcn,       kTsoMangleId,
                                         kGsoUdpL4, kGsoRobust, kHwVlanCtagTx, kGsoAccEcn};

// What a super-packet is and where it goes.
struct Case {
  FrameSpec spec;
  uint16_t size = 0;  // of a segment
  GsoType modifiers = GsoType::kNone;
  Cut cut;
  bool tag_in_meta = false;
  CsumState state = CsumState::kPartial;
  FeatureSet features, vlan_features;

  size_t headers() const { return LayoutOf(spec).payload; }
  std::string ToString() const {
    std::string text = spec.ipv6 ? "IPv6" : "IPv4";
    text += spec.udp ? " UDP" : " TCP";
    text += " payload " + std::to_string(spec.payload) + " size " + std::to_string(size);
    text += " tags " + std::to_string(spec.tags) + (tag_in_meta ? "+meta" : "");
    return text + " on " + FeatureSetToString(features) + " / " + FeatureSetToString(vlan_features);
  }
};

class GsoPropertyTest : public testing::NetdevTest {
 protected:
  bool Chance(uint32_t of) { return random_.Uniform(of) == 0; }
  uint32_t Between(uint32_t low, uint32_t high) { return low + random_.Uniform(high - low + 1); }

  FeatureSet RandomFeatures() {
    FeatureSet set;
    for (const Feature feature : kTransmitFeatures) {
      if (Chance(2)) set |= feature;
    }
    return FixDependencies(set);
  }

  Case RandomCase() {
    Case c;
    FrameSpec& spec = c.spec;
    spec.ipv6 = Chance(2);
    spec.udp = Chance(3);
    c.size = static_cast<uint16_t>(Chance(4) ? Between(1, 30) : Between(100, 1400));
    const uint32_t segments = Between(2, 9);
    spec.payload = (segments - 1) * size_t{c.size} + Between(1, c.size);
    spec.payload_seed = static_cast<uint8_t>(random_.Next32());
    spec.seq = random_.Next32();
    spec.ip_id = static_cast<uint16_t>(random_.Next32());
    spec.df = !Chance(3);
    if (Chance(4)) spec.ip_options = 4 * Between(1, 10);
    if (Chance(2)) spec.tcp_options = 4 * Between(1, 10);
    spec.dest_options = Chance(4);
    spec.tags = Chance(3) ? static_cast<int>(Between(1, 2)) : 0;
    c.tag_in_meta = Chance(4) && spec.tags < 2;
    for (const uint8_t flag : {kFin, kPsh, kEce, kCwr}) {
      if (Chance(2)) spec.tcp_flags |= flag;
    }
    if (Chance(3)) c.modifiers |= GsoType::kDodgy;
    if (!spec.udp && Chance(3)) {
      c.modifiers |= Chance(2) ? GsoType::kTcpEcn : GsoType::kTcpAccEcn;
    }
    if (!spec.udp && !spec.ipv6 && Chance(3)) c.modifiers |= GsoType::kFixedId;
    if (!spec.udp && Chance(5)) c.state = Chance(2) ? CsumState::kNone : CsumState::kUnnecessary;
    if (!Chance(3)) c.cut = {.head = c.headers() + Between(0, 50), .piece = Between(220, 3000)};
    c.features = RandomFeatures();
    c.vlan_features = Chance(2) ? c.features : RandomFeatures();
    return c;
  }

  PacketPtr Build(const Case& c) {
    PacketPtr packet = Frame(c.spec, c.cut);
    if (c.state == CsumState::kPartial) testing::MakePartial(*packet, c.spec);
    packet->meta.csum_state = c.state;
    packet->meta.gso = {.type = testing::KindOf(c.spec) | c.modifiers, .size = c.size};
    packet->meta.vlan_present = c.tag_in_meta;
    packet->meta.vlan_tci = 0x6123;
    return packet;
  }

  SeededRandom random_{2026};
};

// The frame's tags, also one in the metadata, are taken off: what the addresses and the rest say.
Bytes WithoutTags(Bytes frame) {
  while (frame.size() >= 18 && Get16(frame, 12) == 0x8100) {
    frame.erase(frame.begin() + 12, frame.begin() + 16);
  }
  return frame;
}

// An untagged frame's transport header.
struct Transport {
  size_t l4, payload;
};
Transport TransportOf(const Case& c) {
  FrameSpec spec = c.spec;
  spec.tags = 0;
  const FrameLayout at = LayoutOf(spec);
  return {at.l4, at.payload};
}

void FinishChecksum(Bytes& frame, size_t l4, bool udp) {
  const size_t field = l4 + (udp ? 6 : 16);
  Put16(frame, field, 0);
  const uint32_t pseudo = testing::NaivePseudoSum(frame, 14, udp ? 17 : 6, frame.size() - l4);
  const uint32_t sum = ~testing::NaiveSum(std::span(frame).subspan(l4), pseudo) & 0xffff;
  Put16(frame, field, sum == 0 && udp ? 0xffff : sum);
}

// What a device with segmentation offload makes of an untagged super-packet.
std::vector<Bytes> DeviceCuts(const Case& c, const Bytes& whole) {
  const auto [l4, payload] = TransportOf(c);
  std::vector<Bytes> frames;
  for (size_t at = 0; payload + at < whole.size(); at += c.size) {
    const size_t length = std::min<size_t>(c.size, whole.size() - payload - at);
    const bool last = payload + at + length == whole.size();
    Bytes frame(whole.begin(), whole.begin() + static_cast<long>(payload));
    frame.insert(frame.end(), whole.begin() + static_cast<long>(payload + at),
                 whole.begin() + static_cast<long>(payload + at + length));
    if (c.spec.ipv6) {
      Put16(frame, 14 + 4, frame.size() - 14 - 40);
    } else {
      Put16(frame, 14 + 2, frame.size() - 14);
      if (!HasAny(c.modifiers, GsoType::kFixedId)) {
        Put16(frame, 14 + 4, Get16(frame, 14 + 4) + at / c.size);
      }
      Put16(frame, 14 + 10, 0);
      Put16(frame, 14 + 10, ~testing::NaiveSum(std::span(frame).subspan(14, l4 - 14)) & 0xffff);
    }
    if (c.spec.udp) {
      Put16(frame, l4 + 4, frame.size() - l4);
    } else {
      const uint32_t seq = Get32(frame, l4 + 4) + static_cast<uint32_t>(at);
      Put16(frame, l4 + 4, seq >> 16);
      Put16(frame, l4 + 6, seq & 0xffff);
      if (!last) frame[l4 + 13] &= static_cast<uint8_t>(~(kFin | kPsh));
      const bool keeps_cwr = HasAny(c.modifiers, GsoType::kTcpAccEcn) || at == 0;
      if (!keeps_cwr) frame[l4 + 13] &= static_cast<uint8_t>(~kCwr);
    }
    FinishChecksum(frame, l4, c.spec.udp);
    frames.push_back(std::move(frame));
  }
  return frames;
}

// What the driver is told about the checksum of this frame must be true, for every state.
void ExpectTrueChecksumState(const Case& c, const Packet& packet) {
  const Bytes frame = WithoutTags(BytesOf(packet));
  const auto [l4, payload] = TransportOf(c);
  const size_t field = l4 + (c.spec.udp ? 6 : 16);
  switch (packet.meta.csum_state) {
    case CsumState::kPartial: {
      const auto removed = static_cast<int32_t>(packet.length() - frame.size());
      EXPECT_EQ(packet.csum_start_in_data() - removed, static_cast<int32_t>(l4));
      EXPECT_EQ(packet.meta.csum_offset, field - l4);
      EXPECT_EQ(Get16(frame, field),
                testing::NaivePseudoSum(frame, 14, c.spec.udp ? 17 : 6, frame.size() - l4));
      return;
    }
    case CsumState::kNone:
    case CsumState::kUnnecessary:
      EXPECT_EQ(testing::FrameFault(frame), "");
      return;
    case CsumState::kComplete:
      ADD_FAILURE() << "means nothing to a driver";
  }
}

// Covers: netdev:X-01, netdev:X-02, netdev:X-03, netdev:X-04, bug:B89
TEST_F(GsoPropertyTest, ReceiverGetsBackWhatWasSent) {
  for (int round = 0; round < 2000; ++round) {
    const Case c = RandomCase();
    SCOPED_TRACE(c.ToString());
    // The MTU is exactly what a segment needs.
    const auto [l4, payload] = TransportOf(c);
    const auto mtu = static_cast<uint32_t>(payload - 14 + c.size);
    if (mtu < 68) continue;
    FakeDevice& device = AddUpDevice({.name = context.registry().FreeName("d"),
                                      .features = c.features,
                                      .vlan_features = c.vlan_features,
                                      .queueless = true,
                                      .mtu = mtu});
    capture::CaptureChecker checker({.ignored = {capture::Rule::kVlan, capture::Rule::kIpv4Id}});
    const testutil::CheckerTap tap(checker, device);
    ASSERT_EQ(TxPath::Transmit(Build(c), device), TxResult::kSent);

    const Bytes expected = WithoutTags(testing::BuildFrame(c.spec));
    std::vector<Bytes> received;
    for (const PacketPtr& packet : device.sent) {
      ExpectTrueChecksumState(c, *packet);
      const bool tagged = c.spec.tags > 0 || c.tag_in_meta;
      const FeatureSet active =
          tagged ? IntersectFeatures(device.features(), device.vlan_features() | kHwVlanCtagTx)
                 : device.features();
      EXPECT_TRUE(active.Has(kSg) || packet->is_linear());
      if (packet->meta.csum_state == CsumState::kPartial) {
        EXPECT_TRUE(CanChecksum(active, c.spec.ipv6 ? 0x86dd : 0x0800));
      }
      EXPECT_TRUE(!packet->meta.vlan_present || device.features().Has(kHwVlanCtagTx));
      Bytes frame = WithoutTags(BytesOf(*packet));
      if (IsGso(*packet)) {
        EXPECT_TRUE((active | kGsoRobust).HasAll(RequiredGsoFeatures(*packet)));
        EXPECT_EQ(device.sent.size(), 1u);
        EXPECT_EQ(packet->meta.gso.size, c.size);
        received = DeviceCuts(c, frame);
      } else {
        EXPECT_LE(frame.size(), mtu + 14);
        FinishChecksum(frame, l4, c.spec.udp);
        received.push_back(std::move(frame));
      }
    }
    // One frame after the other equals what a device would have made of it; so does the stream.
    const std::vector<Bytes> model = DeviceCuts(c, expected);
    ASSERT_EQ(received.size(), model.size());
    Bytes stream;
    for (size_t i = 0; i < received.size(); ++i) {
      EXPECT_EQ(received[i], model[i]) << "segment " << i;
      EXPECT_EQ(testing::FrameFault(received[i]), "");
      stream.insert(stream.end(), received[i].begin() + static_cast<long>(payload),
                    received[i].end());
    }
    EXPECT_EQ(stream, Bytes(expected.begin() + static_cast<long>(payload), expected.end()));
    EXPECT_EQ(checker.report().errors(), 0u) << checker.report().ToString();
    EXPECT_EQ(device.drops().total(), 0u);
    context.registry().Unregister(device);
    context.RunOnce();
    if (HasFailure()) return;
  }
}

// ---- Anything at all ----

class HostilePacketTest : public GsoPropertyTest {
 protected:
  // A frame that may be cut short, with metadata that may be anything.
  PacketPtr Hostile(const Case& c) {
    PacketPtr packet = Build(c);
    for (uint32_t n = Chance(2) ? 0 : Between(1, 3); n > 0; --n) {
      const size_t at = random_.Uniform(static_cast<uint32_t>(packet->head_length()));
      packet->data()[at] = static_cast<uint8_t>(random_.Next32());
    }
    if (Chance(8)) packet->Trim(Between(1, static_cast<uint32_t>(packet->length())));
    PacketMeta& meta = packet->meta;
    if (Chance(4)) meta.gso.size = static_cast<uint16_t>(Chance(2) ? 0 : random_.Next32());
    if (Chance(4)) meta.gso.type = static_cast<GsoType>(1U << random_.Uniform(32));
    if (Chance(8)) meta.gso = GsoInfo();
    if (Chance(4)) meta.gso.segs = static_cast<uint16_t>(random_.Next32());
    if (Chance(4)) meta.csum_state = static_cast<CsumState>(random_.Uniform(4));
    if (Chance(4)) meta.csum_offset = static_cast<uint16_t>(random_.Next32());
    if (Chance(4)) meta.csum_start = static_cast<int32_t>(random_.Next32());
    if (Chance(8)) meta.encapsulated = true;
    return packet;
  }

  // Bytes of the longest frame this becomes on the wire, without its tags. Headers are looked at
  // byte by byte; what cannot be understood has no limit and so must not have been passed on.
  static size_t LongestFrame(const Packet& packet) {
    const Bytes frame = WithoutTags(BytesOf(packet));
    if (packet.meta.gso.size == 0) return frame.size();
    const bool ipv6 = Get16(frame, 12) == 0x86dd;
    size_t at = 14 + (ipv6 ? 40 : (frame.at(14) & 0xfu) * 4);
    uint8_t protocol = frame.at(14 + (ipv6 ? 6 : 9));
    for (int i = 0; ipv6 && i < 20 && protocol != 6 && protocol != 17; ++i) {
      protocol = frame.at(at);
      at += 8 + frame.at(at + 1) * size_t{8};
    }
    at += protocol == 6 ? (frame.at(at + 12) >> 4) * size_t{4} : 8;
    return std::min(at + packet.meta.gso.size, frame.size());
  }

  void SendHostile(FakeDevice& device) {
    const Case c = RandomCase();
    SCOPED_TRACE(c.ToString());
    const uint64_t drops = device.drops().total();
    const uint64_t packets = device.stats().tx_packets.value();
    device.sent.clear();
    static_cast<void>(TxPath::Transmit(Hostile(c), device));
    for (const PacketPtr& packet : device.sent) {
      EXPECT_LE(LongestFrame(*packet), device.mtu() + 14);
      EXPECT_EQ(packet->meta.gso.size != 0, packet->meta.gso.type != GsoType::kNone);
      if (packet->meta.csum_state == CsumState::kPartial) {
        EXPECT_TRUE(device.features().HasAny(kCsumMask));
        EXPECT_GE(packet->csum_start_in_data(), 14);
        EXPECT_LE(static_cast<size_t>(packet->csum_start_in_data()) + packet->meta.csum_offset + 2,
                  packet->length());
      }
      EXPECT_TRUE(device.features().Has(kSg) || packet->is_linear());
    }
    // Sent, or dropped once with its reason.
    EXPECT_EQ(device.drops().total() - drops, device.sent.empty() ? 1u : 0u);
    EXPECT_EQ(device.stats().tx_dropped.value(), device.drops().total());
    EXPECT_EQ(device.stats().tx_packets.value() - packets, device.sent.size());
    device.sent.clear();
  }
};

// Covers: bug:B89, bug:B91
TEST_F(HostilePacketTest, NoFrameAboveTheMtuLeavesAndEveryPacketIsAccountedFor) {
  for (int round = 0; round < 500; ++round) {
    const FeatureSet features = RandomFeatures();
    const uint32_t mtu = Between(68, 1500);
    FakeDevice& device = AddUpDevice({.name = "d",
                                      .features = features,
                                      .vlan_features = Chance(2) ? features : RandomFeatures(),
                                      .queueless = true,
                                      .mtu = mtu,
                                      .gso_max_size = Chance(4) ? Between(1000, 4000) : 65536,
                                      .gso_max_segs = Chance(4) ? Between(1, 5) : 65535});
    for (int i = 0; i < 40 && !HasFailure(); ++i) SendHostile(device);
    context.registry().Unregister(device);
    context.RunOnce();
    ASSERT_EQ(context.pool().stats().packets_in_use, 0u);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tapwire::netdev
