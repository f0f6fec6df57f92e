// SPDX-License-Identifier: Apache-2.0
// Creation, changes and the end of a macvlan, and how it sends.
#include "netdev/macvlan.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "netdev/forward.h"
#include "netdev/macvlan_port.h"
#include "netdev/tx_path.h"
#include "netdev/wire/ethernet.h"

namespace tapwire::netdev {
namespace {

struct ModeName {
  MacvlanMode mode;
  absl::string_view name;
};
constexpr std::array<ModeName, 5> kModeNames = {{{MacvlanMode::kPrivate, "private"},
                                                 {MacvlanMode::kVepa, "vepa"},
                                                 {MacvlanMode::kBridge, "bridge"},
                                                 {MacvlanMode::kPassthru, "passthru"},
                                                 {MacvlanMode::kSource, "source"}}};

absl::Status Invalid(absl::string_view name, absl::string_view what) {
  return ErrnoStatus(EINVAL, absl::StrCat(name, ": ", what));
}

// ---- Values that are wrong whatever the devices are like ----

absl::Status CheckMode(absl::string_view name, uint32_t mode) {
  if (!MacvlanModeName(static_cast<MacvlanMode>(mode)).empty()) return absl::OkStatus();
  return Invalid(name, absl::StrCat("unknown macvlan mode ", mode,
                                    "; use private (1), vepa (2), bridge (4), passthru (8) or "
                                    "source (16)"));
}

absl::Status CheckFlags(absl::string_view name, uint16_t flags) {
  if ((flags & ~(kMacvlanNoPromisc | kMacvlanNoDst)) == 0) return absl::OkStatus();
  return Invalid(
      name, absl::StrCat("unknown macvlan flags ", flags, "; use nopromisc (1) and nodst (2)"));
}

absl::Status CheckAddress(absl::string_view name, const MacAddress& mac) {
  if (mac.IsUnicast()) return absl::OkStatus();
  return ErrnoStatus(EADDRNOTAVAIL,
                     absl::StrCat(name, ": ", mac.ToString(),
                                  " cannot be the address of a station; use one that is neither "
                                  "zero nor a group address"));
}

absl::Status CheckSourceChange(absl::string_view name, const MacvlanSourceChange& change) {
  using Command = MacvlanSourceChange::Command;
  if (change.command > Command::kSet) {
    return Invalid(name,
                   absl::StrCat("unknown source command ", static_cast<uint32_t>(change.command),
                                "; use add, del, flush or set"));
  }
  if (change.address) TW_RETURN_IF_ERROR(CheckAddress(name, *change.address));
  for (const MacAddress& address : change.list) TW_RETURN_IF_ERROR(CheckAddress(name, address));
  return absl::OkStatus();
}

absl::Status CheckOptions(const MacvlanOptions& options) {
  if (options.mac) TW_RETURN_IF_ERROR(CheckAddress(options.name, *options.mac));
  TW_RETURN_IF_ERROR(CheckFlags(options.name, options.flags));
  TW_RETURN_IF_ERROR(CheckMode(options.name, options.mode));
  return options.source ? CheckSourceChange(options.name, *options.source) : absl::OkStatus();
}

absl::Status CheckChange(absl::string_view name, const MacvlanChange& change) {
  if (change.flags) TW_RETURN_IF_ERROR(CheckFlags(name, *change.flags));
  if (change.mode) TW_RETURN_IF_ERROR(CheckMode(name, *change.mode));
  return change.source ? CheckSourceChange(name, *change.source) : absl::OkStatus();
}

absl::Status SourceModeOnly(absl::string_view name) {
  return Invalid(name, "has no source addresses, since it is not in source mode; choose that mode");
}

// ---- Creation ----

// A macvlan never stands on another: its lower device takes its place.
absl::StatusOr<NetDevice*> FindLower(NetContext& context, uint32_t ifindex,
                                     absl::string_view name) {
  if (ifindex == 0) return Invalid(name, "a macvlan needs a lower device; name one");
  NetDevice* lower = context.registry().Find(ifindex);
  if (lower == nullptr) {
    return ErrnoStatus(ENODEV, absl::StrCat(name, ": the lower device, of index ", ifindex,
                                            ", does not exist; choose another"));
  }
  const auto* macvlan = dynamic_cast<const Macvlan*>(lower);
  return macvlan == nullptr ? lower : &macvlan->lower();
}

// Whether the macvlans that are there leave room for this one.
absl::Status CheckCompany(const MacvlanPort& port, const MacvlanOptions& options,
                          const NetDevice& lower) {
  if (port.is_passthru()) {
    return Invalid(options.name, absl::StrCat(lower.name(),
                                              " belongs to a macvlan in passthru "
                                              "mode; remove that one first"));
  }
  if (options.mode == static_cast<uint32_t>(MacvlanMode::kPassthru) && !port.macvlans().empty()) {
    return Invalid(options.name, absl::StrCat(lower.name(),
                                              " has other macvlans already, so none "
                                              "can have it to itself; remove them or choose "
                                              "another mode"));
  }
  return absl::OkStatus();
}

absl::StatusOr<NetDevice::Init> InitFor(const MacvlanOptions& options, const NetDevice& lower) {
  const uint32_t mtu = options.mtu.value_or(lower.mtu());
  if (mtu > lower.mtu()) {
    return Invalid(options.name, absl::StrCat("MTU ", mtu, " is above ", lower.mtu(), ", that of ",
                                              lower.name(), "; choose one up to it"));
  }
  NetDevice::Init init{.name = options.name,
                       .mac = options.mac.value_or(MacAddress()),
                       .mtu = mtu,
                       .max_mtu = lower.max_mtu()};
  if (options.mode == static_cast<uint32_t>(MacvlanMode::kPassthru)) init.mac = lower.mac();
  return init;
}

}  // namespace

absl::string_view MacvlanModeName(MacvlanMode mode) {
  for (const ModeName& entry : kModeNames) {
    if (entry.mode == mode) return entry.name;
  }
  return "";
}

std::optional<MacvlanMode> MacvlanModeByName(absl::string_view name) {
  for (const ModeName& entry : kModeNames) {
    if (entry.name == name) return entry.mode;
  }
  return std::nullopt;
}

absl::StatusOr<Macvlan*> CreateMacvlan(NetContext& context, uint32_t lower_ifindex,
                                       MacvlanOptions options) {
  Registry& registry = context.registry();
  if (options.name.empty()) options.name = registry.FreeName("macvlan");
  TW_RETURN_IF_ERROR(CheckOptions(options));
  TW_ASSIGN_OR_RETURN(NetDevice * lower, FindLower(context, lower_ifindex, options.name));
  TW_ASSIGN_OR_RETURN(NetDevice::Init init, InitFor(options, *lower));
  TW_ASSIGN_OR_RETURN(std::shared_ptr<MacvlanPort> port, MacvlanPort::Of(*lower));
  TW_RETURN_IF_ERROR(CheckCompany(*port, options, *lower));
  if (options.mode == static_cast<uint32_t>(MacvlanMode::kPassthru)) port->BecomePassthru();

  std::unique_ptr<Macvlan> device(new Macvlan(std::move(init), options, port));
  if (options.source) TW_RETURN_IF_ERROR(device->ChangeSources(*options.source));
  if (options.broadcast_cutoff) port->multicast().SetCutoff(*options.broadcast_cutoff);
  TW_ASSIGN_OR_RETURN(Macvlan * macvlan, registry.Register(std::move(device)));
  if (registry.Find(macvlan->ifindex()) != macvlan) {
    return ErrnoStatus(ENODEV, absl::StrCat(options.name,
                                            ": was removed as soon as it existed; "
                                            "look at what watches new devices"));
  }
  if (absl::Status linked = lower->LinkUpper(*macvlan); !linked.ok()) {
    registry.Unregister(*macvlan);
    return linked;
  }
  macvlan->FollowLinkState();
  return macvlan;
}

Macvlan::Macvlan(Init init, const MacvlanOptions& options, std::shared_ptr<MacvlanPort> port)
    : NetDevice(port->lower().context(), std::move(init)),
      lower_(port->lower()),
      port_(std::move(port)),
      mode_(static_cast<MacvlanMode>(options.mode)),
      flags_(options.flags),
      always_on_(options.always_on),
      rx_(options.rx),
      broadcast_queue_packets_(options.broadcast_queue_packets),
      filter_salt_(context().random().Next32()) {
  set_counts_received(true);
}

Macvlan::~Macvlan() { FlushSources(); }

uint32_t Macvlan::parent_ifindex() const { return lower_.ifindex(); }

absl::Status Macvlan::OnInit() {
  InitFeatures();
  FollowLinkState();
  port_->Join(*this);
  joined_ = true;
  return absl::OkStatus();
}

void Macvlan::OnUninit() { LeaveLower(); }
void Macvlan::OnUnregister() { LeaveLower(); }

void Macvlan::LeaveLower() {
  FlushSources();
  if (std::exchange(joined_, false)) port_->Leave(*this);
}

uint32_t Macvlan::used_broadcast_queue_packets() const { return port_->multicast().queue_limit(); }
int32_t Macvlan::broadcast_cutoff() const { return port_->multicast().cutoff(); }

// ---- Changes ----

// The order decides what stays done when a later part is refused.
absl::Status Macvlan::Change(const MacvlanChange& change) {
  TW_RETURN_IF_ERROR(CheckChange(name(), change));
  const MacvlanMode mode = change.mode ? static_cast<MacvlanMode>(*change.mode) : mode_;
  if ((mode == MacvlanMode::kPassthru) != (mode_ == MacvlanMode::kPassthru)) {
    return Invalid(name(), "cannot change to or from passthru mode; make a new macvlan");
  }
  if (mode_ == MacvlanMode::kSource && mode != mode_) FlushSources();
  if (change.flags) TW_RETURN_IF_ERROR(ChangeFlags(*change.flags));
  if (change.broadcast_queue_packets) {
    broadcast_queue_packets_ = *change.broadcast_queue_packets;
    port_->RecomputeQueueLimit();
  }
  if (change.broadcast_cutoff) port_->multicast().SetCutoff(*change.broadcast_cutoff);
  mode_ = mode;
  return change.source ? ChangeSources(*change.source) : absl::OkStatus();
}

// Linux takes the promiscuity of a passthru's lower device away, or adds it, whether the macvlan is
// up and ever had it or not.
absl::Status Macvlan::ChangeFlags(uint16_t flags) {
  if (port_->is_passthru() && ((flags ^ flags_) & kMacvlanNoPromisc) != 0) {
    TW_RETURN_IF_ERROR(lower_.ChangePromiscuity((flags & kMacvlanNoPromisc) != 0 ? -1 : 1));
  }
  flags_ = flags;
  return absl::OkStatus();
}

absl::Status Macvlan::ChangeSources(const MacvlanSourceChange& change) {
  using Command = MacvlanSourceChange::Command;
  if (mode_ != MacvlanMode::kSource) return SourceModeOnly(name());
  const bool needs_address = change.command == Command::kAdd || change.command == Command::kDel;
  if (needs_address && !change.address) {
    return Invalid(name(), "which source address to add or delete? Give one");
  }
  switch (change.command) {
    case Command::kAdd:
      AddSource(*change.address);
      break;
    case Command::kDel:
      RemoveSource(*change.address);
      break;
    case Command::kFlush:
      FlushSources();
      break;
    case Command::kSet:
      FlushSources();
      if (change.address) AddSource(*change.address);
      for (const MacAddress& address : change.list) AddSource(address);
      break;
  }
  return absl::OkStatus();
}

std::vector<MacAddress> Macvlan::sources() const { return sources_; }

void Macvlan::AddSource(const MacAddress& address) {
  if (std::find(sources_.begin(), sources_.end(), address) != sources_.end()) return;
  sources_.push_back(address);
  port_->sources().Add(address, *this);
}

void Macvlan::RemoveSource(const MacAddress& address) {
  sources_.erase(std::remove(sources_.begin(), sources_.end(), address), sources_.end());
  port_->sources().Remove(address, *this);
}

void Macvlan::FlushSources() {
  for (const MacAddress& address : sources_) port_->sources().Remove(address, *this);
  sources_.clear();
}

// ---- Sending ----

TxResult Macvlan::StartXmit(PacketPtr packet, bool /*more*/) {
  if (mode_ == MacvlanMode::kBridge) {
    const auto ethernet = wire::EthernetHeader::Parse(packet->head_bytes());
    const MacAddress destination = ethernet->destination();
    if (destination.IsMulticast()) {
      port_->multicast().Transmit(*packet, *this);
    } else if (const Macvlan* peer = port_->Find(destination);
               peer != nullptr && peer->mode_ == MacvlanMode::kBridge) {
      // Through the lower device, whose taps show local traffic too. A loss is counted there, as
      // one of a switch would be: the frame has been sent.
      static_cast<void>(ForwardToDevice(std::move(packet), lower_));
      return TxResult::kSent;
    }
  }
  const TxResult result = TxPath::Transmit(std::move(packet), lower_);
  // The reason is counted where it was decided, below.
  if (!TxOk(result)) stats().tx_dropped.Inc();
  return result;
}

}  // namespace tapwire::netdev
