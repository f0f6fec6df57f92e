// SPDX-License-Identifier: Apache-2.0
// The functions that the packetdrill program calls: libc's conventions over a SocketTable. All may
// be called from both of its threads; the locking is ScriptWaiter's.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "apps/pkt/packetdrill/host.h"
#include "apps/pkt/packetdrill/interface.h"
#include "apps/pkt/packetdrill/preload.h"

#define TAPWIRE_EXPORT __attribute__((visibility("default")))

namespace tapwire::packetdrill {
namespace {

// Real time that free() gives calls to leave.
constexpr int kMostFreeLooks = 1000;
constexpr std::chrono::milliseconds kFreeLookEvery{1};

struct Plugin {
  std::unique_ptr<Host> host;
  std::atomic<int> inside{0};  // calls under way
  PreloadHooks hooks = {};
};

// One call of the program.
class Call {
 public:
  explicit Call(void* userdata) : plugin_(*static_cast<Plugin*>(userdata)) { ++plugin_.inside; }
  ~Call() { --plugin_.inside; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Host& host() { return *plugin_.host; }
  SocketTable& sockets() { return host().sockets(); }

  // libc's result from the table's.
  template <typename T>
  T Result(T result) {
    if (result >= 0) return result;
    errno = static_cast<int>(-result);
    return T{-1};
  }

 private:
  Plugin& plugin_;
};

// ---- Sockets ----

int Socket(void* userdata, int domain, int type, int protocol) {
  Call call(userdata);
  call.host().ReadSettings();
  return call.Result(call.sockets().Socket(domain, type, protocol));
}

int Bind(void* userdata, int fd, const sockaddr* address, socklen_t length) {
  Call call(userdata);
  call.host().PrepareBind(address, length);
  return call.Result(call.sockets().Bind(fd, address, length));
}

int Listen(void* userdata, int fd, int backlog) {
  Call call(userdata);
  call.host().ReadSettings();
  return call.Result(call.sockets().Listen(fd, backlog));
}

int Accept(void* userdata, int fd, sockaddr* address, socklen_t* length) {
  Call call(userdata);
  return call.Result(call.sockets().Accept(fd, address, length));
}

int Connect(void* userdata, int fd, const sockaddr* address, socklen_t length) {
  Call call(userdata);
  call.host().ReadSettings();
  call.host().PrepareConnect(address, length);
  return call.Result(call.sockets().Connect(fd, address, length));
}

int Shutdown(void* userdata, int fd, int how) {
  Call call(userdata);
  return call.Result(call.sockets().Shutdown(fd, how));
}

int Close(void* userdata, int fd) {
  Call call(userdata);
  return call.Result(call.sockets().Close(fd));
}

// ---- Data ----

ssize_t Read(void* userdata, int fd, void* data, size_t length) {
  Call call(userdata);
  return call.Result(call.sockets().Read(fd, data, length));
}

ssize_t Readv(void* userdata, int fd, const iovec* iov, int count) {
  Call call(userdata);
  return call.Result(call.sockets().Readv(fd, iov, count));
}

ssize_t Recv(void* userdata, int fd, void* data, size_t length, int flags) {
  Call call(userdata);
  return call.Result(call.sockets().Recv(fd, data, length, flags));
}

// recvfrom(2) and sendto(2) have six parameters.
// NOLINTNEXTLINE(readability-function-size)
ssize_t RecvFrom(void* userdata, int fd, void* data, size_t length, int flags, sockaddr* address,
                 socklen_t* address_length) {
  Call call(userdata);
  return call.Result(call.sockets().RecvFrom(fd, data, length, flags, address, address_length));
}

ssize_t RecvMsg(void* userdata, int fd, msghdr* message, int flags) {
  Call call(userdata);
  return call.Result(call.sockets().RecvMsg(fd, message, flags));
}

ssize_t Write(void* userdata, int fd, const void* data, size_t length) {
  Call call(userdata);
  return call.Result(call.sockets().Write(fd, data, length));
}

ssize_t Writev(void* userdata, int fd, const iovec* iov, int count) {
  Call call(userdata);
  return call.Result(call.sockets().Writev(fd, iov, count));
}

ssize_t Send(void* userdata, int fd, const void* data, size_t length, int flags) {
  Call call(userdata);
  return call.Result(call.sockets().Send(fd, data, length, flags));
}

// NOLINTNEXTLINE(readability-function-size)
ssize_t SendTo(void* userdata, int fd, const void* data, size_t length, int flags,
               const sockaddr* address, socklen_t address_length) {
  Call call(userdata);
  return call.Result(call.sockets().SendTo(fd, data, length, flags, address, address_length));
}

ssize_t SendMsg(void* userdata, int fd, const msghdr* message, int flags) {
  Call call(userdata);
  return call.Result(call.sockets().SendMsg(fd, message, flags));
}

// ---- Facts and options ----

int Fcntl(void* userdata, int fd, int command, ...) {
  Call call(userdata);
  long argument = 0;
  if (command == F_SETFL || command == F_SETFD) {
    va_list arguments;
    va_start(arguments, command);
    argument = va_arg(arguments, int);
    va_end(arguments);
  }
  return call.Result(call.sockets().Fcntl(fd, command, argument));
}

int Ioctl(void* userdata, int fd, unsigned long request, ...) {
  Call call(userdata);
  va_list arguments;
  va_start(arguments, request);
  int* argument = va_arg(arguments, int*);
  va_end(arguments);
  return call.Result(call.sockets().Ioctl(fd, request, argument));
}

// SO_MEMINFO: Linux's accounting of memory, which the stack does not have. What is known is told:
// the limits and the bytes that wait.
int MemInfo(SocketTable& sockets, int fd, void* value, socklen_t* length) {
  std::array<uint32_t, SK_MEMINFO_VARS> info = {};
  const std::array<std::pair<int, int>, 2> limits = {
      {{SK_MEMINFO_RCVBUF, SO_RCVBUF}, {SK_MEMINFO_SNDBUF, SO_SNDBUF}}};
  for (const auto& [index, option] : limits) {
    int limit = 0;
    socklen_t size = sizeof(limit);
    const int bad = sockets.GetSockOpt(fd, SOL_SOCKET, option, &limit, &size);
    if (bad != 0) return bad;
    info[static_cast<size_t>(index)] = static_cast<uint32_t>(limit);
  }
  int waiting = 0;
  if (sockets.Ioctl(fd, FIONREAD, &waiting) == 0) {
    info[SK_MEMINFO_RMEM_ALLOC] = static_cast<uint32_t>(waiting);
  }
  if (sockets.Ioctl(fd, TIOCOUTQ, &waiting) == 0) {
    info[SK_MEMINFO_WMEM_QUEUED] = static_cast<uint32_t>(waiting);
  }
  if (value == nullptr || length == nullptr) return -EFAULT;
  *length = std::min(*length, static_cast<socklen_t>(sizeof(info)));
  std::memcpy(value, info.data(), *length);
  return 0;
}

// NOLINTNEXTLINE(readability-function-size)
int GetSockOpt(void* userdata, int fd, int level, int name, void* value, socklen_t* length) {
  Call call(userdata);
  if (level == SOL_SOCKET && name == SO_MEMINFO) {
    return call.Result(MemInfo(call.sockets(), fd, value, length));
  }
  return call.Result(call.sockets().GetSockOpt(fd, level, name, value, length));
}

// NOLINTNEXTLINE(readability-function-size)
int SetSockOpt(void* userdata, int fd, int level, int name, const void* value, socklen_t length) {
  Call call(userdata);
  return call.Result(call.sockets().SetSockOpt(fd, level, name, value, length));
}

int Poll(void* userdata, pollfd* fds, nfds_t count, int timeout_ms) {
  Call call(userdata);
  return call.Result(call.sockets().Poll(fds, count, timeout_ms));
}

int EpollCreate(void* userdata, int size) {
  Call call(userdata);
  return call.Result(call.sockets().EpollCreate(size));
}

int EpollCtl(void* userdata, int epoll_fd, int operation, int fd, epoll_event* event) {
  Call call(userdata);
  return call.Result(call.sockets().EpollCtl(epoll_fd, operation, fd, event));
}

int EpollWait(void* userdata, int epoll_fd, epoll_event* events, int max_events, int timeout_ms) {
  Call call(userdata);
  return call.Result(call.sockets().EpollWait(epoll_fd, events, max_events, timeout_ms));
}

// Pipes are the kernel's, and its pages cannot go into this stack's queues.
int Pipe(void* /*userdata*/, int /*fds*/[2]) {
  errno = ENOSYS;
  return -1;
}

// NOLINTNEXTLINE(readability-function-size)
int Splice(void* /*userdata*/, int /*fd_in*/, int64_t* /*offset_in*/, int /*fd_out*/,
           int64_t* /*offset_out*/, size_t /*length*/, unsigned int /*flags*/) {
  errno = ENOSYS;
  return -1;
}

// ---- Link and clock ----

int NetdevSend(void* userdata, const void* datagram, size_t size) {
  Call call(userdata);
  if (datagram == nullptr && size > 0) return call.Result(-EFAULT);
  const bool taken = call.host().Inject({static_cast<const uint8_t*>(datagram), size});
  return call.Result(taken ? 0 : -ENOBUFS);
}

long long MicrosecondsOf(Time time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

int NetdevReceive(void* userdata, void* datagram, size_t* size, long long* time_usecs) {
  Call call(userdata);
  if (datagram == nullptr || size == nullptr || time_usecs == nullptr) {
    return call.Result(-EFAULT);
  }
  pkt::SentDatagram sent;
  const Host::Received received = call.host().Receive(sent);
  // An error here makes the program ask again for ever; without bytes the script fails at the line
  // that expects a packet.
  if (received != Host::Received::kDatagram || sent.bytes.size() > *size) {
    if (received == Host::Received::kDatagram) {
      std::fprintf(stderr, "tapwire-packetdrill: a packet of %zu bytes is larger than the buffer\n",
                   sent.bytes.size());
    }
    *size = 0;
    *time_usecs = MicrosecondsOf(call.host().waiter().ReadClock());
    return 0;
  }
  std::memcpy(datagram, sent.bytes.data(), sent.bytes.size());
  *size = sent.bytes.size();
  *time_usecs = MicrosecondsOf(sent.time);
  return 0;
}

int Usleep(void* userdata, useconds_t usecs) {
  Call call(userdata);
  call.host().waiter().Sleep(std::chrono::microseconds(usecs));
  return 0;
}

int GetTimeOfDay(void* userdata, timeval* tv, struct timezone* /*tz*/) {
  Call call(userdata);
  const long long now = MicrosecondsOf(call.host().waiter().ReadClock());
  if (tv == nullptr) return 0;
  tv->tv_sec = static_cast<time_t>(now / 1'000'000);
  tv->tv_usec = static_cast<suseconds_t>(now % 1'000'000);
  return 0;
}

// ---- Beginning and end ----

// The preload library's function, if that is there.
RegisterHooks FindRegister() {
  return reinterpret_cast<RegisterHooks>(dlsym(RTLD_DEFAULT, kRegisterHooksName));
}

void Free(void* userdata) {
  auto* plugin = static_cast<Plugin*>(userdata);
  if (const RegisterHooks preload = FindRegister()) preload(nullptr);
  plugin->host->waiter().Stop();
  for (int looks = 0; plugin->inside != 0; ++looks) {
    // A call that does not leave still uses it all.
    if (looks == kMostFreeLooks) return;
    std::this_thread::sleep_for(kFreeLookEvery);
  }
  delete plugin;
}

void Fill(Plugin& plugin, packetdrill_interface& table) {
  table.userdata = &plugin;
  table.free = Free;
  table.socket = Socket;
  table.bind = Bind;
  table.listen = Listen;
  table.accept = Accept;
  table.connect = Connect;
  table.read = Read;
  table.readv = Readv;
  table.recv = Recv;
  table.recvfrom = RecvFrom;
  table.recvmsg = RecvMsg;
  table.write = Write;
  table.writev = Writev;
  table.send = Send;
  table.sendto = SendTo;
  table.sendmsg = SendMsg;
  table.fcntl = Fcntl;
  table.ioctl = Ioctl;
  table.close = Close;
  table.shutdown = Shutdown;
  table.getsockopt = GetSockOpt;
  table.setsockopt = SetSockOpt;
  table.poll = Poll;
  table.netdev_send = NetdevSend;
  table.netdev_receive = NetdevReceive;
  table.usleep = Usleep;
  table.gettimeofday = GetTimeOfDay;
  table.epoll_create = EpollCreate;
  table.epoll_ctl = EpollCtl;
  table.epoll_wait = EpollWait;
  table.pipe = Pipe;
  table.splice = Splice;
}

absl::Status Start(const char* flags, packetdrill_interface& table) {
  absl::StatusOr<Flags> parsed = ParseFlags(flags == nullptr ? "" : flags);
  if (!parsed.ok()) return parsed.status();
  const char* settings = std::getenv("TAPWIRE_PACKETDRILL_SETTINGS");
  absl::StatusOr<std::unique_ptr<Host>> host =
      Host::Create(*parsed, settings == nullptr ? "" : settings);
  if (!host.ok()) return host.status();
  auto plugin = std::make_unique<Plugin>();
  plugin->host = *std::move(host);
  plugin->hooks = {plugin.get(), Close, GetSockOpt, Write};
  Fill(*plugin, table);
  if (const RegisterHooks preload = FindRegister()) preload(&plugin->hooks);
  (void)plugin.release();  // until free()
  return absl::OkStatus();
}

}  // namespace
}  // namespace tapwire::packetdrill

TAPWIRE_EXPORT int packetdrill_interface_init(const char* flags, packetdrill_interface* table) {
  const absl::Status started = tapwire::packetdrill::Start(flags, *table);
  if (started.ok()) return 0;
  std::fprintf(stderr, "tapwire-packetdrill: %s\n", std::string(started.message()).c_str());
  return -1;
}
