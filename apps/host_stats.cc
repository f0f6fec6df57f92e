// SPDX-License-Identifier: Apache-2.0
// Statistics as text: `name  value  # what it means`, only what is not zero.

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "apps/host.h"
#include "apps/report.h"
#include "netdev/registry.h"
#include "stack/mib.h"

namespace tapwire::apps {
namespace {

class StatsPrinter {
 public:
  explicit StatsPrinter(std::FILE* out) : out_(out) {}

  void Line(absl::string_view name, uint64_t value, absl::string_view help) {
    if (value == 0) return;
    std::fprintf(out_, "%-36s %12llu  # %s\n", std::string(name).c_str(),
                 static_cast<unsigned long long>(value), std::string(help).c_str());
  }
  template <typename Counters>
  void List(absl::string_view prefix, const Counters& counters) {
    counters.ForEach([&](absl::string_view name, absl::string_view help, uint64_t value) {
      Line(absl::StrCat(prefix, name), value, help);
    });
  }
  void Drops(absl::string_view prefix, const DropCounters& drops) {
    drops.ForEach([&](DropReason reason, uint64_t value) {
      Line(absl::StrCat(prefix, DropReasonName(reason)), value, DropReasonHelp(reason));
    });
  }

 private:
  std::FILE* out_;
};

}  // namespace

void Host::PrintStats(std::FILE* out) const {
  StatsPrinter printer(out);
  for (const netdev::NetDevice* device : context_->registry().devices()) {
    if (device->is_loopback()) continue;
    const std::string prefix = absl::StrCat(device->name(), ".");
    printer.List(prefix, device->stats());
    device->ForEachDriverStat([&](absl::string_view name, uint64_t value) {
      printer.Line(absl::StrCat(prefix, name), value, "driver");
    });
    printer.Drops(absl::StrCat(prefix, "drop."), device->drops());
  }
  const Mib& mib = stack_->mib();
  printer.List("Ip", mib.ip);
  printer.List("Ip6", mib.ip6);
  printer.List("Icmp", mib.icmp);
  printer.List("Icmp6", mib.icmp6);
  printer.List("Udp", mib.udp);
  printer.List("Udp6", mib.udp6);
  printer.List("Tcp", mib.tcp);
  printer.List("TcpExt", mib.tcp_ext);
  printer.List("Arp", mib.arp);
  printer.List("Neighbor", mib.neighbor);
  printer.Drops("drop.", stack_->drops());
  FlushOutput(out);
}

}  // namespace tapwire::apps
