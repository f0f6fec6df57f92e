// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/seq.h"

#include <gtest/gtest.h>

namespace tapwire::tcp {
namespace {

// RFC 9293 §3.4: comparisons are modulo 2^32.
TEST(TcpSeqTest, ComparesModulo) {
  struct Case {
    uint32_t a;
    uint32_t b;
    int32_t difference;  // a - b
  };
  for (const Case& c : {Case{5, 3, 2}, Case{3, 5, -2}, Case{7, 7, 0}, Case{0, 0xffffffff, 1},
                        Case{0xfffffff0, 0x10, -0x20}, Case{0x80000000, 0x7fffffff, 1},
                        Case{0x7fffffff, 0, 0x7fffffff}}) {
    const Seq a(c.a);
    const Seq b(c.b);
    EXPECT_EQ(a - b, c.difference) << c.a << " " << c.b;
    EXPECT_EQ(a < b, c.difference < 0);
    EXPECT_EQ(a > b, c.difference > 0);
    EXPECT_EQ(a <= b, c.difference <= 0);
    EXPECT_EQ(a >= b, c.difference >= 0);
    EXPECT_EQ(Earlier(a, b), c.difference < 0 ? a : b);
    EXPECT_EQ(Later(a, b), c.difference < 0 ? b : a);
    EXPECT_EQ(Distance(b, a), c.difference > 0 ? static_cast<uint32_t>(c.difference) : 0U);
  }
}

TEST(TcpSeqTest, AddsAcrossTheWrap) {
  EXPECT_EQ((Seq(0xfffffffe) + 5).value(), 3U);
  EXPECT_EQ((Seq(3) - 5U).value(), 0xfffffffeU);
  Seq s(0xffffffff);
  s += 1;
  EXPECT_EQ(s, Seq(0));
}

TEST(TcpSeqTest, WindowMayCrossTheWrap) {
  struct Case {
    uint32_t seq;
    uint32_t start;
    uint32_t length;
    bool inside;
  };
  for (const Case& c :
       {Case{10, 10, 1, true}, Case{11, 10, 1, false}, Case{9, 10, 100, false},
        Case{10, 10, 0, false}, Case{2, 0xfffffffe, 5, true}, Case{3, 0xfffffffe, 5, false},
        Case{0xfffffffd, 0xfffffffe, 5, false}, Case{0xfffffffe, 0xfffffffe, 5, true}}) {
    EXPECT_EQ(InWindow(Seq(c.seq), Seq(c.start), c.length), c.inside) << c.seq << " " << c.start;
  }
}

}  // namespace
}  // namespace tapwire::tcp
