// SPDX-License-Identifier: Apache-2.0
//
// Sums run over native 64-bit words: RFC 1071 §2(A-C) shows that one's complement sums may be taken
// in any order, in any byte order (the result is then swapped) and in wider words, folded at the
// end. The high and the low 32-bit halves of the words have a 64-bit sum each, so no carry passes
// from word to word. The low sum is not taken itself: it is the sum of whole words modulo 2^64 less
// the high sum shifted up, which spares one operation per word and is exact below 2^32 words.
#include "netdev/wire/checksum.h"

#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tapwire::wire {
namespace {

uint64_t LoadNative64(const uint8_t* p) {
  uint64_t v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

// Folds to less than 2^33, so that a few such sums can be added.
uint64_t FoldCarry(uint64_t sum) { return (sum & 0xffffffff) + (sum >> 32); }

// Folds to 16 bits with end-around carry.
uint16_t FoldSum(uint64_t sum) {
  sum = FoldCarry(FoldCarry(sum));
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

uint16_t NativeToBe(uint16_t v) {
  if constexpr (std::endian::native == std::endian::little)
    v = static_cast<uint16_t>(v << 8 | v >> 8);
  return v;
}

// The sum of the last bytes of a message, fewer than eight, as if zeros followed. An odd last byte
// is the first, most significant one of its 16-bit word on the wire (RFC 1071 §4.1).
uint64_t SumTail(const uint8_t* data, size_t size) {
  uint64_t sum = 0;
  if ((size & 4) != 0) {
    uint32_t v;
    std::memcpy(&v, data, sizeof(v));
    sum += v;
    data += 4;
  }
  if ((size & 2) != 0) {
    uint16_t v;
    std::memcpy(&v, data, sizeof(v));
    sum += v;
    data += 2;
  }
  if ((size & 1) != 0) {
    uint16_t v = 0;
    std::memcpy(&v, data, 1);
    sum += v;
  }
  return sum;
}

#if defined(__x86_64__)
// The exact sum of the four lanes, which must each be below 2^62.
__attribute__((target("avx2"))) uint64_t SumLanes(__m256i v) {
  const __m128i pair = _mm_add_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  return static_cast<uint64_t>(_mm_extract_epi64(pair, 0)) +
         static_cast<uint64_t>(_mm_extract_epi64(pair, 1));
}
#endif

}  // namespace

namespace internal {

uint16_t SumScalar(const uint8_t* data, size_t size) {
  uint64_t all = 0;   // of whole words, modulo 2^64
  uint64_t high = 0;  // of the high halves, exact
  for (; size >= 32; data += 32, size -= 32) {
    const uint64_t a = LoadNative64(data);
    const uint64_t b = LoadNative64(data + 8);
    const uint64_t c = LoadNative64(data + 16);
    const uint64_t d = LoadNative64(data + 24);
    all += (a + b) + (c + d);
    high += ((a >> 32) + (b >> 32)) + ((c >> 32) + (d >> 32));
  }
  for (; size >= 8; data += 8, size -= 8) {
    const uint64_t a = LoadNative64(data);
    all += a;
    high += a >> 32;
  }
  const uint64_t low = all - (high << 32);
  return NativeToBe(FoldSum(FoldCarry(low) + FoldCarry(high) + SumTail(data, size)));
}

#if defined(__x86_64__)

bool HasAvx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") != 0;
}

__attribute__((target("avx2"))) uint16_t SumAvx2(const uint8_t* data, size_t size) {
  __m256i all0 = _mm256_setzero_si256();
  __m256i all1 = _mm256_setzero_si256();
  __m256i high0 = _mm256_setzero_si256();
  __m256i high1 = _mm256_setzero_si256();
  for (; size >= 64; data += 64, size -= 64) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + 32));
    all0 = _mm256_add_epi64(all0, a);
    all1 = _mm256_add_epi64(all1, b);
    high0 = _mm256_add_epi64(high0, _mm256_srli_epi64(a, 32));
    high1 = _mm256_add_epi64(high1, _mm256_srli_epi64(b, 32));
  }
  const __m256i high = _mm256_add_epi64(high0, high1);
  const __m256i low = _mm256_sub_epi64(_mm256_add_epi64(all0, all1), _mm256_slli_epi64(high, 32));
  uint64_t sum = SumLanes(_mm256_add_epi64(low, high));
  // The compiler leaves the upper halves dirty here, and the SSE code that follows would pay for it
  // (four times the time at 1,448 bytes).
  _mm256_zeroupper();
  for (; size >= 8; data += 8, size -= 8) {
    const uint64_t a = LoadNative64(data);
    sum += (a & 0xffffffff) + (a >> 32);
  }
  return NativeToBe(FoldSum(sum + SumTail(data, size)));
}

#else

bool HasAvx2() { return false; }
uint16_t SumAvx2(const uint8_t* data, size_t size) { return SumScalar(data, size); }

#endif

}  // namespace internal

namespace {

// Shorter pieces (headers) do not gain from wide registers.
constexpr size_t kAvx2Threshold = 128;

// Read before its initialisation (from another file's static constructor) it is false, which only
// chooses the slower loop.
const bool kUseAvx2 = internal::HasAvx2();

uint16_t Sum(std::span<const uint8_t> bytes) {
  if (kUseAvx2 && bytes.size() >= kAvx2Threshold) {
    return internal::SumAvx2(bytes.data(), bytes.size());
  }
  return internal::SumScalar(bytes.data(), bytes.size());
}

// Sum of the words of a value that is even in length and begins at an even place.
uint32_t WordSum(uint32_t v) { return (v >> 16) + (v & 0xffff); }

}  // namespace

void InternetChecksum::Add(std::span<const uint8_t> piece) {
  if (piece.empty()) return;
  AddBe16(Sum(piece));
  odd_ ^= (piece.size() & 1) != 0;
}

void InternetChecksum::AddPseudoHeader(const IpAddress& src, const IpAddress& dst, uint8_t protocol,
                                       uint32_t length) {
  AddBe16(PseudoHeaderSum(src, dst, protocol, length));
}

uint16_t InternetChecksum::Fold() const { return FoldSum(sum_); }

uint16_t ChecksumOf(std::span<const uint8_t> message) {
  return static_cast<uint16_t>(~Sum(message));
}

uint16_t PseudoHeaderSum(Ipv4Address src, Ipv4Address dst, uint8_t protocol, uint32_t length) {
  // RFC 9293 §3.1: addresses, a zero byte, the protocol and a 16-bit length. A longer one (of a
  // packet yet to be segmented) adds up the same way as IPv6's 32-bit length.
  return FoldSum(uint64_t{WordSum(src.value())} + WordSum(dst.value()) + protocol +
                 WordSum(length));
}

uint16_t PseudoHeaderSum(const Ipv6Address& src, const Ipv6Address& dst, uint8_t protocol,
                         uint32_t length) {
  uint64_t sum = uint64_t{WordSum(length)} + protocol;
  for (size_t i = 0; i < Ipv6Address::kLength; i += 4) {
    sum += WordSum(LoadBe32(src.bytes().data() + i));
    sum += WordSum(LoadBe32(dst.bytes().data() + i));
  }
  return FoldSum(sum);
}

uint16_t PseudoHeaderSum(const IpAddress& src, const IpAddress& dst, uint8_t protocol,
                         uint32_t length) {
  if (src.is_v4()) return PseudoHeaderSum(src.v4(), dst.v4(), protocol, length);
  return PseudoHeaderSum(src.v6(), dst.v6(), protocol, length);
}

uint16_t TransportChecksum(const IpAddress& src, const IpAddress& dst, uint8_t protocol,
                           std::span<const uint8_t> message) {
  InternetChecksum sum(PseudoHeaderSum(src, dst, protocol, static_cast<uint32_t>(message.size())));
  sum.Add(message);
  return sum.Finish();
}

uint16_t UpdateChecksum16(uint16_t old_checksum, uint16_t old_field, uint16_t new_field) {
  // HC' = ~(~HC + ~m + m'). Unlike RFC 1141's form it never turns a sum into the wrong zero.
  const uint64_t sum = uint64_t{static_cast<uint16_t>(~old_checksum)} +
                       static_cast<uint16_t>(~old_field) + new_field;
  return static_cast<uint16_t>(~FoldSum(sum));
}

uint16_t UpdateChecksum32(uint16_t old_checksum, uint32_t old_field, uint32_t new_field) {
  const uint64_t sum =
      uint64_t{static_cast<uint16_t>(~old_checksum)} + WordSum(~old_field) + WordSum(new_field);
  return static_cast<uint16_t>(~FoldSum(sum));
}

}  // namespace tapwire::wire
