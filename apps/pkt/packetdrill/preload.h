// SPDX-License-Identifier: Apache-2.0
// Between the plug-in and the preload library, which do not link each other. In three places the
// packetdrill program hands descriptors of the plug-in to the kernel: close() when a script ends,
// getsockopt() to collect what `%{ }%` looks at, and sendfile(). The preload library stands in
// front of libc's, and passes those with a descriptor of the plug-in's range on to the plug-in.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>

namespace tapwire::packetdrill {

// Descriptors of the plug-in. Above the number of descriptors that Linux lets a process have
// (fs.nr_open is 1,048,576 unless somebody raised it), so that they are never the kernel's too.
inline constexpr int kFirstFd = 2'000'000;
inline constexpr int kFdCount = 65'536;

inline bool IsPluginFd(int fd) { return fd >= kFirstFd && fd - kFirstFd < kFdCount; }

// What the plug-in offers; as in packetdrill_interface.
struct PreloadHooks {
  void* userdata;
  int (*close)(void* userdata, int fd);
  int (*getsockopt)(void* userdata, int fd, int level, int name, void* value, socklen_t* length);
  ssize_t (*write)(void* userdata, int fd, const void* data, size_t length);
};

// The preload library exports a function of this type and name; the plug-in looks for it. `hooks`
// lives until null is registered in its place.
using RegisterHooks = void (*)(const PreloadHooks* hooks);
inline constexpr char kRegisterHooksName[] = "tapwire_packetdrill_register";

}  // namespace tapwire::packetdrill
