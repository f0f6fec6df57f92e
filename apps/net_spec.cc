// SPDX-License-Identifier: Apache-2.0
#include "apps/net_spec.h"

#include <array>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/spec_text.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps {

const char kNetHelp[] =
    "device: tap[,name=tw0][,dev=/dev/net/tun][,fd=N][,fdsocket=PATH][,userns][,kernel=CIDR]"
    "[,mac=ADDR][,mtu=N][,queues=N][,csum=off][,tso=off][,uso=off]; "
    "veth[,name=][,mac=][,mtu=][,csum=off][,tso=off], a pair inside this process; "
    "dummy[,name=][,mac=][,mtu=][,csum=off][,tso=off]; "
    "macvlan,lower=NAME[,mode=vepa|bridge|private|passthru|source][,name=][,mac=][,mtu=]"
    "[,flag=nopromisc|nodst][,source=MAC+MAC][,bcqueuelen=N][,bccutoff=N][,always_on=off]"
    "[,rx=queue]; vlan,lower=NAME,id=N[,protocol=802.1ad][,name=][,mac=][,mtu=]; all of them "
    "[,gro=auto|on|off]. Repeat to stack devices, the lower one first; the last one is the "
    "command's own (see --on)";

namespace {

constexpr std::array<std::pair<DeviceKind, absl::string_view>, 5> kKinds = {{
    {DeviceKind::kTap, "tap"},
    {DeviceKind::kVeth, "veth"},
    {DeviceKind::kDummy, "dummy"},
    {DeviceKind::kMacvlan, "macvlan"},
    {DeviceKind::kVlan, "vlan"},
}};

absl::Status ParseKind(const SpecText& text, absl::string_view word, DeviceKind& kind) {
  for (const auto& [known, name] : kKinds) {
    if (name == word) {
      kind = known;
      return absl::OkStatus();
    }
  }
  return text.Bad(absl::StrCat("unknown device '", word, "'; ", kNetHelp));
}

// The keys of one flag, one after the other.
class Parser {
 public:
  Parser(const SpecText& text, NetSpec& spec) : text_(text), spec_(spec) {}

  absl::Status Key(absl::string_view key, absl::string_view value);
  // What is right by itself and says nothing, or something else, together.
  absl::Status CheckTogether(const std::set<absl::string_view>& keys) const;

 private:
  absl::Status NoSuchKey(absl::string_view key) const {
    return text_.Bad(
        absl::StrCat(DeviceKindName(spec_.kind), " has no option '", key, "'; ", kNetHelp));
  }
  absl::Status Name(absl::string_view value);
  absl::Status Offload(absl::string_view key, absl::string_view value);
  absl::Status Gro(absl::string_view value);
  absl::Status TapKey(absl::string_view key, absl::string_view value);
  absl::Status MacvlanKey(absl::string_view key, absl::string_view value);
  absl::Status MacvlanMode(absl::string_view value);
  absl::Status MacvlanFlags(absl::string_view value);
  absl::Status MacvlanSources(absl::string_view value);
  absl::Status MacvlanRx(absl::string_view value);
  absl::Status VlanKey(absl::string_view key, absl::string_view value);
  absl::Status VlanProtocol(absl::string_view value);

  const SpecText& text_;
  NetSpec& spec_;
};

absl::Status Parser::Name(absl::string_view value) {
  TW_ASSIGN_OR_RETURN(spec_.tap.name, text_.Name(value));
  if (spec_.kind != DeviceKind::kTap && absl::StrContains(value, '%')) {
    return text_.Bad(absl::StrCat("'", value, "': no kernel chooses a number for a ",
                                  DeviceKindName(spec_.kind)));
  }
  return absl::OkStatus();
}

absl::Status Parser::Offload(absl::string_view key, absl::string_view value) {
  TW_ASSIGN_OR_RETURN(const bool on, text_.Switch(key, value));
  if (key == "csum") spec_.tap.csum = on;
  if (key == "tso") spec_.tap.tso = on;
  if (key == "uso") spec_.tap.uso = on;
  if (!on && key != "uso") spec_.offloads = false;
  return absl::OkStatus();
}

absl::Status Parser::Gro(absl::string_view value) {
  for (const netdev::GroMode mode :
       {netdev::GroMode::kAuto, netdev::GroMode::kOn, netdev::GroMode::kOff}) {
    if (netdev::GroModeName(mode) == value) {
      spec_.gro = mode;
      return absl::OkStatus();
    }
  }
  return text_.Bad(absl::StrCat("gro= takes auto, on or off, not '", value, "'"));
}

absl::Status Parser::TapKey(absl::string_view key, absl::string_view value) {
  drivers::TapOptions& tap = spec_.tap;
  if (key == "dev") {
    tap.device_path = std::string(value);
  } else if (key == "fd") {
    TW_ASSIGN_OR_RETURN(const uint32_t fd, text_.Number(value, 0, 1u << 20));
    tap.fd = static_cast<int>(fd);
  } else if (key == "fdsocket") {
    tap.fd_socket = std::string(value);
  } else if (key == "queues") {
    TW_ASSIGN_OR_RETURN(tap.queues, text_.Number(value, 1, drivers::kMaxTapQueues));
  } else if (key == "userns") {
    TW_ASSIGN_OR_RETURN(tap.userns, text_.Switch(key, value));
  } else if (key == "kernel") {
    TW_ASSIGN_OR_RETURN(const IpPrefix prefix, text_.HostPrefix(key, value));
    tap.kernel_addrs.push_back(prefix);
  } else if (key == "uso") {
    return Offload(key, value);
  } else {
    return text_.Bad(absl::StrCat("unknown option '", key, "'; ", kNetHelp));
  }
  return absl::OkStatus();
}

absl::Status Parser::MacvlanMode(absl::string_view value) {
  const std::optional<netdev::MacvlanMode> mode = netdev::MacvlanModeByName(value);
  if (!mode) {
    return text_.Bad(
        absl::StrCat("mode= takes private, vepa, bridge, passthru or source, not '", value, "'"));
  }
  spec_.macvlan.mode = static_cast<uint32_t>(*mode);
  return absl::OkStatus();
}

absl::Status Parser::MacvlanFlags(absl::string_view value) {
  for (absl::string_view flag : absl::StrSplit(value, '+')) {
    if (flag == "nopromisc") {
      spec_.macvlan.flags |= netdev::kMacvlanNoPromisc;
    } else if (flag == "nodst") {
      spec_.macvlan.flags |= netdev::kMacvlanNoDst;
    } else {
      return text_.Bad(absl::StrCat("flag= takes nopromisc or nodst, not '", flag, "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status Parser::MacvlanSources(absl::string_view value) {
  netdev::MacvlanSourceChange change{
      .command = netdev::MacvlanSourceChange::Command::kSet, .address = std::nullopt, .list = {}};
  for (absl::string_view word : absl::StrSplit(value, '+')) {
    TW_ASSIGN_OR_RETURN(const MacAddress mac, text_.Mac(word));
    change.list.push_back(mac);
  }
  spec_.macvlan.source = std::move(change);
  return absl::OkStatus();
}

absl::Status Parser::MacvlanRx(absl::string_view value) {
  if (value == "queue") {
    spec_.macvlan.rx = netdev::MacvlanRx::kQueue;
  } else if (value == "reinject") {
    spec_.macvlan.rx = netdev::MacvlanRx::kReinject;
  } else {
    return text_.Bad(absl::StrCat("rx= takes reinject or queue, not '", value, "'"));
  }
  return absl::OkStatus();
}

absl::Status Parser::MacvlanKey(absl::string_view key, absl::string_view value) {
  netdev::MacvlanOptions& macvlan = spec_.macvlan;
  if (key == "mode") return MacvlanMode(value);
  if (key == "flag") return MacvlanFlags(value);
  if (key == "source") return MacvlanSources(value);
  if (key == "rx") return MacvlanRx(value);
  if (key == "bcqueuelen") {
    TW_ASSIGN_OR_RETURN(macvlan.broadcast_queue_packets,
                        text_.Number(value, 0, std::numeric_limits<uint32_t>::max()));
  } else if (key == "bccutoff") {
    TW_ASSIGN_OR_RETURN(macvlan.broadcast_cutoff, text_.SignedNumber(value));
  } else if (key == "always_on") {
    TW_ASSIGN_OR_RETURN(macvlan.always_on, text_.Switch(key, value));
  } else {
    return NoSuchKey(key);
  }
  return absl::OkStatus();
}

absl::Status Parser::VlanProtocol(absl::string_view value) {
  const std::string lower = absl::AsciiStrToLower(value);
  if (lower == "802.1q") {
    spec_.vlan.protocol = wire::EtherType::kVlan;
  } else if (lower == "802.1ad") {
    spec_.vlan.protocol = wire::EtherType::kQinQ;
  } else {
    return text_.Bad(absl::StrCat("protocol= takes 802.1Q or 802.1ad, not '", value, "'"));
  }
  return absl::OkStatus();
}

absl::Status Parser::VlanKey(absl::string_view key, absl::string_view value) {
  if (key == "protocol") return VlanProtocol(value);
  if (key != "id") return NoSuchKey(key);
  // IEEE 802.1Q: 4095 is reserved.
  TW_ASSIGN_OR_RETURN(const uint32_t id, text_.Number(value, 0, 4094));
  spec_.vlan.vlan_id = static_cast<uint16_t>(id);
  return absl::OkStatus();
}

absl::Status Parser::Key(absl::string_view key, absl::string_view value) {
  static const std::set<absl::string_view> kNeverEmpty = {"name", "dev", "fdsocket", "lower"};
  if (value.empty() && kNeverEmpty.contains(key)) return text_.Bad(absl::StrCat(key, "= is empty"));
  if (key == "name") return Name(value);
  if (key == "mtu") {
    TW_ASSIGN_OR_RETURN(spec_.tap.mtu, text_.Number(value, 68, drivers::TapDevice::kMaxMtu));
    return absl::OkStatus();
  }
  if (key == "mac") {
    TW_ASSIGN_OR_RETURN(spec_.tap.mac, text_.Mac(value));
    return absl::OkStatus();
  }
  if (key == "gro") return Gro(value);
  if (spec_.has_lower() && key == "lower") {
    TW_ASSIGN_OR_RETURN(spec_.lower, text_.Name(value));
    return absl::OkStatus();
  }
  if (spec_.kind == DeviceKind::kMacvlan) return MacvlanKey(key, value);
  if (spec_.kind == DeviceKind::kVlan) return VlanKey(key, value);
  if (key == "csum" || key == "tso") return Offload(key, value);
  if (spec_.kind == DeviceKind::kTap) return TapKey(key, value);
  return NoSuchKey(key);
}

absl::Status Parser::CheckTogether(const std::set<absl::string_view>& keys) const {
  if (spec_.has_lower() && !keys.contains("lower")) {
    return text_.Bad(
        absl::StrCat(DeviceKindName(spec_.kind), " needs lower=NAME, the device it stands on"));
  }
  if (spec_.kind == DeviceKind::kVlan && !keys.contains("id")) {
    return text_.Bad("vlan needs id=N, from 0 to 4094");
  }
  if (keys.contains("fd") && keys.contains("fdsocket")) {
    return text_.Bad("fd= and fdsocket= exclude each other");
  }
  if (!keys.contains("fd") && !keys.contains("fdsocket")) return absl::OkStatus();
  for (const char* key : {"dev", "queues"}) {
    if (keys.contains(key)) {
      return text_.Bad(absl::StrCat(key,
                                    "= has no meaning for descriptors that are open already (fd=, "
                                    "fdsocket=)"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view DeviceKindName(DeviceKind kind) {
  for (const auto& [known, name] : kKinds) {
    if (known == kind) return name;
  }
  return "";
}

absl::StatusOr<NetSpec> ParseNetSpec(absl::string_view text) {
  const SpecText spec_text("--net", text);
  NetSpec spec;
  spec.text = std::string(text);
  const std::vector<SpecText::Pair> pairs = spec_text.Pairs();
  TW_RETURN_IF_ERROR(ParseKind(spec_text, text.substr(0, text.find(',')), spec.kind));
  Parser parser(spec_text, spec);
  std::set<absl::string_view> keys;
  for (size_t i = 1; i < pairs.size(); ++i) {
    const absl::string_view key = pairs[i].key;
    const bool bare_switch = key == "userns" && !pairs[i].has_value;
    TW_RETURN_IF_ERROR(parser.Key(key, bare_switch ? "on" : pairs[i].value));
    if (!keys.insert(key).second && key != "kernel") {
      return spec_text.Bad(absl::StrCat(key, "= is given twice"));
    }
  }
  TW_RETURN_IF_ERROR(parser.CheckTogether(keys));
  return spec;
}

}  // namespace tapwire::apps
