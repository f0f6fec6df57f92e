// SPDX-License-Identifier: Apache-2.0
#include "tests/interop/super_packet.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "netdev/base/byteorder.h"

namespace tapwire::interop {
namespace {

using drivers::VnetHdr;

constexpr std::array<uint8_t, 6> kTo{0x02, 0, 0, 0, 0, 0xbb};
constexpr std::array<uint8_t, 6> kFrom{0x02, 0, 0, 0, 0, 0xaa};

constexpr uint16_t kIpv4 = 0x0800, kIpv6 = 0x86dd, kTag = 0x8100;
constexpr uint8_t kTcp = 6, kUdp = 17;
constexpr uint8_t kHopByHop = 0, kRouting = 43, kDestinationOptions = 60;
constexpr size_t kTcpFlags = 13, kTcpChecksum = 16, kUdpLength = 4, kUdpChecksum = 6;
constexpr uint8_t kFin = 0x01, kPsh = 0x08, kCwr = 0x80;

// Of TCP; and what Linux takes of UDP (its UDP_MAX_SEGMENTS).
constexpr size_t kMaxSegments = 700;
constexpr size_t kMaxUdpSegments = 128;

// RFC 1071 in its simplest form: the sum of big-endian words, not complemented.
uint16_t Sum(std::span<const uint8_t> bytes, uint32_t sum) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    sum += i % 2 == 0 ? uint32_t{bytes[i]} << 8 : uint32_t{bytes[i]};
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return static_cast<uint16_t>(sum);
}

size_t ChecksumOffset(const SuperPacketSpec& spec) {
  return spec.udp ? kUdpChecksum : kTcpChecksum;
}

// RFC 9293 §3.1, RFC 8200 §8.1; `length` is that of the transport header and payload.
uint16_t PseudoHeaderSum(const SuperPacketSpec& spec, const uint8_t* network, size_t length) {
  const std::span<const uint8_t> addresses =
      spec.v6 ? std::span(network + 8, 32) : std::span(network + 12, 8);
  const auto rest = static_cast<uint32_t>(length) + (spec.udp ? kUdp : kTcp);
  return Sum(addresses, (rest & 0xffff) + (rest >> 16));
}

class Builder {
 public:
  Builder(const SuperPacketSpec& spec, Random& random) : spec_(spec), random_(random) {}

  SuperPacket Build() {
    super_.spec = spec_;
    AddLink();
    super_.network_offset = frame_.size();
    if (spec_.v6) {
      AddIpv6();
    } else {
      AddIpv4();
    }
    super_.transport_offset = frame_.size();
    if (spec_.udp) {
      AddUdp();
    } else {
      AddTcp();
    }
    super_.payload_offset = frame_.size();
    ChooseSizes();
    random_.Fill({Grow(payload_), payload_});
    SetLengths();
    SetChecksums();
    FillHdr();
    Describe();
    super_.frame = std::move(frame_);
    return std::move(super_);
  }

 private:
  bool Chance(uint32_t percent) { return random_.Uniform(100) < percent; }
  bool Varied(uint32_t percent) { return !spec_.plain && Chance(percent); }
  uint8_t Byte() { return static_cast<uint8_t>(random_.Next32()); }
  uint16_t Word() { return static_cast<uint16_t>(random_.Next32()); }
  size_t Between(size_t low, size_t high) {
    return low + random_.Uniform(static_cast<uint32_t>(high - low + 1));
  }
  uint8_t* Grow(size_t bytes) {
    frame_.resize(frame_.size() + bytes);
    return &frame_[frame_.size() - bytes];
  }

  void AddLink() {
    Grow(14);
    const uint16_t ether_type = spec_.v6 ? kIpv6 : kIpv4;
    const bool tagged = Varied(10);
    PutLinkHeader(frame_, tagged ? kTag : ether_type);
    if (!tagged) return;
    uint8_t* tag = Grow(4);
    StoreBe16(tag, static_cast<uint16_t>(Word() & 0xe000));  // priority only
    StoreBe16(tag + 2, ether_type);
  }

  void AddIpv4() {
    const size_t options = Varied(30) ? 4 * Between(1, 10) : 0;
    uint8_t* ip = Grow(20);
    ip[0] = static_cast<uint8_t>(0x40 | (20 + options) / 4);
    ip[1] = Byte();
    // Often near the end of its range, so that it wraps.
    StoreBe16(ip + 4, Chance(30) ? static_cast<uint16_t>(0xffff - Between(0, 5)) : Word());
    StoreBe16(ip + 6, Chance(60) ? 0x4000 : 0);
    ip[8] = static_cast<uint8_t>(Between(1, 255));
    ip[9] = spec_.udp ? kUdp : kTcp;
    const std::array<uint8_t, 8> addresses{10, 9, Byte(), 1, 10, 9, Byte(), 2};
    std::copy(addresses.begin(), addresses.end(), ip + 12);
    AddIpv4Options(options);
  }

  // RFC 2113 router alert, then "no operation".
  void AddIpv4Options(size_t length) {
    if (length == 0) return;
    uint8_t* option = Grow(length);
    std::fill_n(option, length, uint8_t{1});
    const std::array<uint8_t, 4> alert{0x94, 4, 0, 0};
    if (Chance(50)) std::copy(alert.begin(), alert.end(), option);
  }

  void AddIpv6() {
    const uint8_t protocol = spec_.udp ? kUdp : kTcp;
    std::vector<uint8_t> chain;
    // In the order RFC 8200 §4.1 recommends.
    for (const uint8_t type : {kHopByHop, kRouting, kDestinationOptions}) {
      if (Varied(15)) chain.push_back(type);
    }
    uint8_t* ip = Grow(40);
    StoreBe32(ip, 6U << 28 | (random_.Next32() & 0x0fffffff));
    ip[6] = chain.empty() ? protocol : chain.front();
    ip[7] = static_cast<uint8_t>(Between(1, 255));
    for (size_t address : {size_t{8}, size_t{24}}) {
      ip[address] = 0xfd;
      for (size_t i = 1; i < 16; ++i) ip[address + i] = Byte();
    }
    for (size_t i = 0; i < chain.size(); ++i) {
      AddExtension(chain[i], i + 1 < chain.size() ? chain[i + 1] : protocol);
    }
  }

  void AddExtension(uint8_t type, uint8_t next) {
    const size_t length = 8 * Between(1, 5);
    uint8_t* header = Grow(length);
    header[0] = next;
    header[1] = static_cast<uint8_t>(length / 8 - 1);
    if (type == kRouting) {
      // RFC 8754 §2, no segments left: the destination is the final one.
      header[2] = 4;
      return;
    }
    header[2] = 1;  // PadN
    header[3] = static_cast<uint8_t>(length - 4);
  }

  void AddTcp() {
    const size_t options = Varied(60) ? 4 * Between(1, 10) : 0;
    uint8_t* tcp = Grow(20 + options);
    StoreBe32(tcp, random_.Next32());  // ports
    StoreBe32(tcp + 4, Chance(30) ? 0U - random_.Uniform(60'000) : random_.Next32());
    StoreBe32(tcp + 8, random_.Next32());
    tcp[12] = static_cast<uint8_t>((20 + options) / 4 << 4 | (Varied(15) ? Between(0, 15) : 0));
    tcp[kTcpFlags] = Byte();
    StoreBe16(tcp + 14, Word());
    StoreBe16(tcp + 18, Word());
    // What options say is nobody's business here.
    for (size_t i = 0; i < options; ++i) tcp[20 + i] = Byte();
  }

  void AddUdp() {
    uint8_t* udp = Grow(8);
    StoreBe32(udp, random_.Next32());
  }

  void ChooseSizes() {
    const size_t counted = frame_.size() - super_.network_offset - (spec_.v6 ? 40 : 0);
    const size_t limit = 65'535 - counted;
    const size_t largest = Chance(70) ? 1500 : Chance(50) ? 9000 : limit / 2;
    const size_t size = Between(spec_.zero_checksum ? 2 : 1, largest);
    const size_t most = std::min(limit, size * (spec_.udp ? kMaxUdpSegments : kMaxSegments));
    // Often a whole number of segments, or one byte more or less.
    const size_t some =
        Chance(50) ? size * Between(2, 9) + Between(0, 2) - 1 : Between(size + 1, most);
    payload_ = std::clamp(some, size + 1, most);
    super_.hdr.gso_size = static_cast<uint16_t>(size);
  }

  size_t transport_length() const { return frame_.size() - super_.transport_offset; }
  uint8_t* network() { return &frame_[super_.network_offset]; }
  uint8_t* transport() { return &frame_[super_.transport_offset]; }

  void SetLengths() {
    const size_t network_length = frame_.size() - super_.network_offset;
    if (spec_.v6) {
      StoreBe16(network() + 4, static_cast<uint16_t>(network_length - 40));
    } else {
      StoreBe16(network() + 2, static_cast<uint16_t>(network_length));
    }
    if (spec_.udp) StoreBe16(transport() + kUdpLength, static_cast<uint16_t>(transport_length()));
  }

  uint16_t PseudoSum(size_t length) { return PseudoHeaderSum(spec_, network(), length); }

  void SetChecksums() {
    if (!spec_.v6 && Chance(90)) {
      const std::span<const uint8_t> header(network(),
                                            super_.transport_offset - super_.network_offset);
      StoreBe16(network() + 10, static_cast<uint16_t>(~Sum(header, 0)));
    }
    if (spec_.zero_checksum) MakeFirstChecksumZero();
    StoreBe16(transport() + ChecksumOffset(spec_),
              spec_.complete ? Word() : PseudoSum(transport_length()));
  }

  // Balances the first two bytes of payload so that the first segment sums up to 0xffff.
  void MakeFirstChecksumZero() {
    const size_t header = super_.payload_offset - super_.transport_offset;
    const size_t length = header + super_.hdr.gso_size;
    ByteVector segment(transport(), transport() + length);
    StoreBe16(&segment[ChecksumOffset(spec_)], 0);
    StoreBe16(&segment[header], 0);
    if (spec_.udp) {
      StoreBe16(&segment[kUdpLength], static_cast<uint16_t>(length));
    } else {
      segment[kTcpFlags] &= static_cast<uint8_t>(~(kFin | kPsh));
    }
    const uint16_t sum = Sum(segment, PseudoSum(length));
    StoreBe16(transport() + header, static_cast<uint16_t>(0xffff - sum));
  }

  void FillHdr() {
    VnetHdr& hdr = super_.hdr;
    hdr.gso_type = spec_.udp  ? VnetHdr::kGsoUdpL4
                   : spec_.v6 ? VnetHdr::kGsoTcpv6
                              : VnetHdr::kGsoTcpv4;
    const bool cwr = !spec_.udp && (transport()[kTcpFlags] & kCwr) != 0;
    if (cwr && Chance(50)) hdr.gso_type |= VnetHdr::kGsoEcn;
    hdr.hdr_len = static_cast<uint16_t>(super_.payload_offset);
    if (spec_.complete) return;
    hdr.flags = VnetHdr::kNeedsCsum;
    hdr.csum_start = static_cast<uint16_t>(super_.transport_offset);
    hdr.csum_offset = static_cast<uint16_t>(ChecksumOffset(spec_));
  }

  void Describe() {
    super_.description = absl::StrCat(
        spec_.udp ? "UDP" : "TCP", spec_.v6 ? "v6" : "v4", ", headers of ", super_.network_offset,
        " + ", super_.transport_offset - super_.network_offset, " + ",
        super_.payload_offset - super_.transport_offset, " bytes, payload of ", payload_,
        " in segments of ", super_.hdr.gso_size, ", virtio type ", super_.hdr.gso_type);
    if (!spec_.udp) absl::StrAppend(&super_.description, ", flags ", transport()[kTcpFlags]);
  }

  const SuperPacketSpec spec_;
  Random& random_;
  SuperPacket super_;
  ByteVector frame_;
  size_t payload_ = 0;
};

}  // namespace

GsoInfo SuperPacket::gso() const {
  const bool ecn = (hdr.gso_type & VnetHdr::kGsoEcn) != 0;
  const GsoType kind = spec.udp ? GsoType::kUdpL4 : spec.v6 ? GsoType::kTcpv6 : GsoType::kTcpv4;
  return {.type = kind | (ecn ? GsoType::kTcpEcn : GsoType::kNone), .size = hdr.gso_size};
}

void PrepareChecksum(SuperPacket& super) {
  uint8_t* transport = &super.frame[super.transport_offset];
  const size_t length = super.frame.size() - super.transport_offset;
  StoreBe16(transport + ChecksumOffset(super.spec),
            PseudoHeaderSum(super.spec, &super.frame[super.network_offset], length));
}

SuperPacket RandomSuperPacket(const SuperPacketSpec& spec, Random& random) {
  return Builder(spec, random).Build();
}

void PutLinkHeader(std::span<uint8_t> frame, uint16_t ether_type) {
  std::copy(kTo.begin(), kTo.end(), frame.begin());
  std::copy(kFrom.begin(), kFrom.end(), frame.begin() + 6);
  StoreBe16(&frame[12], ether_type);
}

bool IsFromUs(std::span<const uint8_t> frame) {
  return frame.size() >= 14 && std::equal(kFrom.begin(), kFrom.end(), frame.begin() + 6);
}

}  // namespace tapwire::interop
