// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/checksum.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "netdev/base/byteorder.h"
#include "tests/netdev/wire/wire_test_util.h"

namespace tapwire::wire {
namespace {

// RFC 1071 §3: the example's bytes and its sum "ddf2".
TEST(ChecksumTest, Rfc1071Example) {
  const std::vector<uint8_t> bytes = Hex("0001 f203 f4f5 f6f7");
  InternetChecksum sum;
  sum.Add(bytes);
  EXPECT_EQ(sum.Fold(), 0xddf2);
  EXPECT_EQ(ChecksumOf(bytes), 0x220d);
}

// A header whose checksum is widely published.
TEST(ChecksumTest, KnownIpv4Header) {
  EXPECT_EQ(ChecksumOf(Hex("4500 0073 0000 4000 4011 0000 c0a8 0001 c0a8 00c7")), 0xb861);
  EXPECT_EQ(ChecksumOf(Hex("4500 0073 0000 4000 4011 b861 c0a8 0001 c0a8 00c7")), 0);
}

TEST(ChecksumTest, NothingSumsToZero) {
  EXPECT_EQ(InternetChecksum().Fold(), 0);
  EXPECT_EQ(ChecksumOf({}), 0xffff);
  EXPECT_EQ(ChecksumOf(Hex("0000 0000")), 0xffff);
  EXPECT_EQ(ChecksumOf(Hex("ffff")), 0);
}

// Covers: bug:B85
TEST(ChecksumTest, BothLoopsEqualTheNaiveSumAtEveryLengthAndAlignment) {
  std::mt19937 random(1);
  const std::vector<uint8_t> data = RandomBytes(random, 300);
  for (size_t start = 0; start < 32; ++start) {
    for (size_t size = 0; size <= 200; ++size) {
      const std::span<const uint8_t> piece = std::span(data).subspan(start, size);
      const uint16_t expected = NaiveSum(piece);
      ASSERT_EQ(internal::SumScalar(piece.data(), size), expected) << start << " " << size;
      if (internal::HasAvx2()) {
        ASSERT_EQ(internal::SumAvx2(piece.data(), size), expected) << start << " " << size;
      }
      ASSERT_EQ(static_cast<uint16_t>(~ChecksumOf(piece)), expected);
    }
  }
}

// Covers: bug:B85
TEST(ChecksumTest, PiecesOfAnyLengthEqualTheWhole) {
  std::mt19937 random(2);
  const std::vector<uint8_t> data = RandomBytes(random, 200);
  for (size_t size = 1; size <= 200; ++size) {
    for (int round = 0; round < 32; ++round) {
      const std::span<const uint8_t> whole = std::span(data).first(size);
      InternetChecksum sum;
      for (size_t pos = 0; pos < size;) {
        const size_t n = std::min<size_t>(random() % 9, size - pos);  // zero bytes too
        sum.Add(whole.subspan(pos, n));
        pos += n;
      }
      ASSERT_EQ(sum.Fold(), NaiveSum(whole)) << size;
    }
  }
}

TEST(ChecksumTest, EveryPairOfCutsEqualsTheWhole) {
  std::mt19937 random(3);
  const std::vector<uint8_t> data = RandomBytes(random, 41);
  for (size_t a = 0; a <= data.size(); ++a) {
    for (size_t b = a; b <= data.size(); ++b) {
      InternetChecksum sum;
      sum.Add(std::span(data).first(a));
      sum.Add(std::span(data).subspan(a, b - a));
      sum.Add(std::span(data).subspan(b));
      ASSERT_EQ(sum.Fold(), NaiveSum(data)) << a << " " << b;
    }
  }
}

TEST(ChecksumTest, NothingOutsideTheSpanIsRead) {
  for (size_t size = 0; size <= 260; ++size) {
    const ExactBuffer buffer(size);
    EXPECT_EQ(internal::SumScalar(buffer.span().data(), size), 0);
    if (internal::HasAvx2()) {
      EXPECT_EQ(internal::SumAvx2(buffer.span().data(), size), 0);
    }
  }
}

// All bits set, so that every carry happens, up to the largest datagram and beyond.
TEST(ChecksumTest, CarriesAreNotLost) {
  std::vector<uint8_t> ones(1 << 20, 0xff);
  for (const size_t size : {31u, 1459u, 1460u, 65534u, 65535u, 1048575u, 1048576u}) {
    const std::span<const uint8_t> piece = std::span(ones).first(size);
    const uint16_t expected = NaiveSum(piece);
    EXPECT_EQ(internal::SumScalar(piece.data(), size), expected);
    if (internal::HasAvx2()) {
      EXPECT_EQ(internal::SumAvx2(piece.data(), size), expected);
    }
  }
}

TEST(ChecksumTest, FieldsCountAsTheirBytes) {
  InternetChecksum fields;
  fields.AddBe16(0x1234);
  fields.AddBe32(0x56789abc);
  EXPECT_EQ(fields.Fold(), NaiveSum(Hex("1234 5678 9abc")));

  // Behind an odd number of bytes a field's own bytes are swapped.
  InternetChecksum odd;
  odd.Add(Hex("aa"));
  odd.AddBe16(0x1234);
  odd.AddBe32(0x56789abc);
  odd.Add(Hex("bb"));
  EXPECT_EQ(odd.Fold(), NaiveSum(Hex("aa1234 56789abc bb")));
}

TEST(ChecksumTest, GoesOnFromASum) {
  InternetChecksum sum(0xfff0);
  sum.Add(Hex("0020"));
  EXPECT_EQ(sum.Fold(), 0x0011);
  EXPECT_EQ(sum.Finish(), 0xffee);
}

// RFC 9293 §3.1 and RFC 768: the pseudo-header written out by hand.
TEST(ChecksumTest, Ipv4PseudoHeader) {
  const Ipv4Address src(10, 77, 0, 1);
  const Ipv4Address dst(10, 77, 0, 2);
  const uint16_t expected = NaiveSum(Hex("0a4d0001 0a4d0002 00 06 0028"));
  EXPECT_EQ(PseudoHeaderSum(src, dst, 6, 40), expected);
  EXPECT_EQ(PseudoHeaderSum(IpAddress(src), IpAddress(dst), 6, 40), expected);
  InternetChecksum sum;
  sum.AddPseudoHeader(src, dst, 6, 40);
  EXPECT_EQ(sum.Fold(), expected);
}

// RFC 8200 §8.1.
TEST(ChecksumTest, Ipv6PseudoHeader) {
  const Ipv6Address src = V6("2001:db8::1");
  const Ipv6Address dst = V6("fe80::fffe:2");
  const uint16_t expected =
      NaiveSum(Hex("20010db8000000000000000000000001 fe8000000000000000000000fffe0002"
                   "00012345 000000 11"));
  EXPECT_EQ(PseudoHeaderSum(src, dst, 17, 0x12345), expected);
  EXPECT_EQ(PseudoHeaderSum(IpAddress(src), IpAddress(dst), 17, 0x12345), expected);
}

// A captured-format TCP segment (10.77.0.1 to 10.77.0.2) and a UDP one over IPv6, whose checksums
// tcpdump -v calls correct.
TEST(ChecksumTest, TransportChecksumsVerify) {
  EXPECT_EQ(TransportChecksum(Ipv4Address(10, 77, 0, 1), Ipv4Address(10, 77, 0, 2), 6,
                              Hex("b5f40051000003e8000007d0801801f65a4b0000"
                                  "0101080a000000010000000268656c6c6f")),
            0);
  EXPECT_EQ(
      TransportChecksum(V6("2001:db8::1"), V6("2001:db8::2"), 17, Hex("0fa00007000ccff361626364")),
      0);
  EXPECT_NE(
      TransportChecksum(V6("2001:db8::1"), V6("2001:db8::3"), 17, Hex("0fa00007000ccff361626364")),
      0);
}

// RFC 1624 §4: the example that RFC 1141's equation gets wrong.
TEST(ChecksumTest, Rfc1624Example) { EXPECT_EQ(UpdateChecksum16(0xdd2f, 0x5555, 0x3285), 0x0000); }

TEST(ChecksumTest, UpdatesEqualRecomputation) {
  std::mt19937 random(4);
  for (int i = 0; i < 5000; ++i) {
    std::vector<uint8_t> data = RandomBytes(random, 24);
    const uint16_t before = ChecksumOf(data);
    const uint16_t old16 = LoadBe16(&data[6]);
    const auto new16 = static_cast<uint16_t>(random());
    StoreBe16(&data[6], new16);
    const uint16_t middle = UpdateChecksum16(before, old16, new16);
    ASSERT_EQ(middle, ChecksumOf(data));
    const uint32_t old32 = LoadBe32(&data[12]);
    const auto new32 = static_cast<uint32_t>(random());
    StoreBe32(&data[12], new32);
    ASSERT_EQ(UpdateChecksum32(middle, old32, new32), ChecksumOf(data));
  }
}

}  // namespace
}  // namespace tapwire::wire
