// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/tcp_options.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/netdev/wire/wire_test_util.h"

namespace tapwire::wire {
namespace {

// Parses from an exactly sized buffer, so that any read behind it is seen.
TcpOptions Parse(absl::string_view hex) {
  return TcpOptions::Parse(ExactBuffer{std::span<const uint8_t>(Hex(hex))}.span());
}

std::vector<uint8_t> Emit(const TcpOptions& options) {
  ExactBuffer out(options.length());
  options.Emit(out.span());
  return out.vector();
}

TEST(TcpOptionsTest, ParsesEveryKnownOption) {
  const TcpOptions options = Parse("020405b4 0402 080a0000000100000002 01 030307");
  EXPECT_EQ(options.mss, 1460);
  EXPECT_EQ(options.window_scale, 7);
  EXPECT_TRUE(options.sack_permitted);
  EXPECT_EQ(options.timestamps, (TcpTimestamps{.tsval = 1, .tsecr = 2}));
  EXPECT_TRUE(options.sacks().empty());
  EXPECT_FALSE(options.malformed);
}

// RFC 2018 §3: up to four blocks.
TEST(TcpOptionsTest, ParsesSackBlocks) {
  const TcpOptions options =
      Parse("0101 0522 00000001 00000002 00000003 00000004 fffffff0 00000005 00000006 00000007");
  ASSERT_EQ(options.sacks().size(), 4u);
  EXPECT_EQ(options.sacks()[0], (TcpSackBlock{.left_edge = 1, .right_edge = 2}));
  EXPECT_EQ(options.sacks()[2], (TcpSackBlock{.left_edge = 0xfffffff0, .right_edge = 5}));
  EXPECT_EQ(options.sacks()[3], (TcpSackBlock{.left_edge = 6, .right_edge = 7}));
}

// RFC 9293 MUST-6: unknown options are skipped by their length.
TEST(TcpOptionsTest, SkipsUnknownOptions) {
  const TcpOptions options = Parse("fd06 01020304 1302 020405b4");
  EXPECT_EQ(options.mss, 1460);
  EXPECT_FALSE(options.malformed);
}

TEST(TcpOptionsTest, EndOfListEndsParsing) {
  const TcpOptions options = Parse("020405b4 00 030307 ff");
  EXPECT_EQ(options.mss, 1460);
  EXPECT_FALSE(options.window_scale);
  EXPECT_FALSE(options.malformed);
}

TEST(TcpOptionsTest, LastOfRepeatedOptionsWins) {
  EXPECT_EQ(Parse("020405b4 02040200").mss, 512);
  const TcpOptions options = Parse("0512 0000000100000002 0000000300000004 050a 0000000500000006");
  ASSERT_EQ(options.sacks().size(), 1u);
  EXPECT_EQ(options.sacks()[0].left_edge, 5u);
}

// Values the RFCs forbid are handed up as they are; limits are the caller's (RFC 7323 §2.3).
TEST(TcpOptionsTest, OddValuesAreKept) {
  EXPECT_EQ(Parse("03030f").window_scale, 15);
  EXPECT_EQ(Parse("0303ff").window_scale, 255);
  EXPECT_EQ(Parse("02040000").mss, 0);
}

// RFC 9293 MUST-7: a length that is missing, below two, past the end, or wrong for its kind ends
// parsing; what stood before counts.
// Covers: bug:B53
TEST(TcpOptionsTest, MalformedOptionEndsParsing) {
  for (const char* bad : {
           "02",  // MSS kind as the last byte
           "08",
           "05",
           "fd",  // others likewise
           "0200 05b4",
           "fd00",
           "0500",  // length 0
           "0201 05b4",
           "fd01",  // length 1
           "0205 05b4",
           "fd05 00",
           "fdff",  // past the end
           "0203 05",
           "0206 05b4 0000",  // wrong length for the kind
           "0302",
           "0304 0707",  //
           "0403 00",    //
           "0503 00",
           "0502",
           "0509 00000000000000",      // SACK of length 3, empty, and cut
           "050b 000000000000000000",  // not 8n + 2
           "0809 00000000000000",      // time stamp of length 9
           "080b 000000000000000000",  //
       }) {
    const TcpOptions options = Parse(std::string("0303 07") + bad);
    EXPECT_TRUE(options.malformed) << bad;
    EXPECT_EQ(options.window_scale, 7) << bad;
    EXPECT_FALSE(options.mss) << bad;
    EXPECT_FALSE(options.timestamps) << bad;
    EXPECT_TRUE(options.sacks().empty()) << bad;
    EXPECT_FALSE(options.sack_permitted) << bad;
  }
}

// Covers: bug:B53
TEST(TcpOptionsTest, NothingBehindAMalformedOptionIsRead) {
  const TcpOptions options = Parse("0501 020405b4");
  EXPECT_TRUE(options.malformed);
  EXPECT_FALSE(options.mss);
}

// Covers: bug:B53
TEST(TcpOptionsTest, FortyNoOperationsAreFine) {
  const TcpOptions options = TcpOptions::Parse(std::vector<uint8_t>(40, 1));
  EXPECT_EQ(options, TcpOptions{});
  EXPECT_FALSE(options.malformed);
}

TEST(TcpOptionsTest, EmptyOptionsTakeNoBytes) {
  EXPECT_EQ(TcpOptions{}.length(), 0u);
  EXPECT_EQ(Parse(""), TcpOptions{});
}

// The orders below were read from captures of a Linux kernel.
TEST(TcpOptionsTest, EmitsInTheOrderOfLinux) {
  EXPECT_EQ(Emit({.mss = 1460}), Hex("020405b4"));
  EXPECT_EQ(Emit({.mss = 1460, .window_scale = 7, .sack_permitted = true}),
            Hex("020405b4 01010402 01030307"));
  EXPECT_EQ(Emit({.mss = 1460,
                  .window_scale = 10,
                  .sack_permitted = true,
                  .timestamps = TcpTimestamps{.tsval = 1, .tsecr = 0}}),
            Hex("020405b4 0402080a 00000001 00000000 0103030a"));
  EXPECT_EQ(Emit({.timestamps = TcpTimestamps{.tsval = 1, .tsecr = 2}}),
            Hex("0101080a 00000001 00000002"));
  TcpOptions sack{.timestamps = TcpTimestamps{.tsval = 1, .tsecr = 2}};
  sack.AddSackBlock({.left_edge = 3000, .right_edge = 4000});
  sack.AddSackBlock({.left_edge = 5000, .right_edge = 6000});
  EXPECT_EQ(Emit(sack), Hex("0101080a 00000001 00000002 01010512 00000bb8 00000fa0"
                            "00001388 00001770"));
}

// RFC 2018 §3: three blocks fit beside timestamps, four without.
TEST(TcpOptionsTest, SackBlocksThatDoNotFitAreLeftOut) {
  TcpOptions options;
  for (uint32_t i = 0; i < 6; ++i) options.AddSackBlock({.left_edge = i, .right_edge = i + 1});
  EXPECT_EQ(options.sacks().size(), 4u);
  EXPECT_EQ(options.MaxSackBlocks(), 4u);
  EXPECT_EQ(options.length(), 36u);
  options.timestamps = TcpTimestamps{};
  EXPECT_EQ(options.MaxSackBlocks(), 3u);
  EXPECT_EQ(options.length(), 40u);
  EXPECT_EQ(TcpOptions::Parse(Emit(options)).sacks().size(), 3u);
  options.mss = 1460;
  options.window_scale = 7;
  EXPECT_EQ(options.MaxSackBlocks(), 2u);
  EXPECT_EQ(options.length(), 40u);
  EXPECT_EQ(TcpOptions::Parse(Emit(options)).sacks().size(), 2u);
}

// All combinations fit in 40 bytes, are aligned, and read back.
TEST(TcpOptionsTest, EveryCombinationReadsBack) {
  for (unsigned bits = 0; bits < 16; ++bits) {
    for (size_t blocks = 0; blocks <= 4; ++blocks) {
      TcpOptions options;
      if ((bits & 1) != 0) options.mss = 1400;
      if ((bits & 2) != 0) options.window_scale = 14;
      options.sack_permitted = (bits & 4) != 0;
      if ((bits & 8) != 0) options.timestamps = TcpTimestamps{.tsval = 0xfffffffe, .tsecr = 9};
      for (size_t i = 0; i < std::min(blocks, options.MaxSackBlocks()); ++i) {
        options.AddSackBlock({.left_edge = static_cast<uint32_t>(i), .right_edge = 100});
      }
      EXPECT_LE(options.length(), TcpOptions::kMaxLength);
      EXPECT_EQ(options.length() % 4, 0u);
      EXPECT_EQ(TcpOptions::Parse(Emit(options)), options) << bits << " " << blocks;
    }
  }
}

}  // namespace
}  // namespace tapwire::wire
