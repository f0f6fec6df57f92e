// SPDX-License-Identifier: Apache-2.0
#include "apps/stack_spec.h"

#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "apps/spec_text.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps {

const char kStackHelp[] =
    "a further host in this process: "
    "dev=NAME[,addr=CIDR]...[,gateway=ADDR][,dev=...][,forwarding=on][,name=NAME]; addresses "
    "belong to the dev= before them; repeat";

namespace {

absl::Status AddDevice(const SpecText& text, absl::string_view value, StackSpec& spec) {
  StackSpec::Device device;
  TW_ASSIGN_OR_RETURN(device.name, text.Name(value));
  for (const StackSpec::Device& other : spec.devices) {
    if (other.name == device.name) return text.Bad(absl::StrCat("dev=", value, " is given twice"));
  }
  spec.devices.push_back(std::move(device));
  return absl::OkStatus();
}

absl::Status AddAddress(const SpecText& text, absl::string_view value, StackSpec& spec) {
  TW_ASSIGN_OR_RETURN(const IpPrefix prefix, text.HostPrefix("addr", value));
  for (const StackSpec::Device& device : spec.devices) {
    for (const IpPrefix& other : device.addresses) {
      if (other.address == prefix.address) {
        return text.Bad(absl::StrCat("addr=", value, " is given twice"));
      }
    }
  }
  spec.devices.back().addresses.push_back(prefix);
  return absl::OkStatus();
}

absl::Status AddGateway(const SpecText& text, absl::string_view value, StackSpec& spec) {
  const std::optional<IpAddress> address = IpAddress::Parse(value);
  if (!address) return text.Bad(absl::StrCat("gateway=", value, " is not an address"));
  for (const StackSpec::Device& device : spec.devices) {
    for (const IpAddress& other : device.gateways) {
      if (other.family() == address->family()) {
        return text.Bad(absl::StrCat("gateway=", value, " is the second one of its family"));
      }
    }
  }
  spec.devices.back().gateways.push_back(*address);
  return absl::OkStatus();
}

absl::Status ParseKey(const SpecText& text, const SpecText::Pair& pair, StackSpec& spec) {
  if (pair.value.empty() && (pair.key == "dev" || pair.key == "name")) {
    return text.Bad(absl::StrCat(pair.key, "= is empty"));
  }
  if (pair.key == "dev") return AddDevice(text, pair.value, spec);
  if (pair.key == "addr" || pair.key == "gateway") {
    if (spec.devices.empty()) {
      return text.Bad(absl::StrCat(pair.key, "= must follow the dev= it belongs to"));
    }
    return pair.key == "addr" ? AddAddress(text, pair.value, spec)
                              : AddGateway(text, pair.value, spec);
  }
  if (pair.key == "forwarding") {
    TW_ASSIGN_OR_RETURN(spec.forwarding, text.Switch(pair.key, pair.value));
    return absl::OkStatus();
  }
  if (pair.key != "name") {
    return text.Bad(absl::StrCat("unknown option '", pair.key, "'; ", kStackHelp));
  }
  TW_ASSIGN_OR_RETURN(spec.name, text.Name(pair.value));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StackSpec> ParseStackSpec(absl::string_view text) {
  const SpecText spec_text("--stack", text);
  StackSpec spec;
  spec.text = std::string(text);
  absl::flat_hash_set<absl::string_view> given;
  for (const SpecText::Pair& pair : spec_text.Pairs()) {
    const bool once = pair.key == "forwarding" || pair.key == "name";
    if (once && !given.insert(pair.key).second) {
      return spec_text.Bad(absl::StrCat(pair.key, "= is given twice"));
    }
    TW_RETURN_IF_ERROR(ParseKey(spec_text, pair, spec));
  }
  if (spec.devices.empty()) return spec_text.Bad("needs dev=NAME, a device made by --net");
  if (spec.name.empty()) spec.name = spec.devices.front().name;
  return spec;
}

}  // namespace tapwire::apps
