// SPDX-License-Identifier: Apache-2.0
// Costs of the device layer itself: a small frame over a veth pair into the receive core, software
// segmentation of a 64 KiB super-packet, a checksum in software, GRO with nothing to merge.
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "netdev/base/byteorder.h"
#include "netdev/base/seeded_random.h"
#include "netdev/csum_offload.h"
#include "netdev/dummy.h"
#include "netdev/features.h"
#include "netdev/gro.h"
#include "netdev/gso.h"
#include "netdev/net_context.h"
#include "netdev/poll.h"
#include "netdev/tx_path.h"
#include "netdev/veth.h"
#include "netdev/wire/ethernet.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/tcp.h"

namespace tapwire::netdev {
namespace {

constexpr size_t kHeaderBytes = 14 + 20 + 20;

class StillClock : public Clock {
 public:
  Time Now() override { return Time(std::chrono::seconds(1)); }
};

class CountingSink : public PacketType {
 public:
  CountingSink() : PacketType(kAllTypes) {}
  void Receive(PacketPtr packet, NetDevice&) override { bytes += packet->length(); }
  uint64_t bytes = 0;
};

struct Bench {
  StillClock clock;
  SeededRandom random{1};
  NetContext context{{.clock = &clock, .random = &random}};
};

// Ethernet, IPv4 and TCP headers in the head, `payload` bytes behind them in slabs of
// 16 KiB (`linear`: in the head), the checksum left to the device.
PacketPtr TcpFrame(SlabPool& pool, size_t payload, bool linear) {
  PacketPtr packet = pool.AllocatePacket(kHeaderBytes + (linear ? payload : 0));
  uint8_t* const frame = packet->Put(kHeaderBytes).data();
  wire::EthernetFields{.ether_type = wire::EtherType::kIpv4}.Emit({frame, 14});
  const Ipv4Address source(10, 0, 0, 1), destination(10, 0, 0, 2);
  wire::Ipv4Fields{.total_length = static_cast<uint16_t>(40 + payload),
                   .dont_fragment = true,
                   .protocol = wire::IpProtocol::kTcp,
                   .source = source,
                   .destination = destination}
      .Emit({frame + 14, 20});
  wire::TcpFields{.src_port = 1, .dst_port = 2, .flags = wire::TcpFlags::kAck}.Emit(
      {frame + 34, 20});
  if (linear) {
    std::memset(packet->Put(payload).data(), 'x', payload);
  } else {
    for (size_t left = payload; left > 0;) {
      SlabRef slab = pool.AllocateSlab(SlabClass::kLarge);
      const size_t n = std::min(left, slab.capacity());
      std::memset(slab.data(), 'x', n);
      if (!packet->AddFrag(std::move(slab), 0, n)) return nullptr;
      left -= n;
    }
  }
  packet->Pull(34);
  SetPartialChecksum(
      *packet, {.source = source, .destination = destination, .protocol = wire::IpProtocol::kTcp},
      16);
  packet->Push(34);
  return packet;
}

// Allocation, transmit path, backlog, receive core, release.
void BM_VethFrame(benchmark::State& state) {
  Bench bench;
  auto pair = CreateVethPair(bench.context, {});
  CountingSink sink;
  pair->second->AddPacketType(sink);
  if (!pair->first->Up().ok() || !pair->second->Up().ok()) return;
  const auto batch = static_cast<int>(state.range(0));
  for (auto _ : state) {
    for (int i = 0; i < batch; ++i) {
      PacketPtr packet = bench.context.pool().AllocatePacket(64);
      std::memset(packet->Put(64).data(), 0, 64);
      benchmark::DoNotOptimize(TxPath::Transmit(std::move(packet), *pair->first));
    }
    bench.context.RunOnce();
  }
  state.SetItemsProcessed(state.iterations() * batch);
}
BENCHMARK(BM_VethFrame)->Arg(1)->Arg(32);

void BM_Segment(benchmark::State& state, FeatureSet features) {
  Bench bench;
  constexpr size_t kPayload = 65536 - kHeaderBytes - 1;
  PacketPtr packet = TcpFrame(bench.context.pool(), kPayload, false);
  packet->meta.gso = {.type = GsoType::kTcpv4, .size = 1448};
  for (auto _ : state) {
    SegmentResult result = SegmentPacket(bench.context.pool(), *packet, features);
    if (result.segments.empty()) state.SkipWithError("not segmented");
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kPayload));
}
BENCHMARK_CAPTURE(BM_Segment, SharedPartial, FeatureSet{Feature::kSg, Feature::kHwCsum});
BENCHMARK_CAPTURE(BM_Segment, SharedSummed, FeatureSet{Feature::kSg});
BENCHMARK_CAPTURE(BM_Segment, CopiedPartial, FeatureSet{Feature::kHwCsum});
BENCHMARK_CAPTURE(BM_Segment, CopiedSummed, FeatureSet{});

void BM_ChecksumHelp(benchmark::State& state) {
  Bench bench;
  const auto payload = static_cast<size_t>(state.range(0));
  PacketPtr packet = TcpFrame(bench.context.pool(), payload, payload < 1600);
  const PacketMeta meta = packet->meta;
  const uint16_t sum = LoadBe16(packet->data() + 50);
  for (auto _ : state) {
    packet->meta = meta;
    StoreBe16(packet->data() + 50, sum);
    benchmark::DoNotOptimize(ChecksumHelp(*packet));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(payload));
}
BENCHMARK(BM_ChecksumHelp)->Arg(64)->Arg(1448)->Arg(60000);

// A receive queue with one packet per round.
class OneByOne final : public PollContext {
 public:
  using PollContext::PollContext;
  int Poll(int /*budget*/) override {
    Deliver(std::move(next));
    return 1;
  }
  PacketPtr next;
};

// What GRO costs a flow that has nothing to merge: a segment of one byte in each round.
void BM_LoneSegment(benchmark::State& state, GroMode mode) {
  Bench bench;
  auto dummy = CreateDummy(bench.context, {});
  if (!dummy.ok() || !(*dummy)->Up().ok()) return state.SkipWithError("no device");
  NetDevice& device = **dummy;
  device.SetGroMode(mode);
  CountingSink sink;
  device.AddPacketType(sink);
  OneByOne queue(bench.context, device);
  for (auto _ : state) {
    queue.next = TcpFrame(bench.context.pool(), 1, true);
    queue.next->meta.csum_state = CsumState::kUnnecessary;
    queue.Schedule();
    bench.context.RunOnce();
  }
  if (sink.bytes == 0) state.SkipWithError("nothing arrived");
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(BM_LoneSegment, GroOff, GroMode::kOff);
BENCHMARK_CAPTURE(BM_LoneSegment, GroOn, GroMode::kOn);

}  // namespace
}  // namespace tapwire::netdev
