#include "palmist/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <string>

#include "palmist/base/progress.h"
#include "palmist/base/text.h"

namespace palmist {
namespace {

using Sink = spdlog::sinks::stderr_color_sink_mt;

std::atomic<LogLevel> g_level = LogLevel::kInfo;

/// The sink and its logger, never destroyed so that late messages find them.
struct Destination {
  std::shared_ptr<Sink> sink = std::make_shared<Sink>();
  spdlog::logger logger{"palmist", sink};

  Destination() {
    logger.set_level(spdlog::level::trace);
    logger.set_pattern("%^%l%$: %v");
    logger.flush_on(spdlog::level::trace);
  }

  static Destination& Get() {
    static auto* const destination = new Destination;
    return *destination;
  }
};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

}  // namespace

Result<LogLevel> ParseLogLevel(std::string_view text) {
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "warning") return LogLevel::kWarning;
  if (text == "error") return LogLevel::kError;
  if (text == "off") return LogLevel::kOff;
  return UsageError("--log-level",
                    "expected debug, info, warning, error or off, got " + Quote(text));
}

void SetLogLevel(LogLevel level) { g_level = level; }

void SetLogColor(ColorMode mode) {
  spdlog::color_mode color = spdlog::color_mode::automatic;
  if (mode == ColorMode::kAlways) color = spdlog::color_mode::always;
  if (mode == ColorMode::kNever) color = spdlog::color_mode::never;
  Destination::Get().sink->set_color_mode(color);
}

bool IsLogged(LogLevel level) { return level != LogLevel::kOff && level >= g_level.load(); }

void Log(LogLevel level, const std::string& message) {
  if (!IsLogged(level)) return;
  internal::EraseProgressLine();
  Destination::Get().logger.log(ToSpdlog(level), Printable(message));
}

}  // namespace palmist
