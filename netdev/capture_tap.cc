// SPDX-License-Identifier: Apache-2.0
#include "netdev/capture_tap.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/byteorder.h"
#include "netdev/csum_offload.h"
#include "netdev/wire/checksum.h"

namespace tapwire::netdev {
namespace {

constexpr size_t kMacsLength = 12;  // a tag stands behind the two addresses
constexpr size_t kTagLength = 4;

struct GsoName {
  GsoType type;
  absl::string_view name;
};
constexpr GsoName kGsoNames[] = {{GsoType::kTcpv4, "tcpv4"},  {GsoType::kTcpv6, "tcpv6"},
                                 {GsoType::kUdpL4, "udp-l4"}, {GsoType::kUdp, "udp"},
                                 {GsoType::kSctp, "sctp"},    {GsoType::kTcpEcn, "ecn"},
                                 {GsoType::kDodgy, "dodgy"},  {GsoType::kFixedId, "fixedid"}};

std::string GsoNames(GsoType type) {
  std::string names;
  for (const GsoName& entry : kGsoNames) {
    if (HasAny(type, entry.type)) absl::StrAppend(&names, names.empty() ? "" : "+", entry.name);
  }
  return names.empty() ? absl::StrCat("type-", absl::Hex(static_cast<uint32_t>(type))) : names;
}

// The finished checksum over [start, end) of the packet, whose field holds the pseudo-header sum.
uint16_t FinishedChecksum(const Packet& packet, size_t start) {
  wire::InternetChecksum sum;
  packet.ForEachSpan([&](std::span<const uint8_t> piece) {
    const size_t skipped = std::min(start, piece.size());
    start -= skipped;
    sum.Add(piece.subspan(skipped));
  });
  return StoredChecksum(sum.Finish(), packet.meta.csum_offset);
}

// Copies the first `length` bytes of the packet with the tag, if it has one, in its place.
void CopyBytes(const Packet& packet, size_t length, std::vector<uint8_t>& out) {
  out.resize(std::min(length, packet.length()));
  packet.CopyOut(0, out);
  if (!packet.meta.vlan_present || packet.length() < kMacsLength) return;
  uint8_t tag[kTagLength];
  StoreBe16(tag, packet.meta.vlan_proto);
  StoreBe16(tag + 2, packet.meta.vlan_tci);
  if (out.size() >= kMacsLength) out.insert(out.begin() + kMacsLength, tag, tag + kTagLength);
  if (out.size() > length) out.resize(length);
}

}  // namespace

void CopyWireFrame(const Packet& packet, bool complete, uint32_t max_length, WireFrame& out) {
  const size_t tag = packet.meta.vlan_present && packet.length() >= kMacsLength ? kTagLength : 0;
  out.length = static_cast<uint32_t>(packet.length() + tag);
  CopyBytes(packet, max_length == 0 ? out.length : max_length, out.bytes);
  out.partial = packet.meta.csum_state == CsumState::kPartial;
  out.completed = false;
  if (!out.partial) return;

  const int32_t start = packet.csum_start_in_data();
  out.csum_start = static_cast<uint32_t>(start + static_cast<int32_t>(tag));
  out.csum_offset = packet.meta.csum_offset;
  const size_t field = static_cast<size_t>(std::max(start, 0)) + out.csum_offset;
  if (!complete || start < 0 || field + 2 > packet.length()) return;
  const uint16_t checksum = FinishedChecksum(packet, static_cast<size_t>(start));
  if (field + tag + 2 <= out.bytes.size()) StoreBe16(&out.bytes[field + tag], checksum);
  out.completed = true;
}

std::string OffloadComment(const Packet& packet, const WireFrame& frame, TxResult result) {
  std::string text;
  const auto add = [&text](absl::string_view word) {
    absl::StrAppend(&text, text.empty() ? "" : " ", word);
  };
  switch (packet.meta.csum_state) {
    case CsumState::kNone:
      break;
    case CsumState::kUnnecessary:
      add(absl::StrCat("csum=unnecessary level=", packet.meta.csum_level));
      break;
    case CsumState::kComplete:
      add(absl::StrCat("csum=complete value=0x",
                       absl::Hex(packet.meta.csum_value, absl::kZeroPad4)));
      break;
    case CsumState::kPartial:
      add(absl::StrCat("csum=partial start=", frame.csum_start, " offset=", frame.csum_offset));
      break;
  }
  if (const GsoInfo& gso = packet.meta.gso; gso.size != 0) {
    add(absl::StrCat("gso=", GsoNames(gso.type), " size=", gso.size));
    if (gso.segs != 0) add(absl::StrCat("segs=", gso.segs));
  }
  if (packet.meta.late) add("late");
  if (!TxOk(result)) add(absl::StrCat("result=", TxResultName(result)));
  return text;
}

// One per device: a tap can hang on one list only.
class CaptureTap::DeviceTap final : public PacketTap {
 public:
  DeviceTap(CaptureTap& owner, NetDevice& device, uint32_t interface)
      : owner_(owner), device_(&device), interface_(interface) {}
  const NetDevice* device() const { return device_; }

  void OnFrame(const Packet& packet, const NetDevice& device, TapDirection direction,
               TxResult result) override {
    owner_.Write(interface_, packet, device, direction, result);
  }

 private:
  CaptureTap& owner_;
  const NetDevice* device_;
  uint32_t interface_;
};

CaptureTap::CaptureTap(PcapngWriter& writer, Options options)
    : writer_(writer), options_(options) {}

CaptureTap::~CaptureTap() = default;

void CaptureTap::Attach(NetDevice& device) {
  const uint32_t interface = writer_.AddInterface(
      {.name = device.name(), .description = std::string(device.kind()), .mac = device.mac()});
  taps_.push_back(std::make_unique<DeviceTap>(*this, device, interface));
  device.AddTap(*taps_.back());
}

void CaptureTap::Detach(NetDevice& device) {
  const auto gone = std::remove_if(taps_.begin(), taps_.end(),
                                   [&](const auto& tap) { return tap->device() == &device; });
  taps_.erase(gone, taps_.end());
}

void CaptureTap::Write(uint32_t interface, const Packet& packet, const NetDevice& device,
                       TapDirection direction, TxResult result) {
  CopyWireFrame(packet, !options_.raw, options_.snap_length, frame_);
  const bool received = direction == TapDirection::kReceive;
  const bool has_arrival = received && packet.meta.rx_time != Time();
  const Time time = has_arrival ? packet.meta.rx_time : device.context().now();
  const std::string comment = OffloadComment(packet, frame_, received ? TxResult::kSent : result);
  writer_.WritePacket(
      {.interface = interface,
       .time_ns =
           static_cast<uint64_t>((time.time_since_epoch() + options_.wall_clock_offset).count()),
       .captured = frame_.bytes,
       .original_length = frame_.length,
       .direction = received ? PcapngDirection::kInbound : PcapngDirection::kOutbound,
       .checksum_not_ready = frame_.partial && !frame_.completed,
       .segmentation_offload = packet.meta.gso.size != 0,
       .comment = comment});
}

}  // namespace tapwire::netdev
