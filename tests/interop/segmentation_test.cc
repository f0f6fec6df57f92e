// SPDX-License-Identifier: Apache-2.0
//
// Segmentation compared with the kernel's. Random super-packets are written, with a virtio-net
// header, into one TAP and come out of another, which takes neither super-packets nor partial
// checksums: the kernel has cut and summed them, as SegmentPacket() must for a device without
// features, byte for byte.
//
//   super-packet --> [in0] ---- br0 ---- [out0] --> frames
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "drivers/tap/tap_link.h"
#include "drivers/tap/vnet_hdr.h"
#include "netdev/base/byteorder.h"
#include "netdev/base/seeded_random.h"
#include "netdev/csum_offload.h"
#include "netdev/gso.h"
#include "netdev/packet/slab_pool.h"
#include "netdev/wire/pretty_print.h"
#include "tests/interop/super_packet.h"
#include "tests/testutil/tap_fixture.h"

namespace tapwire::interop {
namespace {

using drivers::TapLink;
using drivers::VnetHdr;
using netdev::SegmentResult;

constexpr uint64_t kSeed = 20'261'130;
constexpr uint16_t kMarkerType = 0x88b5;  // IEEE 802: for local experiments

// What became of one super-packet.
struct Outcome {
  std::string refusal;  // why there are no frames; empty if there are
  std::vector<ByteVector> frames;
};

class SegmentationInterop : public testutil::NetnsFixture {
 protected:
  void SetUp() override {
    NetnsFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    in_ = Attach("in0");
    out_ = Attach("out0");
    if (HasFailure()) return;
    drivers::SetTapOffloads(out_, {});
    // Room for all segments of a super-packet; nothing of the bridge's own.
    Ip("link set out0 txqueuelen 8000");
    Ip("link add br0 type bridge stp_state 0 mcast_snooping 0 forward_delay 0");
    for (const char* name : {"in0", "out0", "br0"}) {
      Sysctl(absl::StrCat("ipv6/conf/", name, "/disable_ipv6"), "1");
      if (name != std::string("br0")) Ip(absl::StrCat("link set ", name, " master br0"));
      // What is no super-packet in the end may still be as long as one.
      Ip(absl::StrCat("link set ", name, " mtu 65521 up"));
    }
    // Where there is a filter for bridges, it looks at every header.
    for (const char* filter : {"iptables", "ip6tables", "arptables"}) {
      const std::string name = absl::StrCat("bridge/bridge-nf-call-", filter);
      if (access(absl::StrCat("/proc/sys/net/", name).c_str(), F_OK) == 0) Sysctl(name, "0");
    }
    WaitForBridge();
  }

  TapLink Attach(const std::string& name) {
    auto link = drivers::AttachTap(tun_node(), name, 1);
    EXPECT_TRUE(link.ok()) << link.status();
    return link.ok() ? *std::move(link) : TapLink();
  }

  // Ports forward from a work item on; until then frames get lost.
  void WaitForBridge() {
    for (int i = 0; i < 100; ++i) {
      if (MarkerPasses(20)) return;
    }
    FAIL() << "the bridge does not forward";
  }

  bool MarkerPasses(int timeout_ms) {
    SendMarker();
    ByteVector frame;
    while (Read(frame, timeout_ms)) {
      if (IsMarker(frame)) return true;
    }
    return false;
  }

  // 0 or an errno.
  int Write(const VnetHdr& hdr, std::span<const uint8_t> frame) {
    ByteVector bytes(VnetHdr::kLength);
    hdr.Emit(bytes, in_.order);
    bytes.insert(bytes.end(), frame.begin(), frame.end());
    return write(in_.fds[0].get(), bytes.data(), bytes.size()) < 0 ? errno : 0;
  }

  bool Read(ByteVector& frame, int timeout_ms) {
    pollfd waiting = {.fd = out_.fds[0].get(), .events = POLLIN, .revents = 0};
    if (poll(&waiting, 1, timeout_ms) <= 0) return false;
    const ssize_t n = read(waiting.fd, buffer_.data(), buffer_.size());
    if (n < static_cast<ssize_t>(VnetHdr::kLength)) return false;
    const auto hdr = VnetHdr::Parse(std::span(buffer_).first(VnetHdr::kLength), out_.order);
    EXPECT_EQ(hdr->flags & VnetHdr::kNeedsCsum, 0) << "left to us to be summed";
    EXPECT_EQ(hdr->gso_type, VnetHdr::kGsoNone) << "left to us to be cut";
    frame.assign(buffer_.begin() + VnetHdr::kLength, buffer_.begin() + n);
    return true;
  }

  // A marker follows each super-packet; each has a number of its own.
  void SendMarker() {
    ByteVector frame(60);
    PutLinkHeader(frame, kMarkerType);
    StoreBe32(&frame[14], ++marker_);
    EXPECT_EQ(Write({}, frame), 0) << std::strerror(errno);
  }
  bool IsMarker(const ByteVector& frame) const {
    return frame.size() >= 18 && LoadBe16(&frame[12]) == kMarkerType &&
           LoadBe32(&frame[14]) == marker_;
  }

  // A write is forwarded before it returns, in order: what comes before the marker is all.
  Outcome KernelOutcome(const SuperPacket& super) {
    Outcome outcome;
    if (const int err = Write(super.hdr, super.frame); err != 0) {
      outcome.refusal = absl::StrCat("write: ", std::strerror(err));
    }
    SendMarker();
    ByteVector frame;
    while (Read(frame, 2000)) {
      if (IsMarker(frame)) {
        if (outcome.frames.empty() && outcome.refusal.empty()) outcome.refusal = "dropped";
        return outcome;
      }
      if (IsFromUs(frame)) outcome.frames.push_back(frame);
    }
    ADD_FAILURE() << "the marker did not come back";
    return outcome;
  }

  // The same by our driver's reading of the header and our segmentation.
  Outcome OurOutcome(const SuperPacket& super) {
    PacketPtr packet = PacketFromBytes(pool_, super.frame);
    DropReason reason = DropReason::kNone;
    if (super.is_complete()) {
      packet->meta.gso = super.gso();
    } else {
      reason = drivers::ToMeta(super.hdr, {}, *packet);
    }
    if (reason != DropReason::kNone) return Refused(reason);
    if (!netdev::IsGso(*packet)) return Whole(std::move(packet));
    reason = netdev::PrepareGso(*packet);
    if (reason != DropReason::kNone) return Refused(reason);
    SegmentResult result = netdev::SegmentPacket(pool_, *packet, {});
    if (result.error != DropReason::kNone) return Refused(result.error);
    Outcome outcome;
    while (PacketPtr segment = result.segments.PopFront()) {
      EXPECT_EQ(segment->meta.csum_state, CsumState::kNone);
      outcome.frames.push_back(BytesOf(*segment));
    }
    return outcome;
  }

  static Outcome Refused(DropReason reason) {
    return {.refusal = std::string(DropReasonName(reason)), .frames = {}};
  }
  static Outcome Whole(PacketPtr packet) {
    if (packet->meta.csum_state == CsumState::kPartial && !netdev::ChecksumHelp(*packet)) {
      return {.refusal = "checksum", .frames = {}};
    }
    return {.refusal = "", .frames = {BytesOf(*packet)}};
  }
  static ByteVector BytesOf(const Packet& packet) {
    ByteVector bytes(packet.length());
    packet.CopyOut(0, bytes);
    return bytes;
  }

  // Empty if both are the same.
  static std::string Difference(const Outcome& kernel, const Outcome& ours) {
    const auto count = std::min(kernel.frames.size(), ours.frames.size());
    for (size_t i = 0; i < count; ++i) {
      const std::string difference = FrameDifference(kernel.frames[i], ours.frames[i]);
      if (!difference.empty()) {
        return absl::StrCat("segment ", i, " of ", kernel.frames.size(), ", ", difference,
                            "\nkernel: ", wire::PrettyPrint(kernel.frames[i]),
                            "\nours:   ", wire::PrettyPrint(ours.frames[i]));
      }
    }
    if (kernel.frames.size() == ours.frames.size()) return "";
    return absl::StrCat("kernel: ", kernel.frames.size(), " frames ", kernel.refusal,
                        "\nours:   ", ours.frames.size(), " frames ", ours.refusal);
  }

  static std::string FrameDifference(const ByteVector& a, const ByteVector& b) {
    const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    if (in_a == a.end() && in_b == b.end()) return "";
    std::string text = absl::StrCat("byte ", in_a - a.begin());
    if (in_a != a.end()) absl::StrAppend(&text, ", kernel's is 0x", absl::Hex(*in_a));
    if (in_b != b.end()) absl::StrAppend(&text, ", ours is 0x", absl::Hex(*in_b));
    return text;
  }

  void ExpectSameSegments(const SuperPacketSpec& wish, uint64_t seed, int rounds);
  // Whether this kernel takes UDP super-packets from a TAP (6.2).
  bool KernelHasUso() {
    return drivers::SetTapOffloads(in_, {.csum = true, .tso = true, .uso = true}).uso;
  }

  TapLink in_;
  TapLink out_;
  uint32_t marker_ = 0;
  ByteVector buffer_ = ByteVector(70'000);
  SlabPool pool_{SlabPool::Options{}};
};

void SegmentationInterop::ExpectSameSegments(const SuperPacketSpec& wish, uint64_t seed,
                                             int rounds) {
  SeededRandom random(seed);
  size_t segments = 0;
  for (int round = 0; round < rounds; ++round) {
    const SuperPacket super = RandomSuperPacket(wish, random);
    const Outcome kernel = KernelOutcome(super);
    ASSERT_EQ(Difference(kernel, OurOutcome(super)), "")
        << "seed " << seed << ", round " << round << ": " << super.description;
    ASSERT_GT(kernel.frames.size(), 1u) << "seed " << seed << ", round " << round << ": "
                                        << super.description << ": " << kernel.refusal;
    segments += kernel.frames.size();
  }
  EXPECT_GT(segments, static_cast<size_t>(rounds) * 2);
}

// Covers: netdev:X-02, netdev:X-03
TEST_F(SegmentationInterop, Tcpv4SegmentsAreTheKernels) {
  ExpectSameSegments({.v6 = false, .udp = false}, kSeed, 200);
}

TEST_F(SegmentationInterop, Tcpv6SegmentsAreTheKernels) {
  ExpectSameSegments({.v6 = true, .udp = false}, kSeed + 1, 200);
}

TEST_F(SegmentationInterop, Udpv4SegmentsAreTheKernels) {
  if (!KernelHasUso()) GTEST_SKIP() << "this kernel knows no USO on a TAP (before 6.2)";
  ExpectSameSegments({.v6 = false, .udp = true}, kSeed + 2, 150);
}

TEST_F(SegmentationInterop, Udpv6SegmentsAreTheKernels) {
  if (!KernelHasUso()) GTEST_SKIP() << "this kernel knows no USO on a TAP (before 6.2)";
  ExpectSameSegments({.v6 = true, .udp = true}, kSeed + 3, 150);
}

// A checksum that comes out as zero: 0xffff for UDP, where zero means "none" (RFC 768).
// Covers: netdev:X-05
TEST_F(SegmentationInterop, ZeroChecksumsAreTheKernels) {
  for (const bool v6 : {false, true}) {
    for (const bool udp : {false, true}) {
      if (udp && !KernelHasUso()) continue;
      ExpectSameSegments({.v6 = v6, .udp = udp, .zero_checksum = true}, kSeed + 4, 25);
    }
  }
}

// TCP's checksum can be set up by whoever cuts: one that nobody prepared, even a wrong one.
TEST_F(SegmentationInterop, UnpreparedTcpChecksumsAreTheKernels) {
  for (const bool v6 : {false, true}) {
    ExpectSameSegments({.v6 = v6, .udp = false, .complete = true}, kSeed + 5, 50);
  }
}

// ---- What nobody can cut ----

struct Damage {
  const char* name;
  void (*apply)(SuperPacket& super);
};

// Each makes headers and virtio header contradict each other, or is no header at all.
const Damage kDamages[] = {
    {"segment size 0", [](SuperPacket& s) { s.hdr.gso_size = 0; }},
    {"segment size 0xffff", [](SuperPacket& s) { s.hdr.gso_size = 0xffff; }},
    {"unknown type", [](SuperPacket& s) { s.hdr.gso_type = 7; }},
    {"other family",
     [](SuperPacket& s) { s.hdr.gso_type = s.spec.v6 ? VnetHdr::kGsoTcpv4 : VnetHdr::kGsoTcpv6; }},
    {"other protocol's type",
     [](SuperPacket& s) {
       s.hdr.gso_type = !s.spec.udp ? VnetHdr::kGsoUdpL4
                        : s.spec.v6 ? VnetHdr::kGsoTcpv6
                                    : VnetHdr::kGsoTcpv4;
     }},
    {"checksum field beside the transport's", [](SuperPacket& s) { s.hdr.csum_offset += 2; }},
    {"checksum start behind the frame", [](SuperPacket& s) { s.hdr.csum_start = 0xfff0; }},
    {"headers longer than the frame",
     [](SuperPacket& s) {
       s.frame.resize(std::min<size_t>(s.frame.size(), 60'000));
       // The kernel counts the last two bytes of the virtio header too.
       s.hdr.hdr_len = static_cast<uint16_t>(s.frame.size() + 3);
     }},
    {"header ends inside the addresses",
     [](SuperPacket& s) { s.frame.resize(s.network_offset + 15); }},
    {"header ends inside the transport",
     [](SuperPacket& s) { s.frame.resize(s.transport_offset + 7); }},
};

// What damages TCP only.
const Damage kTcpDamages[] = {
    {"TCP header of 16 bytes", [](SuperPacket& s) { s.frame[s.transport_offset + 12] = 4 << 4; }},
};

// What damages IPv4 only.
const Damage kIpv4Damages[] = {
    {"IPv4 header of 16 bytes", [](SuperPacket& s) { s.frame[s.network_offset] = 0x44; }},
    {"another protocol", [](SuperPacket& s) { s.frame[s.network_offset + 9] = 47; }},
};

class DamagedInterop : public SegmentationInterop {
 protected:
  void ExpectBothRefuse(const Damage& damage, const SuperPacketSpec& wish, SeededRandom& random) {
    SuperPacket super = RandomSuperPacket(wish, random);
    damage.apply(super);
    const Outcome kernel = KernelOutcome(super);
    const Outcome ours = OurOutcome(super);
    EXPECT_TRUE(kernel.frames.empty()) << damage.name << ": " << super.description;
    EXPECT_TRUE(ours.frames.empty()) << damage.name << ": " << super.description;
  }
};

TEST_F(DamagedInterop, WhatTheKernelRefusesWeRefuse) {
  SeededRandom random(kSeed + 6);
  const bool uso = KernelHasUso();
  for (const bool v6 : {false, true}) {
    for (const bool udp : {false, true}) {
      if (udp && !uso) continue;
      const SuperPacketSpec wish{.v6 = v6, .udp = udp, .plain = true};
      for (const Damage& damage : kDamages) ExpectBothRefuse(damage, wish, random);
      if (!udp) {
        for (const Damage& damage : kTcpDamages) ExpectBothRefuse(damage, wish, random);
      }
      if (!v6) {
        for (const Damage& damage : kIpv4Damages) ExpectBothRefuse(damage, wish, random);
      }
    }
  }
}

// Where we are stricter than the kernel on purpose: a fragment is no super-packet, nor is what
// claims another version of IP, nor what a routing header sends to another destination than the
// checksum is for.
bool MayBeRefused(const SuperPacket& super, size_t damaged) {
  if (damaged == super.network_offset) return true;
  const size_t at = damaged - super.network_offset;
  return super.spec.v6 ? at >= 40 : at == 6 || at == 7;
}

// Nobody but the sender can vouch for the length and the checksum of a UDP super-packet: the kernel
// calculates with both, we with neither.
bool IsBelieved(const SuperPacket& super, size_t offset) {
  return super.spec.udp && offset >= super.transport_offset + 4;
}

// One byte of the IP or transport header is anything: what still is a super-packet is cut in the
// same way, everything else by neither.
TEST_F(DamagedInterop, OneWrongByteMeansTheSameToTheKernel) {
  SeededRandom random(kSeed + 7);
  const bool uso = KernelHasUso();
  int cut = 0, refused = 0;
  for (int round = 0; round < 600; ++round) {
    SuperPacket super =
        RandomSuperPacket({.v6 = round % 2 == 0, .udp = uso && round % 4 < 2}, random);
    const size_t at =
        super.network_offset +
        random.Uniform(static_cast<uint32_t>(super.payload_offset - super.network_offset));
    if (IsBelieved(super, at)) continue;
    super.frame[at] = static_cast<uint8_t>(random.Next32());
    PrepareChecksum(super);
    const Outcome kernel = KernelOutcome(super);
    const Outcome ours = OurOutcome(super);
    if (ours.frames.empty() && MayBeRefused(super, at)) continue;
    ASSERT_EQ(Difference(kernel, ours), "")
        << "seed " << kSeed + 7 << ", round " << round << ", byte " << at << " is "
        << int{super.frame[at]} << ": " << super.description;
    ++(kernel.frames.empty() ? refused : cut);
  }
  EXPECT_GT(cut, 250);
  EXPECT_GT(refused, 5);
}

}  // namespace
}  // namespace tapwire::interop
