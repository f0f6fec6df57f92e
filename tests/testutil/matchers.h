// SPDX-License-Identifier: Apache-2.0
// gMock matchers for frames:
//
//   EXPECT_THAT(net.TakeSent(), ElementsAre(
//       IsArpRequest(TargetIpIs(kPeerIp)),
//       IsIpv4(SrcIs(kHostIp), DstIs(kPeerIp), TtlIs(64),
//              IsUdp(SrcPortIs(7), DstPortIs(1000), PayloadIs("hello")))));
//
// Frame matchers (IsEth, IsArp, IsIpv4, IsIpv6 and what is made of them) take a whole frame, the
// others a part of it, inside a frame matcher. A failure shows the frame in one tcpdump-like line
// and the part that did not match.
#pragma once

#include <gmock/gmock.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/testutil/frame_view.h"
#include "tests/testutil/packet_builder.h"

namespace tapwire::testutil {

using FrameMatcher = ::testing::Matcher<const ByteVector&>;
using PartMatcher = ::testing::Matcher<const FrameView&>;
using PartList = std::vector<PartMatcher>;

namespace internal {
using Predicate = bool (*)(const FrameView&);
FrameMatcher WholeFrame(std::string name, Predicate predicate, PartList parts);
PartMatcher Part(std::string name, Predicate predicate, PartList parts);

template <typename T>
class FieldMatcher : public ::testing::MatcherInterface<const FrameView&> {
 public:
  using Getter = T (*)(const FrameView&);
  FieldMatcher(std::string name, Getter getter, ::testing::Matcher<T> matcher)
      : name_(std::move(name)), getter_(getter), matcher_(std::move(matcher)) {}

  bool MatchAndExplain(const FrameView& view,
                       ::testing::MatchResultListener* listener) const override {
    const T value = getter_(view);
    *listener << name_ << " is " << ::testing::PrintToString(value);
    return matcher_.Matches(value);
  }
  void DescribeTo(std::ostream* os) const override {
    *os << name_ << " ";
    matcher_.DescribeTo(os);
  }

 private:
  std::string name_;
  Getter getter_;
  ::testing::Matcher<T> matcher_;
};

template <typename T>
PartMatcher Field(std::string name, T (*getter)(const FrameView&), ::testing::Matcher<T> matcher) {
  return PartMatcher(new FieldMatcher<T>(std::move(name), getter, std::move(matcher)));
}
}  // namespace internal

using NumberMatcher = ::testing::Matcher<uint32_t>;

// ---- Whole frames ----

template <typename... Parts>
FrameMatcher IsEth(Parts... parts) {
  return internal::WholeFrame(
      "a frame", [](const FrameView& v) { return v.has_link; }, PartList{parts...});
}
template <typename... Parts>
FrameMatcher IsArp(Parts... parts) {
  return internal::WholeFrame(
      "ARP", [](const FrameView& v) { return v.arp.has_value(); }, PartList{parts...});
}
template <typename... Parts>
FrameMatcher IsArpRequest(Parts... parts) {
  return internal::WholeFrame(
      "an ARP request", [](const FrameView& v) { return v.arp && v.arp->operation == 1; },
      PartList{parts...});
}
template <typename... Parts>
FrameMatcher IsArpReply(Parts... parts) {
  return internal::WholeFrame(
      "an ARP reply", [](const FrameView& v) { return v.arp && v.arp->operation == 2; },
      PartList{parts...});
}
template <typename... Parts>
FrameMatcher IsIpv4(Parts... parts) {
  return internal::WholeFrame(
      "IPv4", [](const FrameView& v) { return v.is_v4(); }, PartList{parts...});
}
template <typename... Parts>
FrameMatcher IsIpv6(Parts... parts) {
  return internal::WholeFrame(
      "IPv6", [](const FrameView& v) { return v.is_v6(); }, PartList{parts...});
}
// IPv6 with an ND message.
template <typename... Parts>
FrameMatcher IsNs(Parts... parts) {
  return internal::WholeFrame(
      "a neighbour solicitation",
      [](const FrameView& v) { return v.is_v6() && v.protocol == 58 && v.type == 135; },
      PartList{parts...});
}
template <typename... Parts>
FrameMatcher IsNa(Parts... parts) {
  return internal::WholeFrame(
      "a neighbour advertisement",
      [](const FrameView& v) { return v.is_v6() && v.protocol == 58 && v.type == 136; },
      PartList{parts...});
}
template <typename... Parts>
FrameMatcher IsRs(Parts... parts) {
  return internal::WholeFrame(
      "a router solicitation",
      [](const FrameView& v) { return v.is_v6() && v.protocol == 58 && v.type == 133; },
      PartList{parts...});
}
template <typename... Parts>
FrameMatcher IsMldReport(Parts... parts) {
  return internal::WholeFrame(
      "an MLDv2 report",
      [](const FrameView& v) { return v.is_v6() && v.protocol == 58 && v.type == 143; },
      PartList{parts...});
}
template <typename... Parts>
FrameMatcher IsIgmpReport(Parts... parts) {
  return internal::WholeFrame(
      "an IGMPv3 report",
      [](const FrameView& v) { return v.is_v4() && v.protocol == 2 && v.type == 0x22; },
      PartList{parts...});
}
// Exactly these bytes; a failure shows both as text and the first difference.
FrameMatcher IsFrame(ByteVector bytes);
// The capture checker has no complaint about it (taken as sent by a host).
FrameMatcher IsSound();

// ---- Link ----

PartMatcher EthSrcIs(const MacAddress& mac);
PartMatcher EthDstIs(const MacAddress& mac);
PartMatcher EtherTypeIs(NumberMatcher type);
PartMatcher VlanIs(NumberMatcher vid);

// ---- ARP ----

PartMatcher SenderMacIs(const MacAddress& mac);
PartMatcher SenderIpIs(const Ipv4Address& ip);
PartMatcher TargetMacIs(const MacAddress& mac);
PartMatcher TargetIpIs(const Ipv4Address& ip);

// ---- IP, both families ----

PartMatcher SrcIs(const IpAddress& address);
PartMatcher DstIs(const IpAddress& address);
PartMatcher TtlIs(NumberMatcher ttl);  // hop limit
PartMatcher TosIs(NumberMatcher tos);  // traffic class
PartMatcher IpIdIs(NumberMatcher id);  // or of the fragment header
PartMatcher DontFragmentIs(bool set);
PartMatcher IsFragment(NumberMatcher offset, bool more);
PartMatcher IsNoFragment();
PartMatcher IpLengthIs(NumberMatcher length);  // header included
PartMatcher ProtocolIs(NumberMatcher protocol);
PartMatcher HasRouterAlert();
PartMatcher FlowLabelIs(NumberMatcher label);

// ---- Transport ----

template <typename... Parts>
PartMatcher IsUdp(Parts... parts) {
  return internal::Part(
      "UDP", [](const FrameView& v) { return v.protocol == 17; }, PartList{parts...});
}
template <typename... Parts>
PartMatcher IsTcp(Parts... parts) {
  return internal::Part(
      "TCP", [](const FrameView& v) { return v.protocol == 6; }, PartList{parts...});
}
template <typename... Parts>
PartMatcher IsIcmpv4(Parts... parts) {
  return internal::Part(
      "ICMPv4", [](const FrameView& v) { return v.is_v4() && v.protocol == 1; },
      PartList{parts...});
}
template <typename... Parts>
PartMatcher IsIcmpv6(Parts... parts) {
  return internal::Part(
      "ICMPv6", [](const FrameView& v) { return v.is_v6() && v.protocol == 58; },
      PartList{parts...});
}
// Of either family.
template <typename... Parts>
PartMatcher IsEchoRequest(Parts... parts) {
  return internal::Part(
      "echo request",
      [](const FrameView& v) {
        return (v.is_v4() && v.protocol == 1 && v.type == 8) ||
               (v.is_v6() && v.protocol == 58 && v.type == 128);
      },
      PartList{parts...});
}
template <typename... Parts>
PartMatcher IsEchoReply(Parts... parts) {
  return internal::Part(
      "echo reply",
      [](const FrameView& v) {
        return (v.is_v4() && v.protocol == 1 && v.type == 0) ||
               (v.is_v6() && v.protocol == 58 && v.type == 129);
      },
      PartList{parts...});
}

PartMatcher SrcPortIs(NumberMatcher port);
PartMatcher DstPortIs(NumberMatcher port);
PartMatcher ChecksumIs(NumberMatcher checksum);
PartMatcher PayloadIs(ByteVector payload);
PartMatcher PayloadIs(absl::string_view payload);
PartMatcher PayloadSizeIs(NumberMatcher size);
PartMatcher SeqIs(NumberMatcher seq);
PartMatcher AckIs(NumberMatcher ack);
PartMatcher WindowIs(NumberMatcher window);
// Exactly these letters of "FSRPAUEC"; "." stands for A.
PartMatcher FlagsAre(absl::string_view letters);
PartMatcher MssIs(NumberMatcher mss);

// ---- ICMP and its relatives ----

PartMatcher TypeIs(NumberMatcher type);
PartMatcher CodeIs(NumberMatcher code);
PartMatcher RestIs(NumberMatcher rest);  // the four bytes behind the checksum
PartMatcher EchoIdIs(NumberMatcher id);
PartMatcher EchoSeqIs(NumberMatcher seq);
PartMatcher MtuIs(NumberMatcher mtu);  // of "fragmentation needed" or "packet too big"
// The packet an error quotes, matched by parts.
PartMatcher QuoteMatches(PartList parts);
template <typename... Parts>
PartMatcher Quotes(Parts... parts) {
  return QuoteMatches(PartList{parts...});
}
// Neighbour discovery.
PartMatcher TargetIs(const Ipv6Address& target);
PartMatcher SourceLinkAddressIs(const MacAddress& mac);
PartMatcher TargetLinkAddressIs(const MacAddress& mac);
PartMatcher NoLinkAddress();
// Any of "RSO", all others being clear.
PartMatcher NaFlagsAre(absl::string_view letters);
// A record of an IGMPv3 or MLDv2 report. Types: 1 is_in, 2 is_ex, 3 to_in, 4 to_ex, 5 allow, 6
// block.
PartMatcher HasGroupRecord(uint8_t type, const IpAddress& group);

}  // namespace tapwire::testutil
