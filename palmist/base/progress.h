/// A progress line on stderr, for work that takes longer than a second.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace palmist {

/// Switches all progress lines off (`--quiet`) or on; on at the start.
void SetProgressEnabled(bool enabled);

struct ProgressOptions {
  std::FILE* stream = stderr;       ///< Where the line goes; never stdout, which holds results.
  std::optional<bool> is_terminal;  ///< Empty: ask the stream.
  double delay_s = 1.0;             ///< Nothing is shown before.
  double period_s = 0.1;            ///< Shortest time between two drawings.
};

/// Shows how far some work is, on one line that is redrawn in place and erased at the end.
///
/// Silent where the stream is no terminal or progress is switched off. All methods are safe from
/// any thread and cheap to call often.
class Progress {
 public:
  /// @param label what is being done, such as "searching".
  /// @param total how many steps there are; 0 where that is unknown.
  explicit Progress(std::string label, std::int64_t total = 0, ProgressOptions options = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Adds `steps` to the steps done.
  void Advance(std::int64_t steps = 1);

  /// Sets the steps done, and a short remark shown behind them.
  void Update(std::int64_t done, std::string_view note = {});

 private:
  void MaybeDraw();

  const std::string label_;
  const std::int64_t total_;
  const ProgressOptions options_;
  const bool visible_;
  const std::chrono::steady_clock::time_point start_;
  std::atomic<std::int64_t> done_ = 0;
  std::atomic<double> next_draw_s_;
  std::mutex note_mutex_;
  std::string note_;
};

namespace internal {

/// Returns one progress line of at most `width` characters.
std::string RenderProgress(std::string_view label,
                           std::int64_t done,
                           std::int64_t total,
                           double elapsed_s,
                           std::string_view note,
                           int width);

/// Erases the line on the screen, if there is one, so that other text can be written.
void EraseProgressLine();

}  // namespace internal
}  // namespace palmist
