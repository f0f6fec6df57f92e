// SPDX-License-Identifier: Apache-2.0
//
// ICMP, ICMPv6 with Neighbor Discovery and listener discovery, and IGMP.
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "netdev/wire/icmpv4.h"
#include "netdev/wire/icmpv6.h"
#include "netdev/wire/igmp.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/ipv6.h"
#include "netdev/wire/ipv6_ext.h"
#include "netdev/wire/mld.h"
#include "netdev/wire/ndp.h"
#include "netdev/wire/pretty_print_internal.h"
#include "netdev/wire/udp.h"

namespace tapwire::wire::internal {
namespace {

// "udp port 81" of a quoted message, or "" if it has no ports or they are cut off. A quote holds at
// least eight bytes behind the IP header, so the ports of TCP and UDP are usually there.
std::string QuotedPort(uint8_t protocol, std::span<const uint8_t> message) {
  const auto ports = UdpHeader::Parse(message);
  if (!ports) return "";
  if (protocol == IpProtocol::kUdp) return absl::StrCat("udp port ", ports->dst_port());
  if (protocol == IpProtocol::kTcp) return absl::StrCat("tcp port ", ports->dst_port());
  return "";
}

std::string Icmpv4UnreachableText(const Icmpv4Header& icmp) {
  const auto quoted = Ipv4Header::Parse(icmp.payload());
  if (!quoted) return absl::StrCat("unreachable code ", icmp.code(), " [|icmp]");
  const std::string dst = quoted->destination().ToString();
  switch (icmp.code()) {
    case Icmpv4UnreachableCode::kNet:
      return absl::StrCat("net ", dst, " unreachable");
    case Icmpv4UnreachableCode::kHost:
      return absl::StrCat("host ", dst, " unreachable");
    case Icmpv4UnreachableCode::kProtocol:
      return absl::StrCat(dst, " protocol ", quoted->protocol(), " unreachable");
    case Icmpv4UnreachableCode::kPort: {
      const std::span<const uint8_t> rest = icmp.payload().subspan(quoted->header_length());
      const std::string port = QuotedPort(quoted->protocol(), rest);
      return absl::StrCat(dst, port.empty() ? "" : " ", port, " unreachable");
    }
    case Icmpv4UnreachableCode::kFragmentationNeeded:
      return absl::StrCat(dst, " unreachable - need to frag (mtu ", icmp.mtu(), ")");
    case Icmpv4UnreachableCode::kAdminProhibited:
      return absl::StrCat("host ", dst, " unreachable - admin prohibited filter");
    default:
      return absl::StrCat(dst, " unreachable - #", icmp.code());
  }
}

std::string Icmpv4Text(const Icmpv4Header& icmp) {
  switch (icmp.type()) {
    case Icmpv4Type::kEchoRequest:
    case Icmpv4Type::kEchoReply:
      return absl::StrCat("echo ", icmp.type() == Icmpv4Type::kEchoRequest ? "request" : "reply",
                          ", id ", icmp.identifier(), ", seq ", icmp.sequence());
    case Icmpv4Type::kDestUnreachable:
      return Icmpv4UnreachableText(icmp);
    case Icmpv4Type::kRedirect: {
      const auto quoted = Ipv4Header::Parse(icmp.payload());
      return absl::StrCat("redirect ", quoted ? quoted->destination().ToString() : "[|icmp]",
                          icmp.code() == Icmpv4RedirectCode::kNet ? " to net " : " to host ",
                          icmp.gateway().ToString());
    }
    case Icmpv4Type::kTimeExceeded:
      if (icmp.code() == Icmpv4TimeExceededCode::kTtl) return "time exceeded in-transit";
      return "ip reassembly time exceeded";
    case Icmpv4Type::kParameterProblem:
      return absl::StrCat("parameter problem - octet ", icmp.pointer());
    case Icmpv4Type::kSourceQuench:
      return "source quench";
    default:
      return absl::StrCat("type-#", icmp.type());
  }
}

std::string Icmpv6UnreachableText(const Icmpv6Header& icmp) {
  static constexpr const char* kNames[] = {
      "unreachable route",       "unreachable prohibited", "beyond scope",
      "unreachable address",     "unreachable port",       "unreachable source policy",
      "unreachable reject route"};
  const auto quoted = Ipv6Header::Parse(icmp.payload());
  if (icmp.code() >= std::size(kNames) || !quoted) {
    return absl::StrCat("destination unreachable, code ", icmp.code());
  }
  const bool is_port = icmp.code() == Icmpv6UnreachableCode::kPort;
  std::string text = absl::StrCat("destination unreachable, ", kNames[icmp.code()],
                                  is_port ? ", " : " ", quoted->destination().ToString());
  if (!is_port) return text;
  Ipv6ExtensionIterator chain(quoted->next_header(), icmp.payload().subspan(Ipv6Header::kLength));
  while (chain.Next()) {
  }
  const std::string port = QuotedPort(chain.next_header(), chain.payload());
  return absl::StrCat(text, port.empty() ? "" : " ", port);
}

std::string Icmpv6TimeExceededText(const Icmpv6Header& icmp) {
  if (icmp.code() == Icmpv6TimeExceededCode::kReassembly) {
    return "time exceeded in-transit (reassembly)";
  }
  const auto quoted = Ipv6Header::Parse(icmp.payload());
  if (!quoted) return "time exceeded in-transit";
  return absl::StrCat("time exceeded in-transit for ", quoted->destination().ToString());
}

std::string Icmpv6ParameterProblemText(const Icmpv6Header& icmp) {
  static constexpr const char* kNames[] = {"erroneous", "next header", "option",
                                           "incomplete header chain"};
  if (icmp.code() >= std::size(kNames)) {
    return absl::StrCat("parameter problem, code ", icmp.code());
  }
  return absl::StrCat("parameter problem, ", kNames[icmp.code()], " - octet ", icmp.pointer());
}

std::string Icmpv6ErrorText(const Icmpv6Header& icmp) {
  switch (icmp.type()) {
    case Icmpv6Type::kDestUnreachable:
      return Icmpv6UnreachableText(icmp);
    case Icmpv6Type::kPacketTooBig:
      return absl::StrCat("packet too big, mtu ", icmp.mtu());
    case Icmpv6Type::kTimeExceeded:
      return Icmpv6TimeExceededText(icmp);
    case Icmpv6Type::kParameterProblem:
      return Icmpv6ParameterProblemText(icmp);
    default:
      return absl::StrCat("unknown icmp6 type (", icmp.type(), ")");
  }
}

std::string NdpText(const Icmpv6Header& icmp) {
  switch (icmp.type()) {
    case Icmpv6Type::kRouterSolicitation:
      return "router solicitation";
    case Icmpv6Type::kRouterAdvertisement:
      return "router advertisement";
    case Icmpv6Type::kNeighborSolicitation:
      if (const auto ns = NeighborSolicitationHeader::Parse(icmp.bytes())) {
        return absl::StrCat("neighbor solicitation, who has ", ns->target_address().ToString());
      }
      return "neighbor solicitation [|icmp6]";
    case Icmpv6Type::kNeighborAdvertisement:
      if (const auto na = NeighborAdvertisementHeader::Parse(icmp.bytes())) {
        return absl::StrCat("neighbor advertisement, tgt is ", na->target_address().ToString());
      }
      return "neighbor advertisement [|icmp6]";
    default:
      break;
  }
  const auto redirect = RedirectHeader::Parse(icmp.bytes());
  if (!redirect) return "redirect [|icmp6]";
  return absl::StrCat("redirect, ", redirect->destination_address().ToString(), " to ",
                      redirect->target_address().ToString());
}

std::string MldText(const Icmpv6Header& icmp) {
  if (icmp.type() == Icmpv6Type::kMldv2Report) {
    const auto report = Mldv2ReportHeader::Parse(icmp.bytes());
    return absl::StrCat("multicast listener report v2, ", report ? report->number_of_records() : 0,
                        " group record(s)");
  }
  const auto mld = MldHeader::Parse(icmp.bytes());
  if (!mld) return "multicast listener message [|icmp6]";
  const std::string group = mld->multicast_address().ToString();
  if (icmp.type() == Icmpv6Type::kMldv1Report) {
    return absl::StrCat("multicast listener report max resp delay: ", mld->maximum_response_delay(),
                        " addr: ", group);
  }
  if (icmp.type() == Icmpv6Type::kMldv1Done) {
    return absl::StrCat("multicast listener done max resp delay: ", mld->maximum_response_delay(),
                        " addr: ", group);
  }
  const auto query = Mldv2QueryHeader::Parse(icmp.bytes());
  if (!query) {
    return absl::StrCat("multicast listener query max resp delay: ", mld->maximum_response_delay(),
                        " addr: ", group);
  }
  return absl::StrCat("multicast listener query v2 [gaddr ", group, "]");
}

std::string Icmpv6Text(const Icmpv6Header& icmp) {
  switch (icmp.type()) {
    case Icmpv6Type::kEchoRequest:
    case Icmpv6Type::kEchoReply:
      return absl::StrCat("echo ", icmp.type() == Icmpv6Type::kEchoRequest ? "request" : "reply",
                          ", id ", icmp.identifier(), ", seq ", icmp.sequence());
    case Icmpv6Type::kRouterSolicitation:
    case Icmpv6Type::kRouterAdvertisement:
    case Icmpv6Type::kNeighborSolicitation:
    case Icmpv6Type::kNeighborAdvertisement:
    case Icmpv6Type::kRedirect:
      return NdpText(icmp);
    case Icmpv6Type::kMldQuery:
    case Icmpv6Type::kMldv1Report:
    case Icmpv6Type::kMldv1Done:
    case Icmpv6Type::kMldv2Report:
      return MldText(icmp);
    default:
      return Icmpv6ErrorText(icmp);
  }
}

std::string IgmpQueryText(const IgmpHeader& igmp) {
  const bool general = igmp.group_address().IsUnspecified();
  const std::string group =
      general ? "" : absl::StrCat(" [gaddr ", igmp.group_address().ToString(), "]");
  switch (igmp.query_version()) {
    case IgmpQueryVersion::kV1:
      return absl::StrCat("query v1", group);
    case IgmpQueryVersion::kV2:
      return absl::StrCat("query v2", group);
    case IgmpQueryVersion::kV3:
      return absl::StrCat("query v3", group);
    case IgmpQueryVersion::kInvalid:
      break;
  }
  return "query [bad length]";
}

std::string IgmpText(const IgmpHeader& igmp) {
  const std::string group = igmp.group_address().ToString();
  switch (igmp.type()) {
    case IgmpType::kQuery:
      return IgmpQueryText(igmp);
    case IgmpType::kV1Report:
      return absl::StrCat("v1 report ", group);
    case IgmpType::kV2Report:
      return absl::StrCat("v2 report ", group);
    case IgmpType::kV2Leave:
      return absl::StrCat("leave ", group);
    case IgmpType::kV3Report:
      if (const auto report = Igmpv3ReportHeader::Parse(igmp.bytes())) {
        return absl::StrCat("v3 report, ", report->number_of_records(), " group record(s)");
      }
      return "v3 report [|igmp]";
    default:
      return absl::StrFormat("type 0x%02x", igmp.type());
  }
}

}  // namespace

void AppendIcmpv4(const PrintedMessage& message, std::string& out) {
  const auto icmp = Icmpv4Header::Parse(message.bytes);
  absl::StrAppend(&out, "ICMP ", icmp ? Icmpv4Text(*icmp) : "[|icmp]", ", length ", message.length);
}

void AppendIcmpv6(const PrintedMessage& message, std::string& out) {
  const auto icmp = Icmpv6Header::Parse(message.bytes);
  absl::StrAppend(&out, "ICMP6, ", icmp ? Icmpv6Text(*icmp) : "[|icmp6]", ", length ",
                  message.length);
}

void AppendIgmp(const PrintedMessage& message, std::string& out) {
  const auto igmp = IgmpHeader::Parse(message.bytes);
  absl::StrAppend(&out, "igmp ", igmp ? IgmpText(*igmp) : "[|igmp]");
}

}  // namespace tapwire::wire::internal
