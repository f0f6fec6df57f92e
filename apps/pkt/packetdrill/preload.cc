// SPDX-License-Identifier: Apache-2.0
// The preload library: close(), getsockopt() and sendfile() in front of libc's; see preload.h.
// Everything that is not a descriptor of the plug-in goes on to libc as it came.
#include "apps/pkt/packetdrill/preload.h"

#include <dlfcn.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#define TAPWIRE_EXPORT __attribute__((visibility("default")))

namespace {

using tapwire::packetdrill::IsPluginFd;
using tapwire::packetdrill::PreloadHooks;

// A library that stands in front of functions without arguments of its own has no other place.
std::atomic<const PreloadHooks*> g_hooks{nullptr};
std::atomic<bool> g_had_hooks{false};

// As much of a file as goes into one write, so that it is one for the stack too.
constexpr size_t kMostBytesAtOnce = size_t{1} << 20;

// libc's function of that name.
template <typename F>
F Next(std::atomic<F>& cached, const char* name) {
  F found = cached.load(std::memory_order_relaxed);
  if (found == nullptr) {
    found = reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
    if (found == nullptr) std::abort();  // a libc without close()
    cached.store(found, std::memory_order_relaxed);
  }
  return found;
}

const PreloadHooks* HooksFor(int fd) { return IsPluginFd(fd) ? g_hooks.load() : nullptr; }

using SendFile = ssize_t (*)(int, int, off_t*, size_t);
std::atomic<int (*)(int)> g_close{nullptr};
std::atomic<int (*)(int, int, int, void*, socklen_t*)> g_getsockopt{nullptr};
std::atomic<SendFile> g_sendfile{nullptr};

// From a file of the kernel into a socket of the plug-in. Advances what sendfile(2) does: *offset
// if there is one, the file's position otherwise.
ssize_t SendFileToPlugin(const PreloadHooks& hooks, int out, int in, off_t* offset, size_t count) {
  const off_t start = offset != nullptr ? *offset : lseek(in, 0, SEEK_CUR);
  if (start < 0) return -1;
  const size_t room = std::min(count, kMostBytesAtOnce);
  void* const buffer = std::malloc(std::max<size_t>(room, 1));
  if (buffer == nullptr) {
    errno = ENOMEM;
    return -1;
  }
  ssize_t moved = pread(in, buffer, room, start);
  if (moved > 0) moved = hooks.write(hooks.userdata, out, buffer, static_cast<size_t>(moved));
  const int error = errno;
  std::free(buffer);
  if (moved > 0 && offset != nullptr) *offset = start + moved;
  if (moved > 0 && offset == nullptr) (void)lseek(in, start + moved, SEEK_SET);
  errno = error;
  return moved;
}

}  // namespace

extern "C" {

TAPWIRE_EXPORT void tapwire_packetdrill_register(const PreloadHooks* hooks) {
  g_hooks = hooks;
  if (hooks != nullptr) g_had_hooks = true;
}

TAPWIRE_EXPORT int close(int fd) {
  if (const PreloadHooks* hooks = HooksFor(fd)) return hooks->close(hooks->userdata, fd);
  // The plug-in is gone, and all its sockets with it.
  if (IsPluginFd(fd) && g_had_hooks) return 0;
  return Next(g_close, "close")(fd);
}

TAPWIRE_EXPORT int getsockopt(int fd, int level, int name, void* value,
                              socklen_t* length) noexcept {
  if (const PreloadHooks* hooks = HooksFor(fd)) {
    return hooks->getsockopt(hooks->userdata, fd, level, name, value, length);
  }
  return Next(g_getsockopt, "getsockopt")(fd, level, name, value, length);
}

TAPWIRE_EXPORT ssize_t sendfile(int out, int in, off_t* offset, size_t count) noexcept {
  if (const PreloadHooks* hooks = HooksFor(out)) {
    return SendFileToPlugin(*hooks, out, in, offset, count);
  }
  return Next(g_sendfile, "sendfile")(out, in, offset, count);
}

// With off_t of 64 bits they are the same.
static_assert(sizeof(off_t) == sizeof(off64_t));
TAPWIRE_EXPORT ssize_t sendfile64(int out, int in, off64_t* offset, size_t count) noexcept {
  return sendfile(out, in, offset, count);
}

}  // extern "C"
