// SPDX-License-Identifier: Apache-2.0
#include "apps/ctl/json_text.h"

#include <cstddef>

namespace tapwire::apps::ctl {
namespace {

std::string Compact(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void NewLine(size_t depth, std::string& out) {
  out += '\n';
  out.append(4 * depth, ' ');
}

// Members of an array stay on its line; each member of an object has a line of its own.
void Write(const Json& json, size_t depth, std::string& out) {
  if (json.is_array()) {
    out += "[ ";
    for (size_t i = 0; i < json.size(); ++i) {
      if (i > 0) out += ',';
      Write(json[i], depth + 1, out);
    }
    out += json.empty() ? "]" : " ]";
  } else if (json.is_object()) {
    out += '{';
    bool first = true;
    for (const auto& [key, value] : json.items()) {
      if (!first) out += ',';
      first = false;
      NewLine(depth + 1, out);
      out += Compact(key) + ": ";
      Write(value, depth + 1, out);
    }
    if (!json.empty()) NewLine(depth, out);
    out += '}';
  } else {
    out += Compact(json);
  }
}

}  // namespace

std::string JsonText(const Json& json, bool pretty) {
  if (!pretty) return Compact(json) + "\n";
  std::string out;
  Write(json, 0, out);
  return out + "\n";
}

}  // namespace tapwire::apps::ctl
