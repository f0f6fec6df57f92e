// SPDX-License-Identifier: Apache-2.0
//
// Cost of the header codecs: bytes per second of the two checksum loops, and time to parse and to
// emit each header. Parsing reads every field (From), as a tracer would; a stack reads fewer.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "netdev/wire/arp.h"
#include "netdev/wire/checksum.h"
#include "netdev/wire/ethernet.h"
#include "netdev/wire/icmpv4.h"
#include "netdev/wire/icmpv6.h"
#include "netdev/wire/igmp.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/ipv6.h"
#include "netdev/wire/ipv6_ext.h"
#include "netdev/wire/mld.h"
#include "netdev/wire/ndp.h"
#include "netdev/wire/pretty_print.h"
#include "netdev/wire/tcp.h"
#include "netdev/wire/udp.h"
#include "netdev/wire/vlan.h"

namespace tapwire::wire {
namespace {

void SetBytes(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * state.range(0));
}

std::vector<uint8_t> SomeBytes(benchmark::State& state) {
  std::vector<uint8_t> bytes(static_cast<size_t>(state.range(0)));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7);
  return bytes;
}

void BM_ChecksumScalar(benchmark::State& state) {
  const std::vector<uint8_t> bytes = SomeBytes(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(internal::SumScalar(bytes.data(), bytes.size()));
  }
  SetBytes(state);
}
BENCHMARK(BM_ChecksumScalar)->Arg(20)->Arg(64)->Arg(1460)->Arg(65536);

void BM_ChecksumAvx2(benchmark::State& state) {
  if (!internal::HasAvx2()) {
    state.SkipWithError("no AVX2 here");
    return;
  }
  const std::vector<uint8_t> bytes = SomeBytes(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(internal::SumAvx2(bytes.data(), bytes.size()));
  }
  SetBytes(state);
}
BENCHMARK(BM_ChecksumAvx2)->Arg(64)->Arg(1460)->Arg(65536);

// What a caller pays: run-time choice of the loop and the odd-piece bookkeeping.
void BM_InternetChecksum(benchmark::State& state) {
  const std::vector<uint8_t> bytes = SomeBytes(state);
  for (auto _ : state) {
    InternetChecksum sum;
    sum.Add(bytes);
    benchmark::DoNotOptimize(sum.Finish());
  }
  SetBytes(state);
}
BENCHMARK(BM_InternetChecksum)->Arg(20)->Arg(64)->Arg(256)->Arg(1460)->Arg(65536);

void BM_PseudoHeaderV4(benchmark::State& state) {
  const IpAddress src = Ipv4Address(10, 0, 0, 1);
  const IpAddress dst = Ipv4Address(10, 0, 0, 2);
  uint32_t length = 20;
  for (auto _ : state) {
    benchmark::DoNotOptimize(length);
    benchmark::DoNotOptimize(PseudoHeaderSum(src, dst, IpProtocol::kTcp, length));
  }
}
BENCHMARK(BM_PseudoHeaderV4);

void BM_PseudoHeaderV6(benchmark::State& state) {
  const IpAddress src = Ipv6Address::FromGroups({0x2001, 0xdb8, 0, 0, 0, 0, 0, 1});
  const IpAddress dst = Ipv6Address::FromGroups({0x2001, 0xdb8, 0, 0, 0, 0, 0, 2});
  uint32_t length = 20;
  for (auto _ : state) {
    benchmark::DoNotOptimize(length);
    benchmark::DoNotOptimize(PseudoHeaderSum(src, dst, IpProtocol::kTcp, length));
  }
}
BENCHMARK(BM_PseudoHeaderV6);

// Fields of each header with something in every variable part.
template <typename Fields>
Fields Sample() {
  return Fields{};
}
template <>
TcpFields Sample() {
  return {.flags = TcpFlags::kAck, .options = {.timestamps = TcpTimestamps{}}};
}
template <>
NeighborSolicitationFields Sample() {
  return {.target_address = Ipv6Address::kLoopback,
          .options = {.source_link_address = MacAddress(2, 0, 0, 0, 0, 1)}};
}
template <>
RouterAdvertisementFields Sample() {
  return {.options = {.mtu = 1500, .prefixes = {PrefixInformation{.prefix_length = 64}}}};
}
template <>
Mldv2ReportFields Sample() {
  return {.records = {Mldv2Record{}, Mldv2Record{}}};
}
template <>
Igmpv3ReportFields Sample() {
  return {.records = {Igmpv3Record{}, Igmpv3Record{}}};
}

template <typename Header, typename Fields>
std::vector<uint8_t> Emitted(const Fields& fields) {
  size_t size = Header::kMinLength;
  if constexpr (requires { fields.length(); }) size = fields.length();
  std::vector<uint8_t> bytes(size);
  fields.Emit(bytes);
  return bytes;
}

template <typename Header, typename Fields>
void BM_Parse(benchmark::State& state) {
  const std::vector<uint8_t> bytes = Emitted<Header>(Sample<Fields>());
  std::span<const uint8_t> input = bytes;
  for (auto _ : state) {
    benchmark::DoNotOptimize(input);
    const auto header = Header::Parse(input);
    Fields fields = Fields::From(*header);
    benchmark::DoNotOptimize(fields);
  }
}

template <typename Header, typename Fields>
void BM_Emit(benchmark::State& state) {
  Fields fields = Sample<Fields>();
  std::vector<uint8_t> bytes = Emitted<Header>(fields);
  for (auto _ : state) {
    benchmark::DoNotOptimize(fields);
    fields.Emit(bytes);
    benchmark::DoNotOptimize(bytes.data());
    benchmark::ClobberMemory();
  }
}

#define TAPWIRE_BENCH_CODEC(NAME)                           \
  BENCHMARK_TEMPLATE(BM_Parse, NAME##Header, NAME##Fields); \
  BENCHMARK_TEMPLATE(BM_Emit, NAME##Header, NAME##Fields)

TAPWIRE_BENCH_CODEC(Ethernet);
TAPWIRE_BENCH_CODEC(Vlan);
TAPWIRE_BENCH_CODEC(Arp);
TAPWIRE_BENCH_CODEC(Ipv4);
TAPWIRE_BENCH_CODEC(Ipv6);
TAPWIRE_BENCH_CODEC(Ipv6Fragment);
TAPWIRE_BENCH_CODEC(Icmpv4);
TAPWIRE_BENCH_CODEC(Icmpv6);
TAPWIRE_BENCH_CODEC(RouterAdvertisement);
TAPWIRE_BENCH_CODEC(NeighborSolicitation);
TAPWIRE_BENCH_CODEC(Mldv2Report);
TAPWIRE_BENCH_CODEC(Igmpv3Report);
TAPWIRE_BENCH_CODEC(Udp);
TAPWIRE_BENCH_CODEC(Tcp);

// What the receive path of a stack does to one TCP data segment: all checks, no copies of fields.
void BM_ReceiveHeaders(benchmark::State& state) {
  std::vector<uint8_t> frame(EthernetHeader::kLength + 20 + 32 + 1448);
  EthernetFields{.ether_type = EtherType::kIpv4}.Emit(frame);
  Ipv4Fields{.total_length = 1500, .protocol = IpProtocol::kTcp}.Emit(std::span(frame).subspan(14));
  Sample<TcpFields>().Emit(std::span(frame).subspan(34));
  std::span<const uint8_t> input = frame;
  for (auto _ : state) {
    benchmark::DoNotOptimize(input);
    const auto ethernet = EthernetHeader::Parse(input);
    const bool valid = ValidateIpv4Header(ethernet->payload()) == Ipv4HeaderError::kNone;
    const auto ip = Ipv4Header::Parse(ethernet->payload());
    const auto tcp = TcpHeader::Parse(ip->payload());
    benchmark::DoNotOptimize(valid && ip->HeaderChecksumOk());
    benchmark::DoNotOptimize(TcpOptions::Parse(tcp->options()));
    benchmark::DoNotOptimize(tcp->seq() + tcp->ack() + tcp->window());
  }
}
BENCHMARK(BM_ReceiveHeaders);

void BM_PrettyPrint(benchmark::State& state) {
  std::vector<uint8_t> frame(EthernetHeader::kLength + 20 + 32);
  EthernetFields{.ether_type = EtherType::kIpv4}.Emit(frame);
  Ipv4Fields{.total_length = 52, .protocol = IpProtocol::kTcp}.Emit(std::span(frame).subspan(14));
  Sample<TcpFields>().Emit(std::span(frame).subspan(34));
  for (auto _ : state) benchmark::DoNotOptimize(PrettyPrint(frame));
}
BENCHMARK(BM_PrettyPrint);

}  // namespace
}  // namespace tapwire::wire
