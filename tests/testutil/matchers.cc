// SPDX-License-Identifier: Apache-2.0
#include "tests/testutil/matchers.h"

#include <algorithm>
#include <ostream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "apps/capture/checker.h"
#include "netdev/base/byteorder.h"
#include "netdev/wire/pretty_print.h"

namespace tapwire::testutil {
namespace {

using ::testing::Eq;
using ::testing::Matcher;
using ::testing::MatcherInterface;
using ::testing::MatchResultListener;
using ::testing::StringMatchResultListener;

void DescribeParts(absl::string_view name, const PartList& parts, std::ostream* os) {
  *os << "is " << std::string(name);
  const char* separator = " with ";
  for (const PartMatcher& part : parts) {
    *os << separator;
    part.DescribeTo(os);
    separator = " and ";
  }
}

// True if all parts match; tells of the first that does not.
bool MatchParts(const FrameView& view, const PartList& parts, MatchResultListener* listener) {
  for (const PartMatcher& part : parts) {
    StringMatchResultListener why;
    if (part.MatchAndExplain(view, &why)) continue;
    *listener << why.str();
    return false;
  }
  return true;
}

class WholeFrameMatcher : public MatcherInterface<const ByteVector&> {
 public:
  WholeFrameMatcher(std::string name, internal::Predicate predicate, PartList parts)
      : name_(std::move(name)), predicate_(predicate), parts_(std::move(parts)) {}

  bool MatchAndExplain(const ByteVector& frame, MatchResultListener* listener) const override {
    const FrameView view = Dissect(frame);
    *listener << "\n    " << wire::PrettyPrint(frame) << "\n    ";
    if (!predicate_(view)) {
      *listener << "is not " << name_;
      return false;
    }
    return MatchParts(view, parts_, listener);
  }
  void DescribeTo(std::ostream* os) const override { DescribeParts(name_, parts_, os); }

 private:
  std::string name_;
  internal::Predicate predicate_;
  PartList parts_;
};

class PredicatePart : public MatcherInterface<const FrameView&> {
 public:
  PredicatePart(std::string name, internal::Predicate predicate, PartList parts)
      : name_(std::move(name)), predicate_(predicate), parts_(std::move(parts)) {}

  bool MatchAndExplain(const FrameView& view, MatchResultListener* listener) const override {
    if (!predicate_(view)) {
      *listener << "is not " << name_;
      return false;
    }
    return MatchParts(view, parts_, listener);
  }
  void DescribeTo(std::ostream* os) const override { DescribeParts(name_, parts_, os); }

 private:
  std::string name_;
  internal::Predicate predicate_;
  PartList parts_;
};

class ExactFrameMatcher : public MatcherInterface<const ByteVector&> {
 public:
  explicit ExactFrameMatcher(ByteVector bytes) : bytes_(std::move(bytes)) {}

  bool MatchAndExplain(const ByteVector& frame, MatchResultListener* listener) const override {
    if (frame == bytes_) return true;
    const auto [here, wanted] =
        std::mismatch(frame.begin(), frame.end(), bytes_.begin(), bytes_.end());
    *listener << "\n    " << wire::PrettyPrint(frame) << "\n    differs at byte "
              << here - frame.begin() << " of " << frame.size() << " (wanted " << bytes_.size()
              << ")";
    return false;
  }
  void DescribeTo(std::ostream* os) const override { *os << "is " << wire::PrettyPrint(bytes_); }

 private:
  ByteVector bytes_;
};

class SoundMatcher : public MatcherInterface<const ByteVector&> {
 public:
  bool MatchAndExplain(const ByteVector& frame, MatchResultListener* listener) const override {
    capture::CaptureChecker checker;
    capture::Frame checked;
    checked.direction = capture::Direction::kTransmit;
    checked.bytes = frame;
    checker.Check(checked);
    *listener << "\n    " << wire::PrettyPrint(frame) << "\n    "
              << checker.report().ToString(capture::Severity::kWarning);
    return checker.report().clean();
  }
  void DescribeTo(std::ostream* os) const override { *os << "is a sound frame"; }
};

class PayloadMatcher : public MatcherInterface<const FrameView&> {
 public:
  explicit PayloadMatcher(ByteVector payload) : payload_(std::move(payload)) {}

  bool MatchAndExplain(const FrameView& view, MatchResultListener* listener) const override {
    const auto [here, wanted] =
        std::mismatch(view.payload.begin(), view.payload.end(), payload_.begin(), payload_.end());
    if (here == view.payload.end() && wanted == payload_.end()) return true;
    *listener << "payload of " << view.payload.size() << " bytes differs at "
              << here - view.payload.begin() << " from the wanted " << payload_.size() << " bytes";
    return false;
  }
  void DescribeTo(std::ostream* os) const override {
    *os << "payload of " << payload_.size() << " bytes";
  }

 private:
  ByteVector payload_;
};

class QuoteMatcher : public MatcherInterface<const FrameView&> {
 public:
  explicit QuoteMatcher(PartList parts) : parts_(std::move(parts)) {}

  bool MatchAndExplain(const FrameView& view, MatchResultListener* listener) const override {
    const FrameView quote = DissectIp(view.payload);
    if (quote.version == 0) {
      *listener << "quotes no IP packet";
      return false;
    }
    *listener << "in the quote: ";
    return MatchParts(quote, parts_, listener);
  }
  void DescribeTo(std::ostream* os) const override { DescribeParts("quoting", parts_, os); }

 private:
  PartList parts_;
};

class GroupRecordMatcher : public MatcherInterface<const FrameView&> {
 public:
  GroupRecordMatcher(uint8_t type, const IpAddress& group) : type_(type), group_(group) {}

  bool MatchAndExplain(const FrameView& view, MatchResultListener* listener) const override {
    for (const GroupRecordView& record : GroupRecords(view)) {
      if (record.type == type_ && record.group == group_) return true;
      *listener << "record " << int{record.type} << " " << record.group.ToString() << "; ";
    }
    return false;
  }
  void DescribeTo(std::ostream* os) const override {
    *os << "a record of type " << int{type_} << " for " << group_.ToString();
  }

 private:
  uint8_t type_;
  IpAddress group_;
};

PartMatcher Number(std::string name, uint32_t (*getter)(const FrameView&), NumberMatcher matcher) {
  return internal::Field<uint32_t>(std::move(name), getter, std::move(matcher));
}
// Addresses are compared as text, which is what a failure should show.
PartMatcher Text(std::string name, std::string (*getter)(const FrameView&), std::string wanted) {
  return internal::Field<std::string>(std::move(name), getter,
                                      Matcher<std::string>(Eq(std::move(wanted))));
}

std::string FlagLetters(uint8_t flags) {
  std::string letters;
  for (int bit = 0; bit < 8; ++bit) {
    if ((flags >> bit & 1) != 0) letters += "FSRPAUEC"[bit];
  }
  return letters;
}

std::string Sorted(absl::string_view letters, absl::string_view order) {
  std::string sorted;
  for (const char letter : order) {
    if (letters.find(letter) != absl::string_view::npos) sorted += letter;
  }
  return sorted;
}

std::string MacText(const std::optional<MacAddress>& mac) {
  return mac ? mac->ToString() : "absent";
}

}  // namespace

namespace internal {
FrameMatcher WholeFrame(std::string name, Predicate predicate, PartList parts) {
  return FrameMatcher(new WholeFrameMatcher(std::move(name), predicate, std::move(parts)));
}
PartMatcher Part(std::string name, Predicate predicate, PartList parts) {
  return PartMatcher(new PredicatePart(std::move(name), predicate, std::move(parts)));
}
}  // namespace internal

FrameMatcher IsFrame(ByteVector bytes) {
  return FrameMatcher(new ExactFrameMatcher(std::move(bytes)));
}
FrameMatcher IsSound() { return FrameMatcher(new SoundMatcher); }

PartMatcher EthSrcIs(const MacAddress& mac) {
  return Text(
      "link source", [](const FrameView& v) { return v.link_source.ToString(); }, mac.ToString());
}
PartMatcher EthDstIs(const MacAddress& mac) {
  return Text(
      "link destination", [](const FrameView& v) { return v.link_destination.ToString(); },
      mac.ToString());
}
PartMatcher EtherTypeIs(NumberMatcher type) {
  return Number(
      "EtherType", [](const FrameView& v) { return uint32_t{v.ether_type}; }, std::move(type));
}
PartMatcher VlanIs(NumberMatcher vid) {
  return Number(
      "VLAN", [](const FrameView& v) { return v.vlan_tci.value_or(0) & 0xfffu; }, std::move(vid));
}

PartMatcher SenderMacIs(const MacAddress& mac) {
  return Text(
      "sender MAC",
      [](const FrameView& v) { return v.arp.value_or(FrameView::Arp()).sender_mac.ToString(); },
      mac.ToString());
}
PartMatcher SenderIpIs(const Ipv4Address& ip) {
  return Text(
      "sender IP",
      [](const FrameView& v) { return v.arp.value_or(FrameView::Arp()).sender_ip.ToString(); },
      ip.ToString());
}
PartMatcher TargetMacIs(const MacAddress& mac) {
  return Text(
      "target MAC",
      [](const FrameView& v) { return v.arp.value_or(FrameView::Arp()).target_mac.ToString(); },
      mac.ToString());
}
PartMatcher TargetIpIs(const Ipv4Address& ip) {
  return Text(
      "target IP",
      [](const FrameView& v) { return v.arp.value_or(FrameView::Arp()).target_ip.ToString(); },
      ip.ToString());
}

PartMatcher SrcIs(const IpAddress& address) {
  return Text(
      "source", [](const FrameView& v) { return v.source.ToString(); }, address.ToString());
}
PartMatcher DstIs(const IpAddress& address) {
  return Text(
      "destination", [](const FrameView& v) { return v.destination.ToString(); },
      address.ToString());
}
PartMatcher TtlIs(NumberMatcher ttl) {
  return Number(
      "TTL", [](const FrameView& v) { return uint32_t{v.ttl}; }, std::move(ttl));
}
PartMatcher TosIs(NumberMatcher tos) {
  return Number(
      "TOS", [](const FrameView& v) { return uint32_t{v.tos}; }, std::move(tos));
}
PartMatcher IpIdIs(NumberMatcher id) {
  return Number(
      "identification", [](const FrameView& v) { return v.id; }, std::move(id));
}
PartMatcher DontFragmentIs(bool set) {
  return Number(
      "DF", [](const FrameView& v) { return v.dont_fragment ? 1u : 0u; }, Eq(set ? 1u : 0u));
}
PartMatcher IsFragment(NumberMatcher offset, bool more) {
  return internal::Part(
      "a fragment", [](const FrameView& v) { return v.is_fragment; },
      {Number(
           "offset", [](const FrameView& v) { return v.fragment_offset; }, std::move(offset)),
       Number(
           "more fragments", [](const FrameView& v) { return v.more_fragments ? 1u : 0u; },
           Eq(more ? 1u : 0u))});
}
PartMatcher IsNoFragment() {
  return internal::Part("unfragmented", [](const FrameView& v) { return !v.is_fragment; }, {});
}
PartMatcher IpLengthIs(NumberMatcher length) {
  return Number(
      "packet length", [](const FrameView& v) { return v.packet_length; }, std::move(length));
}
PartMatcher ProtocolIs(NumberMatcher protocol) {
  return Number(
      "protocol", [](const FrameView& v) { return uint32_t{v.protocol}; }, std::move(protocol));
}
PartMatcher HasRouterAlert() {
  return internal::Part("marked by router alert", [](const FrameView& v) { return v.router_alert; },
                        {});
}
PartMatcher FlowLabelIs(NumberMatcher label) {
  return Number(
      "flow label", [](const FrameView& v) { return v.flow_label; }, std::move(label));
}

PartMatcher SrcPortIs(NumberMatcher port) {
  return Number(
      "source port", [](const FrameView& v) { return uint32_t{v.source_port}; }, std::move(port));
}
PartMatcher DstPortIs(NumberMatcher port) {
  return Number(
      "destination port", [](const FrameView& v) { return uint32_t{v.destination_port}; },
      std::move(port));
}
PartMatcher ChecksumIs(NumberMatcher checksum) {
  return Number(
      "checksum", [](const FrameView& v) { return uint32_t{v.checksum}; }, std::move(checksum));
}
PartMatcher PayloadIs(ByteVector payload) {
  return PartMatcher(new PayloadMatcher(std::move(payload)));
}
PartMatcher PayloadIs(absl::string_view payload) {
  return PayloadIs(ByteVector(payload.begin(), payload.end()));
}
PartMatcher PayloadSizeIs(NumberMatcher size) {
  return Number(
      "payload size", [](const FrameView& v) { return static_cast<uint32_t>(v.payload.size()); },
      std::move(size));
}
PartMatcher SeqIs(NumberMatcher seq) {
  return Number(
      "seq", [](const FrameView& v) { return v.seq; }, std::move(seq));
}
PartMatcher AckIs(NumberMatcher ack) {
  return Number(
      "ack", [](const FrameView& v) { return v.ack; }, std::move(ack));
}
PartMatcher WindowIs(NumberMatcher window) {
  return Number(
      "window", [](const FrameView& v) { return uint32_t{v.window}; }, std::move(window));
}
PartMatcher FlagsAre(absl::string_view letters) {
  std::string wanted(letters);
  std::replace(wanted.begin(), wanted.end(), '.', 'A');
  return Text(
      "flags", [](const FrameView& v) { return FlagLetters(v.tcp_flags); },
      Sorted(wanted, "FSRPAUEC"));
}
PartMatcher MssIs(NumberMatcher mss) {
  return Number(
      "MSS", [](const FrameView& v) { return uint32_t{v.tcp_options.mss.value_or(0)}; },
      std::move(mss));
}

PartMatcher TypeIs(NumberMatcher type) {
  return Number(
      "type", [](const FrameView& v) { return uint32_t{v.type}; }, std::move(type));
}
PartMatcher CodeIs(NumberMatcher code) {
  return Number(
      "code", [](const FrameView& v) { return uint32_t{v.code}; }, std::move(code));
}
PartMatcher RestIs(NumberMatcher rest) {
  return Number(
      "rest of header", [](const FrameView& v) { return v.rest; }, std::move(rest));
}
PartMatcher EchoIdIs(NumberMatcher id) {
  return Number(
      "echo identifier", [](const FrameView& v) { return v.rest >> 16; }, std::move(id));
}
PartMatcher EchoSeqIs(NumberMatcher seq) {
  return Number(
      "echo sequence", [](const FrameView& v) { return v.rest & 0xffff; }, std::move(seq));
}
PartMatcher MtuIs(NumberMatcher mtu) {
  return Number(
      "MTU", [](const FrameView& v) { return v.is_v6() ? v.rest : v.rest & 0xffff; },
      std::move(mtu));
}
PartMatcher QuoteMatches(PartList parts) { return PartMatcher(new QuoteMatcher(std::move(parts))); }

PartMatcher TargetIs(const Ipv6Address& target) {
  return Text(
      "target", [](const FrameView& v) { return Ipv6Address::FromBytes(v.payload).ToString(); },
      target.ToString());
}
PartMatcher SourceLinkAddressIs(const MacAddress& mac) {
  return Text(
      "source link-layer address", [](const FrameView& v) { return MacText(NdLinkAddress(v, 1)); },
      mac.ToString());
}
PartMatcher TargetLinkAddressIs(const MacAddress& mac) {
  return Text(
      "target link-layer address", [](const FrameView& v) { return MacText(NdLinkAddress(v, 2)); },
      mac.ToString());
}
PartMatcher NoLinkAddress() {
  return internal::Part("free of link-layer address options",
                        [](const FrameView& v) {
                          return !NdLinkAddress(v, 1).has_value() &&
                                 !NdLinkAddress(v, 2).has_value();
                        },
                        {});
}
PartMatcher NaFlagsAre(absl::string_view letters) {
  return Text(
      "flags",
      [](const FrameView& v) {
        std::string flags;
        for (int bit = 0; bit < 3; ++bit) {
          if ((v.rest << bit & 0x80000000u) != 0) flags += "RSO"[bit];
        }
        return flags;
      },
      Sorted(letters, "RSO"));
}
PartMatcher HasGroupRecord(uint8_t type, const IpAddress& group) {
  return PartMatcher(new GroupRecordMatcher(type, group));
}

}  // namespace tapwire::testutil
