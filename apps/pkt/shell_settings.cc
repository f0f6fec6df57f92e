// SPDX-License-Identifier: Apache-2.0
// Shell commands as settings.

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "apps/pkt/settings.h"

namespace tapwire::pkt {
namespace {

using Outcome = std::optional<std::string>;
using Numbers = std::vector<int64_t>;

// Window scale 8, which nearly all public scripts expect, follows from this limit.
constexpr size_t kScriptReceiveMax = 15u << 20;
constexpr size_t kScriptSendMax = 4u << 20;

Duration Seconds(int64_t n) { return std::chrono::seconds(n); }
Duration Millis(int64_t n) { return std::chrono::milliseconds(n); }

// One setting with numbers. `least` values are needed.
struct Key {
  const char* name;
  size_t least;
  void (*apply)(tcp::Config& config, const Numbers& values);
};

constexpr Key kKeys[] = {
    {"tcp_rmem", 3,
     [](tcp::Config& c, const Numbers& v) {
       // Half of it is overhead in Linux's accounts.
       c.receive_buffer_initial = static_cast<size_t>(v[1] / 2);
       if (c.told_receive_buffer != 0) c.told_receive_buffer = static_cast<size_t>(v[1]);
       c.receive_buffer_max = static_cast<size_t>(v[2]);
     }},
    {"tcp_wmem", 3,
     [](tcp::Config& c, const Numbers& v) {
       c.send_buffer_initial = static_cast<size_t>(v[1]);
       if (c.told_send_buffer != 0) c.told_send_buffer = static_cast<size_t>(v[1]);
       c.send_buffer_max = static_cast<size_t>(v[2]);
     }},
    {"tcp_timestamps", 1, [](tcp::Config& c, const Numbers& v) { c.timestamps = v[0] != 0; }},
    {"tcp_sack", 1, [](tcp::Config& c, const Numbers& v) { c.sack = v[0] != 0; }},
    {"tcp_window_scaling", 1,
     [](tcp::Config& c, const Numbers& v) { c.window_scaling = v[0] != 0; }},
    {"tcp_slow_start_after_idle", 1,
     [](tcp::Config& c, const Numbers& v) { c.slow_start_after_idle = v[0] != 0; }},
    {"tcp_invalid_ratelimit", 1,
     [](tcp::Config& c, const Numbers& v) { c.invalid_rate_limit = Millis(v[0]); }},
    {"tcp_syncookies", 1,
     [](tcp::Config& c, const Numbers& v) {
       c.syn_cookies = static_cast<tcp::SynCookieMode>(std::min<int64_t>(v[0], 2));
     }},
    {"tcp_early_retrans", 1,
     [](tcp::Config& c, const Numbers& v) { c.tail_loss_probes = v[0] >= 3; }},
    {"tcp_max_orphans", 1,
     [](tcp::Config& c, const Numbers& v) { c.max_orphans = static_cast<size_t>(v[0]); }},
    {"tcp_syn_linear_timeouts", 1,
     [](tcp::Config& c, const Numbers& v) { c.syn_linear_timeouts = static_cast<int>(v[0]); }},
    {"tcp_rfc1337", 1,
     [](tcp::Config& c, const Numbers& v) { c.reset_ends_time_wait = v[0] == 0; }},
    {"tcp_notsent_lowat", 1,
     [](tcp::Config& c, const Numbers& v) { c.notsent_low_water = static_cast<uint32_t>(v[0]); }},
    {"tcp_min_tso_segs", 1,
     [](tcp::Config& c, const Numbers& v) {
       c.min_burst_segments = static_cast<uint32_t>(std::max<int64_t>(v[0], 1));
     }},
    {"tcp_syn_retries", 1,
     [](tcp::Config& c, const Numbers& v) { c.syn_retries = static_cast<int>(v[0]); }},
    {"tcp_synack_retries", 1,
     [](tcp::Config& c, const Numbers& v) { c.syn_ack_retries = static_cast<int>(v[0]); }},
    {"tcp_retries1", 1,
     [](tcp::Config& c, const Numbers& v) { c.retries_1 = static_cast<int>(v[0]); }},
    {"tcp_retries2", 1,
     [](tcp::Config& c, const Numbers& v) { c.retries_2 = static_cast<int>(v[0]); }},
    {"tcp_orphan_retries", 1,
     [](tcp::Config& c, const Numbers& v) { c.orphan_retries = static_cast<int>(v[0]); }},
    {"tcp_fin_timeout", 1, [](tcp::Config& c, const Numbers& v) { c.fin_wait_2 = Seconds(v[0]); }},
    {"tcp_keepalive_time", 1,
     [](tcp::Config& c, const Numbers& v) { c.keepalive_idle = Seconds(v[0]); }},
    {"tcp_keepalive_intvl", 1,
     [](tcp::Config& c, const Numbers& v) { c.keepalive_interval = Seconds(v[0]); }},
    {"tcp_keepalive_probes", 1,
     [](tcp::Config& c, const Numbers& v) { c.keepalive_probes = static_cast<int>(v[0]); }},
    {"tcp_rto_max_ms", 1, [](tcp::Config& c, const Numbers& v) { c.max_rto = Millis(v[0]); }},
    {"tcp_rto_min_us", 1,
     [](tcp::Config& c, const Numbers& v) { c.min_rto = std::chrono::microseconds(v[0]); }},
    {"tcp_max_syn_backlog", 1,
     [](tcp::Config& c, const Numbers& v) { c.max_half_open = static_cast<size_t>(v[0]); }},
    {"tcp_max_tw_buckets", 1,
     [](tcp::Config& c, const Numbers& v) { c.max_time_wait = static_cast<size_t>(v[0]); }},
};

// Features that the stack lacks: harmless while they are off.
struct OffKey {
  const char* name;
  int64_t off;
  const char* feature;
};
constexpr OffKey kOffKeys[] = {
    {"tcp_ecn", 0, "ECN"},
    {"tcp_recovery", 0, "RACK"},
    {"tcp_frto", 0, "F-RTO"},
    {"tcp_fastopen", 0, "TCP Fast Open"},
    {"tcp_mtu_probing", 0, "MTU probing"},
    {"tcp_reordering", 3, "another reordering threshold"},
    {"tcp_dsack", 1, "SACK without D-SACK"},
    {"tcp_comp_sack_nr", 0, "compressed SACKs"},
    {"tcp_shrink_window", 0, "shrinking windows"},
    {"tcp_abort_on_overflow", 0, "resets when a listener is full"},
    {"tcp_moderate_rcvbuf", 1, "fixed receive buffers"},
    {"tcp_thin_linear_timeouts", 0, "linear timeouts"},
    {"ip_no_pmtu_disc", 0, "IPv4 without path MTU discovery"},
    {"tcp_pacing_ss_ratio", 0, "pacing"},
    {"tcp_pacing_ca_ratio", 0, "pacing"},
};

// Nothing of the stack depends on them.
constexpr const char* kIgnoredKeys[] = {
    "tcp_tso_win_divisor",
    "tcp_tso_rtt_log",
    "tcp_autocorking",
    "tcp_no_metrics_save",
    "tcp_no_ssthresh_metrics_save",
    "tcp_base_mss",
    "tcp_min_snd_mss",
    "tcp_limit_output_bytes",
    "tcp_fack",
    "tcp_tw_reuse",
    "tcp_challenge_ack_limit",
    "tcp_comp_sack_delay_ns",
    "tcp_comp_sack_slack_ns",
    "tcp_low_latency",
    "tcp_stdurg",
    "tcp_adv_win_scale",
    "tcp_app_win",
    "tcp_workaround_signed_windows",
    "ip_local_port_range",
    "rmem_max",
    "wmem_max",
    "rmem_default",
    "wmem_default",
    "somaxconn",
    "netdev_max_backlog",
    "optmem_max",
    "tcp_mem",
    "rp_filter",
    "default_qdisc",
};

Outcome ApplyNumbers(absl::string_view key, absl::string_view text, tcp::Config& config) {
  Numbers values;
  for (const absl::string_view word :
       absl::StrSplit(text, absl::ByAnyChar(" \t,"), absl::SkipEmpty())) {
    int64_t value = 0;
    constexpr int64_t kLimit = (int64_t{1} << 32) - 1;  // in whatever unit
    if (!absl::SimpleAtoi(word, &value) || value < 0 || value > kLimit) {
      return absl::StrCat("setting ", key, "=", text);
    }
    values.push_back(value);
  }
  for (const Key& known : kKeys) {
    if (key != known.name) continue;
    if (values.size() < known.least) return absl::StrCat("setting ", key, "=", text);
    known.apply(config, values);
    return std::nullopt;
  }
  for (const OffKey& known : kOffKeys) {
    if (key != known.name) continue;
    if (values.size() == 1 && values[0] == known.off) return std::nullopt;
    return absl::StrCat("setting ", key, "=", text, ": ", known.feature);
  }
  return absl::StrCat("setting ", key);
}

Outcome ApplySetting(absl::string_view path, absl::string_view value, tcp::Config& config) {
  const size_t dot = path.find_last_of("./");
  const absl::string_view key = dot == absl::string_view::npos ? path : path.substr(dot + 1);
  for (const char* ignored : kIgnoredKeys) {
    if (key == ignored) return std::nullopt;
  }
  if (key == "tcp_congestion_control") {
    if (value != "cubic" && value != "reno") return absl::StrCat("congestion control ", value);
    config.congestion_control = std::string(value);
    return std::nullopt;
  }
  return ApplyNumbers(key, value, config);
}

// Words of one command line; quotes hold words together. A redirection is a word of its own.
std::vector<std::string> SplitWords(absl::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool any = false;
  char quote = '\0';
  const auto finish = [&] {
    if (any) words.push_back(std::exchange(word, {}));
    any = false;
  };
  for (const char c : line) {
    if (quote != '\0') {
      if (c == quote) {
        quote = '\0';
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      any = true;
    } else if (absl::ascii_isspace(static_cast<unsigned char>(c))) {
      finish();
    } else if (c == '>') {
      finish();
      words.push_back(">");
    } else {
      word += c;
      any = true;
    }
  }
  finish();
  return words;
}

using Settings = std::vector<Setting>;

Outcome ReadAssignment(absl::string_view word, Settings& settings) {
  const size_t equals = word.find('=');
  if (equals == absl::string_view::npos) return absl::StrCat("setting ", word, " without value");
  settings.push_back({std::string(word.substr(0, equals)), std::string(word.substr(equals + 1))});
  return std::nullopt;
}

Outcome Sysctl(const std::vector<std::string>& words, Settings& settings) {
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i].empty() || words[i][0] == '-') continue;
    if (words[i] == ">") break;  // its output goes nowhere
    // "key = value" in three words.
    if (i + 2 < words.size() && words[i + 1] == "=") {
      settings.push_back({words[i], words[i + 2]});
      i += 2;
    } else if (Outcome outcome = ReadAssignment(words[i], settings)) {
      return outcome;
    }
  }
  return std::nullopt;
}

Outcome Echo(const std::vector<std::string>& words, Settings& settings) {
  std::string value;
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    if (words[i] == ">") {
      if (absl::StartsWith(words[i + 1], "/proc/sys/")) settings.push_back({words[i + 1], value});
      return std::nullopt;
    }
    absl::StrAppend(&value, value.empty() ? "" : " ", words[i]);
  }
  return std::nullopt;  // a message
}

Outcome SetSysctls(const std::vector<std::string>& words, Settings& settings) {
  for (const std::string& word : words) {
    if (!absl::StrContains(word, '=')) continue;
    if (Outcome outcome = ReadAssignment(word, settings)) return outcome;
  }
  return std::nullopt;
}

bool HasWord(const std::vector<std::string>& words, absl::string_view wanted) {
  for (const std::string& word : words) {
    if (word == wanted) return true;
  }
  return false;
}

Outcome ReadLine(const std::vector<std::string>& words, Settings& settings) {
  for (const std::string& word : words) {
    if (absl::EndsWith(word, "defaults.sh")) {
      settings.push_back({kDefaultSettings, ""});
      return std::nullopt;
    }
    if (absl::EndsWith(word, "set_sysctls.py")) return SetSysctls(words, settings);
  }
  const std::string& name = words[0];
  if (name == "sysctl" || absl::EndsWith(name, "/sysctl")) return Sysctl(words, settings);
  if (name == "echo") return Echo(words, settings);
  if (name == "true" || name == ":" || name == "sync" || name == "exit") return std::nullopt;
  // No offloads on the link, no destination cache, no queue.
  if (name == "ethtool" && HasWord(words, "-K")) return std::nullopt;
  if (name == "ip" && HasWord(words, "tcp_metrics")) return std::nullopt;
  if (name == "tc" && HasWord(words, "qdisc")) {
    if (HasWord(words, "fq")) return "pacing by the queue (tc fq)";
    if (HasWord(words, "pfifo") || HasWord(words, "pfifo_fast") || HasWord(words, "del")) {
      return std::nullopt;
    }
  }
  return absl::StrCat("command '", absl::StrJoin(words, " "), "'");
}

}  // namespace

std::optional<Profile> ParseProfile(absl::string_view text) {
  if (text == "linux") return Profile::kLinux;
  if (text == "rfc") return Profile::kRfc;
  return std::nullopt;
}

tcp::Config ProfileConfig(Profile profile) {
  if (profile == Profile::kRfc) return tcp::Config::Rfc();
  tcp::Config config = tcp::Config::LinuxExact();
  config.receive_buffer_max = kScriptReceiveMax;
  config.receive_buffer_initial = config.told_receive_buffer / 2;
  return config;
}

std::optional<std::string> ReadCommand(absl::string_view command, Settings& settings) {
  const std::string plain = absl::StrReplaceAll(
      command, {{"\\\n", " "}, {"2>&1", ""}, {"2>/dev/null", ""}, {"2> /dev/null", ""}});
  for (const absl::string_view line :
       absl::StrSplit(plain, absl::ByAnyChar(";\n&|"), absl::SkipWhitespace())) {
    const std::vector<std::string> words = SplitWords(line);
    if (words.empty() || words[0][0] == '#') continue;
    if (auto reason = ReadLine(words, settings)) return reason;
  }
  return std::nullopt;
}

std::optional<std::string> ApplyCommand(absl::string_view command, tcp::Config& config) {
  Settings settings;
  if (auto reason = ReadCommand(command, settings)) return reason;
  for (const Setting& setting : settings) {
    if (setting.path == kDefaultSettings) {
      config.receive_buffer_max = kScriptReceiveMax;
      config.send_buffer_max = kScriptSendMax;
      config.tail_loss_probes = config.linux_habits;
    } else if (auto reason = ApplySetting(setting.path, setting.value, config)) {
      return reason;
    }
  }
  return std::nullopt;
}

}  // namespace tapwire::pkt
