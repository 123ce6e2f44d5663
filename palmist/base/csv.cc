#include "palmist/base/csv.h"

#include <fmt/format.h>

#include <utility>

#include "palmist/base/text.h"

namespace palmist {
namespace {

/// Reads one row after the other. Methods throw at the first thing that is wrong.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  }

  bool AtEnd() const { return next_ == text_.size(); }
  int line() const { return line_; }

  /// Appends the next row to `cells`, at most `max_cells` of them, and returns how many it has; 0
  /// for an empty line. @pre !AtEnd()
  std::int64_t ReadRow(std::int64_t max_cells, std::vector<std::string>& cells) {
    const int first_line = line_;
    if (SkipLineEnd()) return 0;
    std::int64_t count = 0;
    do {
      if (count == max_cells) {
        Fail(first_line, fmt::format("expected at most {} cells, got more", max_cells));
      }
      cells.push_back(ReadCell());
      ++count;
    } while (Skip(','));
    if (!AtEnd() && !SkipLineEnd()) {
      Fail(line_,
           "expected a comma or the end of the line after a quoted cell, got " +
               Quote(text_.substr(next_, 20)),
           "write a quote inside a quoted cell twice");
    }
    return count;
  }

  [[noreturn]] static void Fail(int line, std::string message, std::string hint = {}) {
    throw InputError(fmt::format("line {}", line), std::move(message), std::move(hint));
  }

 private:
  bool Skip(char c) {
    if (AtEnd() || text_[next_] != c) return false;
    ++next_;
    return true;
  }

  bool SkipLineEnd() {
    const std::string_view rest = text_.substr(next_);
    const std::size_t length = rest.starts_with("\r\n") ? 2 : rest.starts_with('\n') ? 1 : 0;
    if (length == 0) return false;
    next_ += length;
    ++line_;
    return true;
  }

  std::string ReadCell() {
    if (Skip('"')) return ReadQuoted();
    const std::size_t begin = next_;
    while (!AtEnd() && text_[next_] != ',' && text_[next_] != '\n') {
      if (text_[next_] == '"') {
        Fail(line_,
             "expected quotes around the whole cell, got one inside " +
                 Quote(text_.substr(begin, 20)),
             "put the cell in quotes and write the quote inside twice");
      }
      ++next_;
    }
    std::string_view cell = text_.substr(begin, next_ - begin);
    if (!AtEnd() && text_[next_] == '\n' && cell.ends_with('\r')) {
      cell.remove_suffix(1);
      --next_;
    }
    return std::string(cell);
  }

  std::string ReadQuoted() {
    const int first_line = line_;
    std::string cell;
    while (!AtEnd()) {
      const char c = text_[next_++];
      if (c == '\n') ++line_;
      if (c == '"' && !Skip('"')) return cell;
      cell += c;
    }
    Fail(first_line,
         "expected the quote that closes a cell, got the end of the text",
         "the file may be cut off");
  }

  std::string_view text_;
  std::size_t next_ = 0;
  int line_ = 1;
};

}  // namespace

const std::string& CsvRow::Text(std::string_view column) const {
  static const std::string empty;
  const auto found = table_->index_.find(column);
  if (found == table_->index_.end()) return empty;
  return table_->cells_[index_ * table_->columns_.size() + found->second];
}

int CsvRow::line() const { return table_->lines_[index_]; }

Result<CsvTable> ParseCsv(std::string_view text, const CsvLimits& limits) {
  if (static_cast<std::int64_t>(text.size()) > limits.max_bytes) {
    return InputError({},
                      fmt::format("expected at most {} of CSV, got {}",
                                  FormatBytes(static_cast<double>(limits.max_bytes)),
                                  FormatBytes(static_cast<double>(text.size()))));
  }
  if (!IsValidUtf8(text)) return InputError({}, "expected CSV in UTF-8, got other bytes");
  try {
    Scanner scanner(text);
    CsvTable table;
    while (!scanner.AtEnd() && table.columns_.empty()) {
      const int line = scanner.line();
      scanner.ReadRow(limits.max_columns, table.columns_);
      for (std::size_t i = 0; i < table.columns_.size(); ++i) {
        const std::string& name = table.columns_[i];
        if (name.empty()) {
          Scanner::Fail(line, fmt::format("expected a name for column {}, got none", i + 1));
        }
        if (!table.index_.emplace(name, i).second) {
          Scanner::Fail(line,
                        "expected columns with names of their own, got two called " + Quote(name));
        }
      }
    }
    if (table.columns_.empty()) {
      return InputError({}, "expected a line that names the columns, got an empty text");
    }
    const auto width = static_cast<std::int64_t>(table.columns_.size());
    while (!scanner.AtEnd()) {
      const int line = scanner.line();
      const std::int64_t count = scanner.ReadRow(width, table.cells_);
      if (count == 0) continue;
      if (count != width) {
        Scanner::Fail(line,
                      fmt::format("expected {} cells as in the first line, got {}", width, count),
                      scanner.AtEnd() ? "the file may be cut off" : "");
      }
      if (static_cast<std::int64_t>(table.cells_.size()) > limits.max_cells) {
        Scanner::Fail(line,
                      fmt::format("expected at most {} cells in all, got more", limits.max_cells));
      }
      table.lines_.push_back(line);
    }
    return table;
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace palmist
