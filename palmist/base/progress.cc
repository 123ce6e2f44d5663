#include "palmist/base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "palmist/base/text.h"
#include "palmist/base/units.h"

namespace palmist {
namespace {

constexpr int kDefaultWidth = 80;
constexpr std::string_view kEraseLine = "\r\x1b[K";

std::atomic<bool> g_enabled = true;

// The one line on the screen: its stream, or null where none is drawn.
std::mutex g_line_mutex;
std::FILE* g_line_stream = nullptr;

void EraseLocked() {
  if (g_line_stream == nullptr) return;
  std::fwrite(kEraseLine.data(), 1, kEraseLine.size(), g_line_stream);
  std::fflush(g_line_stream);
  g_line_stream = nullptr;
}

int TerminalWidth(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultWidth;
  return size.ws_col;
}

}  // namespace

void SetProgressEnabled(bool enabled) { g_enabled = enabled; }

Progress::Progress(std::string label, std::int64_t total, ProgressOptions options)
    : label_(std::move(label)),
      total_(total),
      options_(options),
      visible_(g_enabled && options_.is_terminal.value_or(isatty(fileno(options_.stream)) != 0)),
      start_(std::chrono::steady_clock::now()),
      next_draw_s_(options_.delay_s) {}

Progress::~Progress() {
  if (visible_) internal::EraseProgressLine();
}

void Progress::Advance(std::int64_t steps) {
  done_ += steps;
  MaybeDraw();
}

void Progress::Update(std::int64_t done, std::string_view note) {
  done_ = done;
  if (!visible_) return;
  {
    const std::lock_guard lock(note_mutex_);
    note_ = note;
  }
  MaybeDraw();
}

void Progress::MaybeDraw() {
  if (!visible_) return;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  double due_s = next_draw_s_;
  if (elapsed.count() < due_s) return;
  // One thread wins the turn to draw; the others go on with their work.
  if (!next_draw_s_.compare_exchange_strong(due_s, elapsed.count() + options_.period_s)) return;
  std::string note;
  {
    const std::lock_guard lock(note_mutex_);
    note = note_;
  }
  const std::string line = internal::RenderProgress(
      label_, done_, total_, elapsed.count(), note, TerminalWidth(options_.stream));
  const std::lock_guard lock(g_line_mutex);
  fmt::print(options_.stream, "{}{}", kEraseLine, line);
  std::fflush(options_.stream);
  g_line_stream = options_.stream;
}

namespace internal {

std::string RenderProgress(std::string_view label,
                           std::int64_t done,
                           std::int64_t total,
                           double elapsed_s,
                           std::string_view note,
                           int width) {
  std::string line = std::string(label) + " ";
  if (total > 0) {
    const double fraction =
        std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
    line += fmt::format("{:.0f}%  {} of {}", 100.0 * fraction, done, total);
    if (fraction > 0.0) {
      line += ", " + FormatSeconds(elapsed_s * (1.0 - fraction) / fraction) + " left";
    }
  } else {
    line += fmt::format("{} done, {}", done, FormatSeconds(elapsed_s));
  }
  if (!note.empty()) line += "  " + std::string(note);
  // Cut at whole characters, so that the line never wraps and can be erased.
  std::string cut;
  int columns = 0;
  for (const char byte : Printable(line)) {
    const bool starts_character = (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
    if (starts_character && ++columns >= width) break;
    cut += byte == '\n' || byte == '\t' ? ' ' : byte;
  }
  return cut;
}

void EraseProgressLine() {
  const std::lock_guard lock(g_line_mutex);
  EraseLocked();
}

}  // namespace internal
}  // namespace palmist
