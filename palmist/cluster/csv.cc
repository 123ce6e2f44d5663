#include "palmist/cluster/csv.h"

#include <charconv>
#include <sstream>

#include "palmist/base/error.h"
#include "palmist/cluster/preset_files.h"

namespace palmist::cluster {
namespace {

/// Returns the lines of `text` as lists of cells.
std::vector<std::vector<std::string>> Split(std::string_view text) {
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> line(1);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      const bool doubled = quoted && i + 1 < text.size() && text[i + 1] == '"';
      if (doubled) {
        line.back() += '"';
        ++i;
      } else {
        quoted = !quoted;
      }
    } else if (quoted || (c != ',' && c != '\n' && c != '\r')) {
      line.back() += c;
    } else if (c == ',') {
      line.emplace_back();
    } else if (c == '\n') {
      lines.push_back(std::move(line));
      line.assign(1, {});
    }
  }
  if (line.size() > 1 || !line.back().empty()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace

const std::string& CsvRow::Text(std::string_view column) const {
  const auto found = cells_.find(column);
  PALMIST_ASSERT(found != cells_.end());
  return found->second;
}

double CsvRow::Number(std::string_view column) const {
  const std::string& text = Text(column);
  double value = 0.0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  PALMIST_ASSERT(read.ec == std::errc() && read.ptr == text.data() + text.size());
  return value;
}

std::vector<std::string> CsvRow::Words(std::string_view column) const {
  std::istringstream stream(Text(column));
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<CsvRow> ParseCsv(std::string_view text) {
  const auto lines = Split(text);
  PALMIST_ASSERT(!lines.empty());
  std::vector<CsvRow> rows;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    PALMIST_ASSERT(lines[i].size() == lines[0].size());
    std::map<std::string, std::string, std::less<>> cells;
    for (std::size_t j = 0; j < lines[0].size(); ++j) cells[lines[0][j]] = lines[i][j];
    rows.emplace_back(std::move(cells));
  }
  return rows;
}

const std::vector<CsvRow>& PresetTable(std::string_view name) {
  static const auto* const tables = [] {
    auto* result = new std::map<std::string, std::vector<CsvRow>, std::less<>>;
    for (const EmbeddedFile& file : kPresetFiles)
      (*result)[std::string(file.name)] = ParseCsv(file.content);
    return result;
  }();
  const auto found = tables->find("presets/" + std::string(name) + ".csv");
  PALMIST_ASSERT(found != tables->end());
  return found->second;
}

}  // namespace palmist::cluster
