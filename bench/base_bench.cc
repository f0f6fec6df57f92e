// SPDX-License-Identifier: Apache-2.0
//
// Cost of the primitives that every packet pays for: timers, packets, the flow hash. Targets: a
// timer operation 30 ns, a packet 20 ns from allocation to free.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "netdev/base/seeded_random.h"
#include "netdev/base/siphash.h"
#include "netdev/base/timer_queue.h"
#include "netdev/packet/buffer_chain.h"
#include "netdev/packet/packet.h"

namespace tapwire {
namespace {

class IdleTimer : public Timer {
 private:
  void OnExpired() override {}
};

// A queue with `count` armed timers up to two seconds ahead, and random deadlines to use.
struct TimerLoad {
  explicit TimerLoad(size_t count) : timers(count), deadlines(4096) {
    SeededRandom random(1);
    queue.RunExpired(now);
    for (Duration& deadline : deadlines) {
      deadline = std::chrono::microseconds(1 + random.Uniform(2000000));
    }
    for (size_t i = 0; i < count; ++i) {
      queue.Arm(timers[i], now + deadlines[i % deadlines.size()]);
    }
  }

  Time now = Time(std::chrono::hours(24));
  std::vector<IdleTimer> timers;
  std::vector<Duration> deadlines;
  TimerQueue queue;
};

void BM_TimerArmCancel(benchmark::State& state) {
  TimerLoad load(static_cast<size_t>(state.range(0)));
  IdleTimer timer;
  size_t i = 0;
  for (auto _ : state) {
    load.queue.Arm(timer, load.now + load.deadlines[i++ % 4096]);
    load.queue.Cancel(timer);
  }
}
BENCHMARK(BM_TimerArmCancel)->Arg(1)->Arg(1000)->Arg(100000);

void BM_TimerRearm(benchmark::State& state) {
  TimerLoad load(static_cast<size_t>(state.range(0)));
  size_t i = 0;
  for (auto _ : state) {
    load.queue.Arm(load.timers[i % load.timers.size()], load.now + load.deadlines[i % 4096]);
    ++i;
  }
}
BENCHMARK(BM_TimerRearm)->Arg(1)->Arg(1000)->Arg(100000);

// Re-arms itself when it fires.
class PeriodicTimer : public Timer {
 public:
  TimerLoad* load = nullptr;
  size_t* next = nullptr;

 private:
  void OnExpired() override {
    load->queue.Arm(*this, load->now + load->deadlines[(*next)++ % load->deadlines.size()]);
  }
};

// Everything a timer costs in its life: armed up to two seconds ahead, moved down, fired, and the
// host asking for the next deadline every 100 µs. Items are timers.
void BM_TimerArmFire(benchmark::State& state) {
  TimerLoad load(0);
  size_t next = 0;
  std::vector<PeriodicTimer> timers(static_cast<size_t>(state.range(0)));
  for (PeriodicTimer& timer : timers) {
    timer.load = &load;
    timer.next = &next;
    load.queue.Arm(timer, load.now + load.deadlines[next++ % load.deadlines.size()]);
  }
  int64_t fired = 0;
  for (auto _ : state) {
    load.now += std::chrono::microseconds(100);
    fired += load.queue.RunExpired(load.now);
    benchmark::DoNotOptimize(load.queue.next_deadline());
  }
  state.SetItemsProcessed(fired);
}
BENCHMARK(BM_TimerArmFire)->Arg(1000)->Arg(100000)->Arg(1000000);

// Arm and fire 64 timers within 100 µs, in the order of their deadlines or at random (then each
// tick has to be sorted).
void BM_TimerArmFireNear(benchmark::State& state) {
  TimerLoad load(64);
  std::vector<Duration> near;
  for (size_t i = 0; i < load.timers.size(); ++i) {
    near.push_back(load.deadlines[i] / 20000);
  }
  if (state.range(0) == 0) {
    std::sort(near.begin(), near.end());
  }
  for (auto _ : state) {
    for (size_t i = 0; i < load.timers.size(); ++i) {
      load.queue.Arm(load.timers[i], load.now + near[i]);
    }
    load.now += std::chrono::microseconds(100);
    load.queue.RunExpired(load.now);
  }
  state.SetItemsProcessed(state.iterations() * 64);
}
BENCHMARK(BM_TimerArmFireNear)->Arg(0)->Arg(1);

void BM_NextDeadline(benchmark::State& state) {
  TimerLoad load(1000);
  for (auto _ : state) {
    benchmark::DoNotOptimize(load.queue.next_deadline());
  }
}
BENCHMARK(BM_NextDeadline);

void BM_PacketAllocateFree(benchmark::State& state) {
  SlabPool pool;
  for (auto _ : state) {
    PacketPtr packet = pool.AllocatePacket(1500);
    benchmark::DoNotOptimize(packet.get());
  }
}
BENCHMARK(BM_PacketAllocateFree);

// 64 packets alive, as in a batch.
void BM_PacketBatch(benchmark::State& state) {
  SlabPool pool;
  std::array<PacketPtr, 64> packets;
  for (auto _ : state) {
    for (PacketPtr& packet : packets) {
      packet = pool.AllocatePacket(1500);
    }
    for (PacketPtr& packet : packets) {
      packet.reset();
    }
  }
  state.SetItemsProcessed(state.iterations() * 64);
}
BENCHMARK(BM_PacketBatch);

// A segment as TCP sends it: headers, one fragment of the send buffer, freed.
void BM_PacketHeadersAndFrag(benchmark::State& state) {
  SlabPool pool;
  SlabRef data = pool.AllocateSlab(SlabClass::kLarge);
  for (auto _ : state) {
    PacketPtr packet = pool.AllocatePacket(0);
    benchmark::DoNotOptimize(packet->AddFrag(data, 0, 1448));
    packet->Push(32);
    packet->set_l4_here();
    packet->Push(20);
    packet->set_l3_here();
    packet->Push(14);
    packet->set_l2_here();
    benchmark::DoNotOptimize(packet.get());
  }
}
BENCHMARK(BM_PacketHeadersAndFrag);

void BM_PacketClone(benchmark::State& state) {
  SlabPool pool;
  PacketPtr packet = pool.AllocatePacket(100);
  packet->Put(66);
  SlabRef data = pool.AllocateSlab(SlabClass::kLarge);
  if (!packet->AddFrag(std::move(data), 0, 1448)) {
    state.SkipWithError("no memory");
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(packet->Clone());
  }
}
BENCHMARK(BM_PacketClone);

void BM_ChainWriteConsume(benchmark::State& state) {
  SlabPool pool;
  const std::vector<uint8_t> bytes(static_cast<size_t>(state.range(0)), 1);
  BufferChain chain;
  for (auto _ : state) {
    benchmark::DoNotOptimize(chain.AppendCopy(pool, bytes));
    chain.Consume(bytes.size());
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_ChainWriteConsume)->Arg(64)->Arg(1448)->Arg(65536);

template <uint64_t (*kHash)(const SipKey&, std::span<const uint8_t>)>
void BM_SipHash36(benchmark::State& state) {
  const SipKey key{1, 2};
  std::array<uint8_t, 36> flow{};
  for (auto _ : state) {
    benchmark::DoNotOptimize(flow);
    benchmark::DoNotOptimize(kHash(key, flow));
  }
}
BENCHMARK_TEMPLATE(BM_SipHash36, SipHash13);
BENCHMARK_TEMPLATE(BM_SipHash36, SipHash24);

void BM_RandomNext32(benchmark::State& state) {
  SeededRandom random(1);
  for (auto _ : state) {
    benchmark::DoNotOptimize(random.Next32());
  }
}
BENCHMARK(BM_RandomNext32);

}  // namespace
}  // namespace tapwire
