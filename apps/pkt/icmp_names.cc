// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/icmp_names.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tapwire::pkt {
namespace {

constexpr int kNone = -1;

// One message type in both families; kNone where a family lacks it.
struct TypeName {
  const char* name;
  int v4, v6;
};
constexpr TypeName kTypes[] = {
    {"unreachable", 3, 1},        {"dest_unreachable", 3, 1},
    {"packet_too_big", kNone, 2}, {"source_quench", 4, kNone},
    {"redirect", 5, kNone},       {"time_exceeded", 11, 3},
    {"parameter_problem", 12, 4}, {"parameterprob", 12, 4},
    {"echo_request", 8, 128},     {"echo", 8, 128},
    {"echo_reply", 0, 129},
};

// RFC 792, RFC 1122 §3.2.2.1, RFC 1812 §5.2.7.1 and RFC 4443 §3.
struct CodeName {
  const char* type;
  const char* name;
  int v4, v6;
};
constexpr CodeName kCodes[] = {
    {"unreachable", "net_unreachable", 0, 0},
    {"unreachable", "no_route", kNone, 0},
    {"unreachable", "host_unreachable", 1, 3},
    {"unreachable", "address_unreachable", kNone, 3},
    {"unreachable", "addr_unreachable", kNone, 3},
    {"unreachable", "protocol_unreachable", 2, kNone},
    {"unreachable", "port_unreachable", 3, 4},
    {"unreachable", "frag_needed", 4, kNone},
    {"unreachable", "source_route_failed", 5, kNone},
    {"unreachable", "net_unknown", 6, kNone},
    {"unreachable", "host_unknown", 7, kNone},
    {"unreachable", "source_host_isolated", 8, kNone},
    {"unreachable", "net_prohibited", 9, 1},
    {"unreachable", "host_prohibited", 10, 1},
    {"unreachable", "admin_prohibited", 13, 1},
    {"unreachable", "adm_prohibited", 13, 1},
    {"unreachable", "not_neighbour", kNone, 2},
    {"unreachable", "net_unreachable_for_tos", 11, kNone},
    {"unreachable", "host_unreachable_for_tos", 12, kNone},
    {"unreachable", "packet_filtered", 13, 1},
    {"unreachable", "precedence_violation", 14, kNone},
    {"unreachable", "precedence_cutoff", 15, kNone},
    {"time_exceeded", "ttl_exceeded", 0, 0},
    {"time_exceeded", "exc_ttl", 0, 0},
    {"time_exceeded", "fragment_reassembly_time_exceeded", 1, 1},
    {"time_exceeded", "exc_fragtime", 1, 1},
    {"parameter_problem", "unknown_next_header", kNone, 1},
    {"parameter_problem", "unknown_option", kNone, 2},
};

int Number(absl::string_view text) {
  uint32_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || number > 255) return kNone;
  return static_cast<int>(number);
}

int Of(IpFamily family, int v4, int v6) { return family == IpFamily::kV4 ? v4 : v6; }

int TypeNumber(IpFamily family, absl::string_view type) {
  for (const TypeName& known : kTypes) {
    if (type == known.name) return Of(family, known.v4, known.v6);
  }
  return Number(type);
}

int CodeNumber(IpFamily family, int type, absl::string_view code) {
  if (code.empty()) return 0;
  for (const CodeName& known : kCodes) {
    if (code == known.name && TypeNumber(family, known.type) == type) {
      return Of(family, known.v4, known.v6);
    }
  }
  return Number(code);
}

}  // namespace

std::optional<IcmpNumbers> FindIcmp(IpFamily family, absl::string_view type,
                                    absl::string_view code) {
  // RFC 4443 §3.2 made a type of its own of what is a code in IPv4.
  if (family == IpFamily::kV6 && code == "frag_needed") return IcmpNumbers{2, 0};
  if (family == IpFamily::kV4 && type == "packet_too_big") return IcmpNumbers{3, 4};
  const int t = TypeNumber(family, type);
  const int c = CodeNumber(family, t, code);
  if (t == kNone || c == kNone) return std::nullopt;
  return IcmpNumbers{static_cast<uint8_t>(t), static_cast<uint8_t>(c)};
}

bool IsIcmpName(absl::string_view type, absl::string_view code) {
  return FindIcmp(IpFamily::kV4, type, code) || FindIcmp(IpFamily::kV6, type, code);
}

std::string IcmpName(IpFamily family, IcmpNumbers numbers) {
  for (const TypeName& type : kTypes) {
    if (Of(family, type.v4, type.v6) != numbers.type) continue;
    for (const CodeName& code : kCodes) {
      if (TypeNumber(family, code.type) == numbers.type &&
          Of(family, code.v4, code.v6) == numbers.code) {
        return absl::StrCat(type.name, " ", code.name);
      }
    }
    return numbers.code == 0 ? type.name : absl::StrCat(type.name, " code ", numbers.code);
  }
  return absl::StrCat("type ", numbers.type, " code ", numbers.code);
}

}  // namespace tapwire::pkt
