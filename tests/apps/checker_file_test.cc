// SPDX-License-Identifier: Apache-2.0
// The checker on files, and its verdicts beside those of tshark.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "apps/capture/pcap_reader.h"
#include "tests/apps/checker_util.h"
#include "tests/testutil/tshark.h"

namespace tapwire::capture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testutil::Hex;
using testutil::Pattern;
using testutil::TempFile;

// A classic pcap file (microseconds, little-endian), written by hand.
void WritePcap(const std::string& path, const std::vector<ByteVector>& frames,
               uint32_t link_type = 1, uint32_t snap_length = 65535) {
  ByteVector bytes = Hex("d4c3b2a1 0200 0400 00000000 00000000");
  const auto put32 = [&bytes](size_t value) {
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<uint8_t>(value >> shift));
  };
  put32(snap_length);
  put32(link_type);
  uint32_t second = 1'700'000'000;
  for (const ByteVector& frame : frames) {
    const size_t captured = std::min<size_t>(frame.size(), snap_length);
    put32(second++);
    put32(0);
    put32(captured);
    put32(frame.size());
    bytes.insert(bytes.end(), frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(captured));
  }
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

std::set<uint64_t> FramesWithErrors(const CheckReport& report) {
  std::set<uint64_t> frames;
  for (const Finding& finding : report.findings) {
    if (finding.severity == Severity::kError) frames.insert(finding.frame);
  }
  return frames;
}

TEST(CheckFileTest, FindingsNameTheFrame) {
  TempFile file(".pcap");
  WritePcap(file.path(),
            {Udp4().Build(), Ip4({.ttl = 0}).Udp({.destination_port = 9}).Build(), Udp6().Build()});
  const auto report = CheckFile(file.path());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->frames, 3u);
  EXPECT_THAT(report->ToString(), HasSubstr("frame 2: error: ttl: TTL is 0\n"));
  EXPECT_FALSE(report->clean());
}

TEST(CheckFileTest, SnappedFramesAreNotedNotJudged) {
  TempFile file(".pcap");
  WritePcap(file.path(),
            {Udp4().Payload(Pattern(500)).Build(), Tcp4({}).Payload(Pattern(500)).Build()}, 1, 80);
  const auto report = CheckFile(file.path());
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->clean());
  EXPECT_EQ(report->snapped, 2u);
}

TEST(CheckFileTest, RawIpIsRead) {
  TempFile file(".pcap");
  const ByteVector good =
      Build().Ipv4({.source = kA, .destination = kB}).Udp({.destination_port = 9}).Build();
  const ByteVector bad = Build()
                             .Ipv6({.source = kA6, .destination = kB6, .hop_limit = 0})
                             .Udp({.destination_port = 9})
                             .Build();
  WritePcap(file.path(), {good, bad}, 101);
  const auto report = CheckFile(file.path());
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(FramesWithErrors(*report), std::set<uint64_t>{2});
}

TEST(CheckFileTest, MtuIsJudgedOnlyIfGiven) {
  TempFile file(".pcap");
  WritePcap(file.path(), {Tcp4({}).Payload(Pattern(2000)).Build()});
  EXPECT_TRUE(CheckFile(file.path())->clean());
  EXPECT_EQ(CheckFile(file.path(), {.mtu = 1500})->count(Rule::kMtu), 1u);
}

TEST(CheckFileTest, UnreadableFilesAreNamed) {
  const auto missing = CheckFile("/nonexistent/x.pcap");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/nonexistent/x.pcap"));
  TempFile file(".pcap");
  EXPECT_FALSE(CheckFile(file.path()).ok());  // empty
  std::ofstream(file.path()) << "this is no capture at all, only text";
  EXPECT_FALSE(CheckFile(file.path()).ok());
  WritePcap(file.path(), {}, 105);  // 802.11
  const auto link = CheckFile(file.path());
  ASSERT_FALSE(link.ok());
  EXPECT_THAT(std::string(link.status().message()), HasSubstr("IEEE802_11"));
}

TEST(CheckFileTest, FileThatBreaksOffIsJudgedAsFarAsItGoes) {
  TempFile file(".pcap");
  WritePcap(file.path(), {Ip4({.ttl = 0}).Udp({.destination_port = 9}).Build(), Udp4().Build()});
  const ByteVector bytes = file.Read();
  std::ofstream(file.path(), std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size() - 10));
  const auto report = CheckFile(file.path());
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(FramesWithErrors(*report), std::set<uint64_t>{1});
  EXPECT_THAT(report->incomplete, HasSubstr("breaks off after frame 1"));
}

class CheckerOracleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testutil::HaveTshark()) GTEST_SKIP() << "no tshark: install the package tshark";
  }
  // Frames in which tshark's display filter and our rules find fault.
  void ExpectSameVerdict(const std::vector<ByteVector>& frames, const std::string& filter) {
    TempFile file(".pcap");
    WritePcap(file.path(), frames);
    const std::vector<uint64_t> selected = testutil::TsharkSelect(file.path(), filter);
    const auto report = CheckFile(file.path());
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(FramesWithErrors(*report), std::set<uint64_t>(selected.begin(), selected.end()))
        << report->ToString();
  }
};

TEST_F(CheckerOracleTest, ChecksumsAsTsharkSeesThem) {
  std::vector<ByteVector> frames;
  for (const size_t size : std::initializer_list<size_t>{0, 1, 2, 63, 1460}) {
    for (const bool broken : {false, true}) {
      for (Build frame : {Udp4(), Udp6(), Ip4({}).Tcp({.source_port = 1, .destination_port = 2}),
                          Ip6({}).Tcp({.source_port = 1, .destination_port = 2}), Ip4({}).Echo4({}),
                          Ip6({}).Echo6({})}) {
        ByteVector bytes = frame.Payload(Pattern(size, 3)).Build();
        // The checksum field: it lies in the last header, found from the end.
        if (broken) bytes[bytes.size() - size - 2] ^= 0x40;
        frames.push_back(std::move(bytes));
      }
    }
  }
  ByteVector header = Udp4().Build();
  header[25] ^= 1;
  frames.push_back(header);
  ExpectSameVerdict(
      frames,
      "ip.checksum.status == 0 || udp.checksum.status == 0 || tcp.checksum.status == 0 || "
      "icmp.checksum.status == 0 || icmpv6.checksum.status == 0");
}

TEST_F(CheckerOracleTest, ReassembledChecksumsAsTsharkSeesThem) {
  std::vector<ByteVector> frames;
  const auto add = [&frames](const Build& whole, uint32_t id) {
    for (ByteVector& fragment : whole.BuildFragments(512, id))
      frames.push_back(std::move(fragment));
  };
  add(Udp4().Payload(Pattern(3000)), 1);
  add(Ip4({})
          .Udp({.source_port = 1, .destination_port = 2, .checksum = 0x1111})
          .Payload(Pattern(3000)),
      2);
  add(Udp6().Payload(Pattern(3000)), 3);
  add(Ip6({})
          .Udp({.source_port = 1, .destination_port = 2, .checksum = 0x1111})
          .Payload(Pattern(3000)),
      4);
  ExpectSameVerdict(frames, "udp.checksum.status == 0");
}

TEST_F(CheckerOracleTest, LengthsAsTsharkSeesThem) {
  std::vector<ByteVector> frames = {
      Udp4().Payload(Pattern(20)).Build(),
      Ip4({.total_length = 100}).Udp({.destination_port = 9}).Build(),
      Ip4({.ihl = 4}).Udp({.destination_port = 9}).Build(),
      Ip4({.total_length = 16}).Udp({.destination_port = 9}).Build(),
      Ip6({.payload_length = 100}).Udp({.destination_port = 9}).Build(),
      Ip4({})
          .Udp({.source_port = 1, .destination_port = 9, .length = 7, .checksum = 0})
          .Payload("x")
          .Build(),
      Ip4({})
          .Udp({.source_port = 1, .destination_port = 9, .length = 90, .checksum = 0})
          .Payload("x")
          .Build(),
      Tcp4({.data_offset = 4}).Build(),
      Tcp4({.data_offset = 15}).Build(),
  };
  ExpectSameVerdict(frames,
                    "_ws.malformed || ipv6.plen_exceeds_framing || _ws.expert.severity == error");
}

TEST_F(CheckerOracleTest, TsharkAcceptsWhatTheCheckerAccepts) {
  // Good frames of every kind: neither may complain.
  const std::vector<ByteVector> frames = {
      Udp4().Payload("hello").Pad().Build(),
      Ip6({})
          .HopByHop({})
          .DestinationOptions({})
          .Udp({.source_port = 1, .destination_port = 9})
          .Build(),
      Tcp4({.flags = "S", .options = Hex("020405b4 0402 080a 01020304 00000000 01 030307")})
          .Build(),
      Ip4({})
          .Icmpv4({.type = 3, .code = 3})
          .Payload(Build()
                       .Ipv4({.source = kB, .destination = kA})
                       .Udp({.source_port = 3, .destination_port = 4})
                       .Build())
          .Build(),
      Build()
          .Eth(kMacA, MacAddress::kBroadcast())
          .Arp({.sender_mac = kMacA, .sender_ip = kA, .target_ip = kB})
          .Pad()
          .Build(),
      Build()
          .Eth(kMacA, MulticastMac(kB6.SolicitedNode()))
          .Ipv6({.source = kA6, .destination = kB6.SolicitedNode(), .hop_limit = 255})
          .NeighborSolicitation({.target = kB6, .link_address = kMacA})
          .Build(),
      // An ephemeral port that tshark gives to AMS, which takes this payload for a short header.
      Ip4({})
          .Tcp({.source_port = 48898, .destination_port = 5201, .flags = "A"})
          .Payload(Pattern(32))
          .Build(),
  };
  ExpectSameVerdict(frames, "_ws.malformed || _ws.expert.severity == error");
}

}  // namespace
}  // namespace tapwire::capture
