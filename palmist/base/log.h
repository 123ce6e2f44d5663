/// Logging to stderr, so that stdout stays free for results.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "palmist/base/result.h"

namespace palmist {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// When terminal colours are used; `kAuto` means where stderr is a terminal.
enum class ColorMode { kAuto, kAlways, kNever };

/// Returns the level named "debug", "info", "warning", "error" or "off", or a usage error.
Result<LogLevel> ParseLogLevel(std::string_view text);

/// Drops messages below `level`; the level at the start is `kInfo`.
void SetLogLevel(LogLevel level);

void SetLogColor(ColorMode mode);

/// Returns true where a message of `level` would be written.
bool IsLogged(LogLevel level);

/// Writes one line to stderr if `level` is logged; safe from any thread. Control characters in
/// `message` are escaped, as it may quote untrusted input.
void Log(LogLevel level, const std::string& message);

template <typename... Args>
void LogDebug(fmt::format_string<Args...> format, Args&&... args) {
  if (!IsLogged(LogLevel::kDebug)) return;
  Log(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  if (!IsLogged(LogLevel::kInfo)) return;
  Log(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void LogWarning(fmt::format_string<Args...> format, Args&&... args) {
  if (!IsLogged(LogLevel::kWarning)) return;
  Log(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void LogError(fmt::format_string<Args...> format, Args&&... args) {
  if (!IsLogged(LogLevel::kError)) return;
  Log(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace palmist
