// SPDX-License-Identifier: Apache-2.0
// `ip link`, and what `ip addr` has in common with it. Layouts: iproute2 6.1.

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "apps/ctl/ip_view.h"
#include "drivers/tap/tap_device.h"
#include "netdev/macvlan.h"
#include "netdev/registry.h"
#include "netdev/tx_queue.h"
#include "netdev/vlan_device.h"

namespace tapwire::apps::ctl {
namespace {

using netdev::Macvlan;
using netdev::NetDevice;

const NetDevice* Parent(const World& world, const NetDevice& device) {
  const uint32_t index = device.parent_ifindex();
  return index == device.ifindex() ? nullptr : world.context.registry().Find(index);
}

// In the order of iproute2.
std::vector<std::string> Flags(const World& world, const NetDevice& device) {
  std::vector<std::string> flags;
  const auto add = [&](bool set, const char* name) {
    if (set) flags.emplace_back(name);
  };
  const NetDevice* parent = Parent(world, device);
  const bool loopback = device.is_loopback();
  add(device.is_up() && device.oper_state() != netdev::OperState::kUp, "NO-CARRIER");
  add(loopback, "LOOPBACK");
  add(!loopback, "BROADCAST");
  add(!loopback, "MULTICAST");
  add(world.allmulti.contains(device.ifindex()), "ALLMULTI");
  add(world.promiscuous.contains(device.ifindex()), "PROMISC");
  add(device.is_up(), "UP");
  add(device.is_running(), "LOWER_UP");
  add(device.is_up() && device.is_dormant(), "DORMANT");
  add(parent != nullptr && !parent->is_up(), "M-DOWN");
  return flags;
}

const char* QueueName(const NetDevice& device) {
  if (device.has_tx_queue()) return "pfifo";
  return device.is_up() ? "noqueue" : "noop";
}

size_t QueueCount(const NetDevice& device) {
  const auto* tap = dynamic_cast<const drivers::TapDevice*>(&device);
  return tap == nullptr ? 1 : tap->queue_count();
}

// How the automatic link-local address comes about: RFC 7217, where there is a stack.
const char* AddressMode(const World& world, const NetDevice& device) {
  return InterfaceOf(world, device) == nullptr ? "none" : "stable_secret";
}

// `ip -4 addr` shows addresses of that family only.
bool HidesLinkLayer(const IpFlags& flags, LinkLine line) {
  return line == LinkLine::kAddress && flags.family.has_value() && !flags.details;
}

const char* Broadcast(const NetDevice& device) {
  return device.is_loopback() ? "00:00:00:00:00:00" : "ff:ff:ff:ff:ff:ff";
}

// ---- Details of kinds ----

std::vector<std::string> SourceTexts(const Macvlan& macvlan) {
  std::vector<std::string> texts;
  for (const MacAddress& mac : macvlan.sources()) texts.push_back(mac.ToString());
  return texts;
}

std::string MacvlanText(const Macvlan& macvlan) {
  std::string text = absl::StrCat("mode ", netdev::MacvlanModeName(macvlan.mode()), " ");
  if ((macvlan.flags() & netdev::kMacvlanNoPromisc) != 0) text += "nopromisc ";
  if ((macvlan.flags() & netdev::kMacvlanNoDst) != 0) text += "nodst ";
  absl::StrAppend(&text, "bcqueuelen ", macvlan.broadcast_queue_packets(), " usedbcqueuelen ",
                  macvlan.used_broadcast_queue_packets(), " ");
  if (macvlan.broadcast_cutoff() != 1) {
    absl::StrAppend(&text, "bccutoff ", macvlan.broadcast_cutoff(), " ");
  }
  if (macvlan.mode() == netdev::MacvlanMode::kSource) {
    const std::vector<std::string> sources = SourceTexts(macvlan);
    absl::StrAppend(&text, "remotes (", sources.size(), ") ", absl::StrJoin(sources, " "),
                    sources.empty() ? "" : " ");
  }
  if (!macvlan.always_on()) text += "always_on off ";
  if (macvlan.rx() == netdev::MacvlanRx::kQueue) text += "rx queue ";
  return text;
}

Json MacvlanJson(const Macvlan& macvlan) {
  Json json;
  json["mode"] = std::string(netdev::MacvlanModeName(macvlan.mode()));
  if ((macvlan.flags() & netdev::kMacvlanNoPromisc) != 0) json["nopromisc"] = true;
  if ((macvlan.flags() & netdev::kMacvlanNoDst) != 0) json["nodst"] = true;
  json["bcqueuelen"] = macvlan.broadcast_queue_packets();
  json["usedbcqueuelen"] = macvlan.used_broadcast_queue_packets();
  if (macvlan.broadcast_cutoff() != 1) json["bccutoff"] = macvlan.broadcast_cutoff();
  if (macvlan.mode() == netdev::MacvlanMode::kSource) {
    const std::vector<std::string> sources = SourceTexts(macvlan);
    json["macaddr_count"] = sources.size();
    json["macaddr_data"] = sources;
  }
  if (!macvlan.always_on()) json["always_on"] = false;
  if (macvlan.rx() == netdev::MacvlanRx::kQueue) json["rx"] = "queue";
  return json;
}

const char* VlanProtocolName(const netdev::VlanTag& tag) {
  return tag.protocol == wire::EtherType::kQinQ ? "802.1ad" : "802.1Q";
}

std::string KindText(const NetDevice& device) {
  std::string text = absl::StrCat("    ", device.kind(), " ");
  if (const auto* macvlan = dynamic_cast<const Macvlan*>(&device)) {
    text += MacvlanText(*macvlan);
  } else if (const auto tag = netdev::VlanTagOf(device)) {
    absl::StrAppend(&text, "protocol ", VlanProtocolName(*tag), " id ", tag->vlan_id,
                    " <REORDER_HDR> ");
  }
  return text;
}

Json KindJson(const NetDevice& device) {
  Json json = {{"info_kind", std::string(device.kind())}};
  if (const auto* macvlan = dynamic_cast<const Macvlan*>(&device)) {
    json["info_data"] = MacvlanJson(*macvlan);
  } else if (const auto tag = netdev::VlanTagOf(device)) {
    json["info_data"] = {{"protocol", VlanProtocolName(*tag)},
                         {"id", tag->vlan_id},
                         {"flags", Json::array({"REORDER_HDR"})}};
  }
  return json;
}

std::string DetailText(const World& world, const NetDevice& device, LinkLine line) {
  std::string text =
      absl::StrCat(" promiscuity ", device.promiscuity(), "  allmulti ", device.allmulti(),
                   " minmtu ", device.min_mtu(), " maxmtu ", device.max_mtu(), " ");
  if (!device.is_loopback()) absl::StrAppend(&text, "\n", KindText(device));
  if (line == LinkLine::kLink) {
    absl::StrAppend(&text, "addrgenmode ", AddressMode(world, device), " ");
  }
  absl::StrAppend(&text, "numtxqueues ", QueueCount(device), " numrxqueues ", QueueCount(device),
                  " gso_max_size ", device.gso_max_size(), " gso_max_segs ", device.gso_max_segs());
  absl::StrAppend(&text, " tso_max_size ", device.tso_max_size(), " tso_max_segs ",
                  device.tso_max_segs(), " gro_max_size ", device.gro_max_size(), " ");
  return text;
}

void AddDetails(const World& world, const NetDevice& device, LinkLine line, Json& json) {
  json["promiscuity"] = device.promiscuity();
  json["allmulti"] = device.allmulti();
  json["min_mtu"] = device.min_mtu();
  json["max_mtu"] = device.max_mtu();
  if (!device.is_loopback()) json["linkinfo"] = KindJson(device);
  if (line == LinkLine::kLink) json["inet6_addr_gen_mode"] = AddressMode(world, device);
  json["num_tx_queues"] = QueueCount(device);
  json["num_rx_queues"] = QueueCount(device);
  json["gso_max_size"] = device.gso_max_size();
  json["gso_max_segs"] = device.gso_max_segs();
  json["tso_max_size"] = device.tso_max_size();
  json["tso_max_segs"] = device.tso_max_segs();
  json["gro_max_size"] = device.gro_max_size();
}

std::string BriefLink(const World& world, const NetDevice& device) {
  return absl::StrFormat("%-16s %-14s %s <%s> \n", NameWithParent(world, device), StateText(device),
                         device.mac().ToString(), absl::StrJoin(Flags(world, device), ","));
}

// ---- Statistics ----

// A line of figures or titles: each right-aligned to its column, with a blank behind it.
using Columns = std::array<size_t, 6>;
std::string Figures(const std::array<uint64_t, 6>& values, const Columns& widths, size_t first) {
  std::string text;
  for (size_t i = first; i < values.size(); ++i) {
    absl::StrAppend(&text, absl::StrFormat("%*d ", static_cast<int>(widths[i]), values[i]));
  }
  return text;
}

void Widen(const std::array<uint64_t, 6>& values, Columns& widths) {
  for (size_t i = 0; i < values.size(); ++i) {
    widths[i] = std::max(widths[i], absl::StrCat(values[i]).size());
  }
}

std::string Titles(absl::string_view head, const std::array<const char*, 6>& titles,
                   const Columns& widths) {
  std::string text =
      absl::StrFormat("    %s%*s", head, static_cast<int>(widths[0] - head.size()), titles[0]);
  for (size_t i = 1; i < titles.size(); ++i) {
    absl::StrAppend(&text, absl::StrFormat(" %*s", static_cast<int>(widths[i]), titles[i]));
  }
  return text;
}

constexpr std::array<const char*, 6> kRxTitles = {"bytes",   "packets", "errors",
                                                  "dropped", "missed",  "mcast"};
constexpr std::array<const char*, 6> kTxTitles = {"bytes",   "packets", "errors",
                                                  "dropped", "carrier", "collsns"};
constexpr std::array<const char*, 6> kRxErrorTitles = {"",      "length", "crc",
                                                       "frame", "fifo",   "overrun"};
constexpr std::array<const char*, 6> kTxErrorTitles = {"",       "aborted", "fifo",
                                                       "window", "heartbt", "transns"};
constexpr size_t kCompressedWidth = 11;  // of the column that is always empty, with its blank

// What our devices do not tell apart is zero.
std::string ErrorLines(absl::string_view head, const std::array<const char*, 6>& titles,
                       const Columns& widths) {
  return absl::StrCat(Titles(head, titles, widths), "\n", std::string(widths[0] + 5, ' '),
                      Figures({}, widths, 1), "\n");
}

}  // namespace

std::string StatisticsText(const NetDevice& device, int level) {
  const netdev::DeviceStats& stats = device.stats();
  const std::array<uint64_t, 6> rx = {stats.rx_bytes.value(),
                                      stats.rx_packets.value(),
                                      stats.rx_errors.value(),
                                      stats.rx_dropped.value(),
                                      0,
                                      stats.rx_multicast.value()};
  const std::array<uint64_t, 6> tx = {stats.tx_bytes.value(),
                                      stats.tx_packets.value(),
                                      stats.tx_errors.value(),
                                      stats.tx_dropped.value(),
                                      0,
                                      0};
  Columns widths = {10, 7, 6, 7, 7, 7};
  Widen(rx, widths);
  Widen(tx, widths);
  const std::string empty(kCompressedWidth, ' ');
  std::string text =
      absl::StrCat(Titles("RX:", kRxTitles, widths), empty, "\n    ", Figures(rx, widths, 0), "\n");
  if (level > 1) text += ErrorLines("RX errors:", kRxErrorTitles, widths);
  absl::StrAppend(&text, Titles("TX:", kTxTitles, widths), empty, "\n    ", Figures(tx, widths, 0),
                  "\n");
  if (level > 1) text += ErrorLines("TX errors:", kTxErrorTitles, widths);
  return text;
}

Json StatisticsJson(const NetDevice& device, int level) {
  const netdev::DeviceStats& stats = device.stats();
  Json rx = {{"bytes", stats.rx_bytes.value()},
             {"packets", stats.rx_packets.value()},
             {"errors", stats.rx_errors.value()},
             {"dropped", stats.rx_dropped.value()},
             {"over_errors", 0},
             {"multicast", stats.rx_multicast.value()}};
  Json tx = {{"bytes", stats.tx_bytes.value()},
             {"packets", stats.tx_packets.value()},
             {"errors", stats.tx_errors.value()},
             {"dropped", stats.tx_dropped.value()},
             {"carrier_errors", 0},
             {"collisions", 0}};
  if (level > 1) {
    for (const char* key :
         {"length_errors", "crc_errors", "frame_errors", "fifo_errors", "missed_errors"}) {
      rx[key] = 0;
    }
    if (stats.rx_nohandler.value() > 0) rx["nohandler"] = stats.rx_nohandler.value();
    for (const char* key : {"aborted_errors", "fifo_errors", "window_errors", "heartbeat_errors",
                            "carrier_changes"}) {
      tx[key] = 0;
    }
  }
  return {{"rx", rx}, {"tx", tx}};
}

std::string NameWithParent(const World& world, const NetDevice& device) {
  const NetDevice* parent = Parent(world, device);
  return parent == nullptr ? device.name() : absl::StrCat(device.name(), "@", parent->name());
}

absl::string_view StateText(const NetDevice& device) {
  // Linux has no RFC 2863 state for a loopback device that is up.
  return device.is_loopback() && device.is_up() ? "UNKNOWN"
                                                : netdev::OperStateName(device.oper_state());
}

std::string LinkText(const World& world, const NetDevice& device, const IpFlags& flags,
                     LinkLine line) {
  std::string text = absl::StrCat(device.ifindex(), ": ", NameWithParent(world, device), ": <",
                                  absl::StrJoin(Flags(world, device), ","), "> mtu ", device.mtu(),
                                  " qdisc ", QueueName(device));
  absl::StrAppend(&text, " state ", StateText(device),
                  line == LinkLine::kLink ? " mode DEFAULT" : "", " group default qlen ",
                  netdev::TxQueue::kLimitPackets, "\n");
  if (HidesLinkLayer(flags, line)) return text;
  absl::StrAppend(&text, "    link/", device.is_loopback() ? "loopback " : "ether ",
                  device.mac().ToString(), " brd ", Broadcast(device));
  if (flags.details) text += DetailText(world, device, line);
  return text + "\n";
}

Json LinkJson(const World& world, const NetDevice& device, const IpFlags& flags, LinkLine line) {
  Json json;
  json["ifindex"] = device.ifindex();
  if (const NetDevice* parent = Parent(world, device)) json["link"] = parent->name();
  json["ifname"] = device.name();
  json["flags"] = Flags(world, device);
  json["mtu"] = device.mtu();
  json["qdisc"] = QueueName(device);
  json["operstate"] = std::string(StateText(device));
  if (line == LinkLine::kLink) json["linkmode"] = "DEFAULT";
  json["group"] = "default";
  json["txqlen"] = netdev::TxQueue::kLimitPackets;
  if (HidesLinkLayer(flags, line)) return json;
  json["link_type"] = device.is_loopback() ? "loopback" : "ether";
  json["address"] = device.mac().ToString();
  json["broadcast"] = Broadcast(device);
  if (flags.details) AddDetails(world, device, line, json);
  return json;
}

namespace {

Json BriefLinkJson(const World& world, const NetDevice& device) {
  Json json;
  if (const NetDevice* parent = Parent(world, device)) json["link"] = parent->name();
  json["ifname"] = device.name();
  json["operstate"] = std::string(StateText(device));
  json["address"] = device.mac().ToString();
  json["flags"] = Flags(world, device);
  return json;
}

}  // namespace

std::string LinkTable(const World& world, const Devices& devices, const IpFlags& flags) {
  Json list = Json::array();
  std::string text;
  for (const NetDevice* device : devices) {
    if (flags.json) {
      Json json = flags.brief ? BriefLinkJson(world, *device)
                              : LinkJson(world, *device, flags, LinkLine::kLink);
      if (flags.statistics > 0 && !flags.brief) {
        json["stats64"] = StatisticsJson(*device, flags.statistics);
      }
      list.push_back(std::move(json));
    } else if (flags.brief) {
      text += BriefLink(world, *device);
    } else {
      std::string record = LinkText(world, *device, flags, LinkLine::kLink);
      if (flags.statistics > 0) record += StatisticsText(*device, flags.statistics);
      text += Record(std::move(record), flags);
    }
  }
  return flags.json ? JsonText(list, flags.pretty) : text;
}

std::string Record(std::string text, const IpFlags& flags) {
  if (!flags.oneline || text.empty()) return text;
  text.pop_back();
  return absl::StrCat(absl::StrReplaceAll(text, {{"\n", "\\"}}), "\n");
}

std::vector<Stack*> StacksOf(const World& world, const IpFlags& flags) {
  std::vector<Stack*> stacks;
  for (const World::NamedStack& named : world.stacks) {
    if (flags.stack.empty() || flags.stack == named.name) stacks.push_back(named.stack);
  }
  return stacks;
}

Interface* InterfaceOf(const World& world, const NetDevice& device) {
  for (const World::NamedStack& named : world.stacks) {
    if (Interface* interface = named.stack->FindInterface(device.ifindex())) return interface;
  }
  return nullptr;
}

}  // namespace tapwire::apps::ctl
