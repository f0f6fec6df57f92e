// SPDX-License-Identifier: Apache-2.0
// System calls about options and readiness.

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/pkt/calls.h"

namespace tapwire::pkt {
namespace {

// A member by either of its names.
const Expr* FindEither(const Expr& expr, absl::string_view a, absl::string_view b) {
  const Expr* found = expr.Find(a);
  return found != nullptr ? found : expr.Find(b);
}

std::string BytesOf(const void* data, size_t size) {
  return {static_cast<const char*>(data), size};
}

// The bytes that setsockopt gets.
std::string OptionBytes(CallArgs& args, int level, int name, const Expr& value) {
  if (value.kind == Expr::Kind::kString) return value.text;
  if (value.kind == Expr::Kind::kStruct) {
    const Expr* on = FindEither(value, "onoff", "l_onoff");
    const Expr* off = FindEither(value, "linger", "l_linger");
    if (level == SOL_SOCKET && name == SO_LINGER && on != nullptr && off != nullptr) {
      linger l{};
      l.l_onoff = static_cast<int>(args.Number(*on));
      l.l_linger = static_cast<int>(args.Number(*off));
      return BytesOf(&l, sizeof(l));
    }
    const Expr* sec = FindEither(value, "tv_sec", "sec");
    const Expr* usec = FindEither(value, "tv_usec", "usec");
    if (sec != nullptr && usec != nullptr) {
      timeval t{};
      t.tv_sec = args.Number(*sec);
      t.tv_usec = args.Number(*usec);
      return BytesOf(&t, sizeof(t));
    }
    args.Unsupported("socket option with a structure of its own");
    return {};
  }
  const int number = static_cast<int>(args.Number(value));
  return BytesOf(&number, sizeof(number));
}

int IntOf(const std::string& bytes) {
  int value = 0;
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(value)));
  return value;
}

}  // namespace

int64_t Calls::SetSockOpt(CallArgs& args) {
  if (!args.Count(5)) return 0;
  const int level = args.Int(1);
  const int name = args.Int(2);
  if (args.failed()) return 0;
  std::string bytes = OptionBytes(args, level, name, args.at(3));
  const int64_t length = args.Number(4);
  if (args.failed()) return 0;
  if (length < 0 || length > 4096) return -EINVAL;
  // As long as the script says, whatever the value's own size.
  bytes.resize(static_cast<size_t>(length));
  return table().SetSockOpt(args.Fd(0), level, name, bytes.data(), static_cast<socklen_t>(length));
}

int64_t Calls::GetSockOpt(CallArgs& args) {
  if (!args.Count(5)) return 0;
  const int level = args.Int(1);
  const int name = args.Int(2);
  const int64_t size = args.at(4).IsEllipsis() ? 4 : args.Number(4);
  if (args.failed()) return 0;
  if (size < 0 || size > 4096) return -EINVAL;
  std::string bytes(4096, '\0');
  auto length = static_cast<socklen_t>(size);
  const int result = table().GetSockOpt(args.Fd(0), level, name, bytes.data(), &length);
  if (result != 0) return result;
  bytes.resize(length);
  const Expr& wanted = args.at(3);
  if (wanted.kind == Expr::Kind::kString) {
    if (absl::string_view(bytes.c_str()) != wanted.text) {
      args.Fail(absl::StrCat("option is \"", bytes.c_str(), "\", expected \"", wanted.text, "\""));
    }
  } else if (wanted.kind == Expr::Kind::kStruct) {
    const std::string expected = OptionBytes(args, level, name, wanted);
    if (!args.failed() && expected != bytes) args.Fail("option has another value than expected");
  } else {
    CheckNumber(args, "option", wanted, IntOf(bytes));
  }
  return result;
}

int64_t Calls::Fcntl(CallArgs& args) {
  if (!args.Count(2, 3)) return 0;
  const long argument = args.size() == 3 ? static_cast<long>(args.Number(2)) : 0;
  const int command = args.Int(1);
  return args.failed() ? 0 : table().Fcntl(args.Fd(0), command, argument);
}

int64_t Calls::Ioctl(CallArgs& args) {
  if (!args.Count(2, 3)) return 0;
  const auto request = static_cast<unsigned long>(args.Number(1));
  const bool given = args.size() == 3 && !args.at(2).IsEllipsis();
  int value = given ? args.Int(2) : 0;
  if (args.failed()) return 0;
  if (request != FIONBIO) value = 0;
  const int result = table().Ioctl(args.Fd(0), request, &value);
  if (result >= 0 && given && request != FIONBIO) CheckNumber(args, "value", args.at(2), value);
  return result;
}

int64_t Calls::Poll(CallArgs& args) {
  if (!args.Count(3)) return 0;
  std::vector<pollfd> fds;
  const Expr& list = args.at(0);
  for (const Expr& item : list.items) {
    const Expr* fd = item.Find("fd");
    const Expr* events = item.Find("events");
    if (fd == nullptr || events == nullptr) {
      args.Fail("poll() takes [{fd=…, events=…, revents=…}]");
      return 0;
    }
    fds.push_back({session_.Live(args.Number(*fd)), static_cast<short>(args.Number(*events)), 0});
  }
  const int64_t count = args.Number(1);
  const int timeout = args.Int(2);
  if (args.failed()) return 0;
  if (count < 0 || static_cast<size_t>(count) > fds.size()) {
    args.Fail("poll() with more entries than are given");
    return 0;
  }
  const int result = table().Poll(fds.data(), static_cast<nfds_t>(count), timeout);
  for (size_t i = 0; result >= 0 && i < fds.size(); ++i) {
    const Expr* wanted = list.items[i].Find("revents");
    if (wanted != nullptr) CheckNumber(args, "revents", *wanted, fds[i].revents);
  }
  return result;
}

int64_t Calls::EpollCreate(CallArgs& args) {
  if (!args.Count(1)) return 0;
  const int live = table().EpollCreate(args.Int(0));
  const int64_t fd = args.Number(args.call().result);
  if (live >= 0 && fd >= 0) session_.Open(static_cast<int>(fd), live);
  return live;
}

int64_t Calls::EpollCreate1(CallArgs& args) {
  if (!args.Count(1)) return 0;
  const int live = table().EpollCreate1(args.Int(0));
  const int64_t fd = args.Number(args.call().result);
  if (live >= 0 && fd >= 0) session_.Open(static_cast<int>(fd), live);
  return live;
}

namespace {

// The user data of an epoll event: the script's own number under whatever name.
const Expr* EpollData(const Expr& event) {
  for (const char* name : {"fd", "data", "u32", "u64", "ptr"}) {
    if (const Expr* found = event.Find(name)) return found;
  }
  return nullptr;
}

}  // namespace

int64_t Calls::EpollCtl(CallArgs& args) {
  if (!args.Count(3, 4)) return 0;
  const int operation = args.Int(1);
  epoll_event event{};
  if (args.size() == 4 && args.at(3).kind == Expr::Kind::kStruct) {
    const Expr* events = args.at(3).Find("events");
    const Expr* data = EpollData(args.at(3));
    if (events != nullptr) event.events = static_cast<uint32_t>(args.Number(*events));
    if (data != nullptr) event.data.u64 = static_cast<uint64_t>(args.Number(*data));
  }
  if (args.failed()) return 0;
  return table().EpollCtl(args.Fd(0), operation, args.Fd(2), &event);
}

int64_t Calls::EpollWait(CallArgs& args) {
  if (!args.Count(4)) return 0;
  const int64_t most = args.Number(2);
  const int timeout = args.Int(3);
  if (args.failed()) return 0;
  if (most > 1024) {
    args.Fail("epoll_wait() for more than 1024 events");
    return 0;
  }
  std::vector<epoll_event> events(static_cast<size_t>(std::max<int64_t>(most, 1)));
  const int result = table().EpollWait(args.Fd(0), events.data(), static_cast<int>(most), timeout);
  if (result <= 0) return result;
  // One structure or a list of them.
  const Expr& wanted = args.at(1);
  const size_t listed = wanted.kind == Expr::Kind::kArray ? wanted.items.size() : 1;
  for (size_t i = 0; i < listed && i < static_cast<size_t>(result); ++i) {
    const Expr& one = wanted.kind == Expr::Kind::kArray ? wanted.items[i] : wanted;
    if (one.kind != Expr::Kind::kStruct) continue;
    if (const Expr* bits = one.Find("events")) CheckNumber(args, "events", *bits, events[i].events);
    if (const Expr* data = EpollData(one)) {
      CheckNumber(args, "data", *data, static_cast<int64_t>(events[i].data.u64));
    }
  }
  return result;
}

}  // namespace tapwire::pkt
