// SPDX-License-Identifier: Apache-2.0
//
// Frames through receive merging. A record is flags (1: complete the checksums, 2: two pieces, 4:
// end the round), a length (two bytes) and a frame. What goes up, with merged packets cut again,
// must be just the frames that were offered. Aborts if a byte is lost, changed or made up.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "netdev/base/byteorder.h"
#include "netdev/csum_offload.h"
#include "netdev/device.h"
#include "netdev/frame_headers.h"
#include "netdev/gro.h"
#include "netdev/gso.h"
#include "netdev/net_context.h"
#include "netdev/registry.h"
#include "netdev/wire/checksum.h"
#include "tests/testutil/fake_clock.h"

namespace tapwire::netdev {
namespace {

constexpr size_t kRecord = 3;
constexpr size_t kMaxRecords = 200;

class FuzzDevice final : public NetDevice {
 public:
  explicit FuzzDevice(NetContext& context) : NetDevice(context, {.name = "fuzz0"}) {
    set_features(Feature::kGroUdpFwd);
    set_hw_features(Feature::kGroUdpFwd);
  }
  absl::string_view kind() const override { return "fuzz"; }

 protected:
  TxResult StartXmit(PacketPtr /*packet*/, bool /*more*/) override { return TxResult::kSent; }
};

// So that the fuzzer need not compute them.
void CompleteChecksums(std::vector<uint8_t>& frame) {
  const auto headers = ParseTransportHeaders(frame);
  if (!headers) return;
  const std::span<uint8_t> bytes(frame);
  if (headers->ether_type == 0x0800) {
    StoreBe16(&frame[headers->l3 + 10], 0);
    StoreBe16(&frame[headers->l3 + 10],
              wire::ChecksumOf(bytes.subspan(headers->l3, headers->network_header_length())));
  }
  const size_t field = headers->l4 + headers->checksum_offset();
  StoreBe16(&frame[field], 0);
  const AddressPair addresses = AddressesOf(*headers, frame);
  StoreBe16(&frame[field],
            StoredChecksum(wire::TransportChecksum(addresses.source, addresses.destination,
                                                   headers->protocol, bytes.subspan(headers->l4)),
                           static_cast<uint16_t>(headers->checksum_offset())));
}

class Fuzzer {
 public:
  Fuzzer() : context_(environment_.environment()) {
    auto device = std::make_unique<FuzzDevice>(context_);
    device_ = device.get();
    static_cast<void>(*context_.registry().Register(std::move(device)));
    device_->SetGroMode(GroMode::kOn);
    gro_ = std::make_unique<Gro>(*device_);
  }

  void Play(uint8_t flags, std::span<const uint8_t> bytes) {
    std::vector<uint8_t> frame(bytes.begin(), bytes.end());
    if ((flags & 1) != 0) CompleteChecksums(frame);
    PacketPtr packet;
    if ((flags & 2) != 0 && frame.size() > 60) {
      packet = context_.pool().AllocatePacket(60);
      std::copy_n(frame.begin(), 60, packet->Put(60).begin());
      SlabRef slab = context_.pool().AllocateSlabFor(frame.size() - 60);
      std::copy(frame.begin() + 60, frame.end(), slab.data());
      if (!packet->AddFrag(std::move(slab), 0, frame.size() - 60)) std::abort();
    } else {
      packet = PacketFromBytes(context_.pool(), frame);
    }
    packet->meta.rx_device = device_->ifindex();
    offered_.push_back(std::move(frame));
    gro_->Offer(std::move(packet), up_);
    if ((flags & 4) != 0) gro_->Flush(up_);
  }

  void Finish() {
    gro_->Flush(up_);
    if (gro_->holds_any()) std::abort();
    std::vector<std::vector<uint8_t>> received;
    while (PacketPtr packet = up_.PopFront()) {
      if (!IsGso(*packet)) {
        received.push_back(BytesOf(*packet));
        continue;
      }
      SegmentResult cut = SegmentPacket(context_.pool(), *packet, {});
      if (cut.segments.size() != packet->meta.gso.segs) std::abort();
      while (PacketPtr segment = cut.segments.PopFront()) received.push_back(BytesOf(*segment));
    }
    std::sort(offered_.begin(), offered_.end());
    std::sort(received.begin(), received.end());
    if (received != offered_) std::abort();
  }

 private:
  static std::vector<uint8_t> BytesOf(const Packet& packet) {
    std::vector<uint8_t> bytes(packet.length());
    packet.CopyOut(0, bytes);
    return bytes;
  }

  TestEnvironment environment_;
  NetContext context_;
  FuzzDevice* device_ = nullptr;
  std::unique_ptr<Gro> gro_;
  PacketList up_;
  std::vector<std::vector<uint8_t>> offered_;
};

}  // namespace
}  // namespace tapwire::netdev

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tapwire::netdev::Fuzzer fuzzer;
  std::span<const uint8_t> rest(data, size);
  for (size_t i = 0; rest.size() >= tapwire::netdev::kRecord && i < tapwire::netdev::kMaxRecords;
       ++i) {
    const uint8_t flags = rest[0];
    const size_t length = tapwire::LoadBe16(rest.data() + 1) % 2048;
    rest = rest.subspan(tapwire::netdev::kRecord);
    const size_t taken = std::min(length, rest.size());
    fuzzer.Play(flags, rest.first(taken));
    rest = rest.subspan(taken);
  }
  fuzzer.Finish();
  return 0;
}
