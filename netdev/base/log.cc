// SPDX-License-Identifier: Apache-2.0
#include "netdev/base/log.h"

#include <atomic>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"

namespace tapwire {
namespace {

std::atomic<LogLevel> verbosity{LogLevel::kWarning};
std::atomic<LogSink*> replaced_sink{nullptr};

// One write per line, so that lines of several threads do not mix.
void WriteToStderr(LogLevel level, absl::string_view text) {
  const std::string line = absl::StrCat(LogLevelName(level), ": ", text, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

absl::string_view LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      return "debug";
  }
  return "unknown";
}

LogSink* SetLogSink(LogSink* sink) { return replaced_sink.exchange(sink); }

void SetLogVerbosity(LogLevel level) { verbosity.store(level, std::memory_order_relaxed); }

LogLevel LogVerbosity() { return verbosity.load(std::memory_order_relaxed); }

bool LogEnabled(LogLevel level) { return level <= LogVerbosity(); }

namespace internal {

LogMessage::LogMessage(LogLevel level, const char* file, int line)
    : level_(level), file_(file), line_(line) {}

LogMessage::~LogMessage() {
  const std::string text = stream_.str();
  if (LogSink* sink = replaced_sink.load()) {
    sink->Write(level_, file_, line_, text);
  } else {
    WriteToStderr(level_, text);
  }
}

}  // namespace internal
}  // namespace tapwire
