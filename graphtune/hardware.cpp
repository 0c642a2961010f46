#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <sys/utsname.h>

#include "graphtune/bundle.h"
#include "graphtune/digest.h"

namespace graphtune {
namespace {

/// Extensions that compilers make use of: code built with one of them dies where it is missing.
constexpr std::array<std::string_view, 24> kExtensions = {
    "sse4_2",      "avx",        "avx2",       "fma",         "f16c",        "bmi2",
    "avx_vnni",    "avx512f",    "avx512bw",   "avx512cd",    "avx512dq",    "avx512vl",
    "avx512_vnni", "avx512ifma", "avx512vbmi", "avx512_bf16", "avx512_fp16", "amx_tile",
    "amx_int8",    "amx_bf16",   "asimd",      "asimdhp",     "sve",         "bf16"};

/// `key` of the first processor in /proc/cpuinfo; empty when there is none.
std::string cpu_info(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(':');
    const std::string name = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    if (colon != std::string::npos && name == key) {
      const std::size_t start = line.find_first_not_of(" \t", colon + 1);
      return start == std::string::npos ? std::string() : line.substr(start);
    }
  }
  return {};
}

std::set<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()};
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Tells this machine from others, without giving its identity away. The host name is part of it,
/// since all containers of one image may share its machine-id, or have none.
std::string machine_id(const std::string& cpu) {
  std::string id = first_line("/etc/machine-id");
  if (id.empty()) {
    id = first_line("/var/lib/dbus/machine-id");
  }
  const std::string host = first_line("/proc/sys/kernel/hostname");
  return id.empty() && host.empty()
             ? std::string()
             : to_hex(sha256(fmt::format("graphtune\n{}\n{}\n{}", id, host, cpu)));
}

}  // namespace

std::map<std::string, std::string> describe_hardware() {
  std::map<std::string, std::string> hardware;
  utsname system{};
  const std::string architecture = uname(&system) == 0 ? system.machine : "unknown";
  std::string cpu = cpu_info("model name");
  hardware["architecture"] = architecture;
  hardware["cpu"] = cpu.empty() ? architecture : cpu;

  std::set<std::string> flags = words(cpu_info("flags"));
  flags.merge(words(cpu_info("Features")));  // as ARM names them
  std::string extensions;
  for (const std::string_view extension : kExtensions) {
    if (flags.count(std::string(extension)) != 0) {
      extensions += (extensions.empty() ? "" : " ") + std::string(extension);
    }
  }
  hardware["instruction_set"] = extensions;
  hardware["machine_id"] = machine_id(hardware["cpu"]);
  return hardware;
}

std::string native_code_obstacle(const std::map<std::string, std::string>& built_on) {
  const std::map<std::string, std::string> here = describe_hardware();
  const auto fact = [&](const char* key) {
    const auto found = built_on.find(key);
    return found == built_on.end() ? std::string() : found->second;
  };
  if (!fact("architecture").empty() && fact("architecture") != here.at("architecture")) {
    return fmt::format("it was built for {}, this machine is {}", fact("architecture"),
                       here.at("architecture"));
  }
  const std::set<std::string> available = words(here.at("instruction_set"));
  std::string missing;
  for (const std::string& extension : words(fact("instruction_set"))) {
    if (available.count(extension) == 0) {
      missing += (missing.empty() ? "" : ", ") + extension;
    }
  }
  return missing.empty()
             ? missing
             : fmt::format("it may need {}, which this machine's processor lacks", missing);
}

}  // namespace graphtune
