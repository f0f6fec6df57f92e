// SPDX-License-Identifier: Apache-2.0
// `ip addr`. Layouts: iproute2 6.1.

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/ctl/ip_view.h"

namespace tapwire::apps::ctl {
namespace {

using netdev::NetDevice;

constexpr uint32_t kForever = std::numeric_limits<uint32_t>::max();

std::vector<const InterfaceAddress*> AddressesOf(const World& world, const NetDevice& device,
                                                 const IpFlags& flags) {
  std::vector<const InterfaceAddress*> found;
  const Interface* interface = InterfaceOf(world, device);
  if (interface == nullptr) return found;
  for (const IpFamily family : {IpFamily::kV4, IpFamily::kV6}) {  // as the kernel lists them
    if (flags.family.value_or(family) != family) continue;
    for (const InterfaceAddress& address : interface->addresses()) {
      if (address.address.family() == family) found.push_back(&address);
    }
  }
  return found;
}

const char* Scope(const IpAddress& address) {
  if (address.IsLoopback()) return "host";
  return address.is_v6() && address.IsLinkLocal() ? "link" : "global";
}

// Words that stand behind the scope.
std::vector<std::string> Marks(const std::vector<const InterfaceAddress*>& all, size_t index) {
  const InterfaceAddress& address = *all[index];
  std::vector<std::string> marks;
  // Linux: a later IPv4 address of the same subnet.
  for (size_t i = 0; i < index && address.address.is_v4(); ++i) {
    if (all[i]->address.is_v4() && all[i]->prefix_length == address.prefix_length &&
        all[i]->prefix().Network() == address.prefix().Network()) {
      marks.emplace_back("secondary");
      break;
    }
  }
  if (address.skip_dad && address.address.is_v6() && !address.address.IsLoopback()) {
    marks.emplace_back("nodad");
  }
  if (address.state == AddressState::kDuplicated) marks.emplace_back("dadfailed");
  if (address.state == AddressState::kDeprecated) marks.emplace_back("deprecated");
  if (!address.usable()) marks.emplace_back("tentative");
  return marks;
}

std::string AddressText(const NetDevice& device, const std::vector<const InterfaceAddress*>& all,
                        size_t index) {
  const InterfaceAddress& address = *all[index];
  std::string text = absl::StrCat(address.address.is_v4() ? "    inet " : "    inet6 ",
                                  address.prefix().ToString(), " scope ", Scope(address.address));
  text += ' ';
  for (const std::string& mark : Marks(all, index)) absl::StrAppend(&text, mark, " ");
  if (address.address.is_v4()) text += device.name();  // the label
  const bool deprecated = address.state == AddressState::kDeprecated;
  return absl::StrCat(text, "\n       valid_lft forever preferred_lft ",
                      deprecated ? "0sec" : "forever", "\n");
}

Json AddressJson(const NetDevice& device, const std::vector<const InterfaceAddress*>& all,
                 size_t index) {
  const InterfaceAddress& address = *all[index];
  Json json = {{"family", address.address.is_v4() ? "inet" : "inet6"},
               {"local", address.address.ToString()},
               {"prefixlen", address.prefix_length},
               {"scope", Scope(address.address)}};
  for (const std::string& mark : Marks(all, index)) json[mark] = true;
  if (address.address.is_v4()) json["label"] = device.name();
  json["valid_life_time"] = kForever;
  json["preferred_life_time"] = address.state == AddressState::kDeprecated ? 0 : kForever;
  return json;
}

std::string BriefText(const World& world, const NetDevice& device,
                      const std::vector<const InterfaceAddress*>& all) {
  std::string text =
      absl::StrFormat("%-16s %-14s ", NameWithParent(world, device), StateText(device));
  for (const InterfaceAddress* address : all) {
    absl::StrAppend(&text, address->prefix().ToString(), " ");
  }
  return text + "\n";
}

Json BriefJson(const World& world, const NetDevice& device,
               const std::vector<const InterfaceAddress*>& all) {
  const Json link = LinkJson(world, device, {}, LinkLine::kAddress);
  Json json;
  if (link.contains("link")) json["link"] = link["link"];
  json["ifname"] = device.name();
  json["operstate"] = link["operstate"];
  json["addr_info"] = Json::array();
  for (const InterfaceAddress* address : all) {
    json["addr_info"].push_back(
        {{"local", address->address.ToString()}, {"prefixlen", address->prefix_length}});
  }
  return json;
}

std::string DeviceText(const World& world, const NetDevice& device, const IpFlags& flags,
                       const std::vector<const InterfaceAddress*>& all) {
  std::string text;
  if (!flags.oneline) text = LinkText(world, device, flags, LinkLine::kAddress);
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string address = AddressText(device, all, i);
    // With -o each address is a record that begins with the device.
    text += flags.oneline
                ? Record(absl::StrCat(device.ifindex(), ": ", device.name(), address), flags)
                : address;
  }
  if (flags.statistics > 0 && !flags.oneline) text += StatisticsText(device, flags.statistics);
  return text;
}

Json DeviceJson(const World& world, const NetDevice& device, const IpFlags& flags,
                const std::vector<const InterfaceAddress*>& all) {
  Json json = LinkJson(world, device, flags, LinkLine::kAddress);
  json["addr_info"] = Json::array();
  for (size_t i = 0; i < all.size(); ++i) {
    json["addr_info"].push_back(AddressJson(device, all, i));
  }
  if (flags.statistics > 0) json["stats64"] = StatisticsJson(device, flags.statistics);
  return json;
}

}  // namespace

std::string AddressTable(const World& world, const Devices& devices, const IpFlags& flags) {
  Json list = Json::array();
  std::string text;
  for (const NetDevice* device : devices) {
    const std::vector<const InterfaceAddress*> all = AddressesOf(world, *device, flags);
    // A device without addresses of the family that was asked for is left out.
    if (flags.family.has_value() && all.empty()) continue;
    if (flags.json) {
      list.push_back(flags.brief ? BriefJson(world, *device, all)
                                 : DeviceJson(world, *device, flags, all));
    } else {
      text += flags.brief ? BriefText(world, *device, all) : DeviceText(world, *device, flags, all);
    }
  }
  return flags.json ? JsonText(list, flags.pretty) : text;
}

}  // namespace tapwire::apps::ctl
