/// One builder for every HTML page: a single file that needs no network, reads well on a phone, in
/// print and in the dark, and shows a table beside every chart.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/result.h"

namespace palmist::report {

/// Returns `text` for use in HTML, in elements and in quoted attributes. Control characters and
/// bytes that are not UTF-8 become `\xNN`.
std::string EscapeHtml(std::string_view text);

/// Returns `text` for use as a label in a chart, where Plotly would read it as HTML.
std::string ChartText(std::string_view text);

/// Rows of cells under headers. All text is escaped.
struct Table {
  std::vector<std::string> headers;
  std::vector<std::vector<std::string>> rows;  ///< each as long as `headers`
  std::string alignment;                       ///< a letter a column: l or r; what is missing is l
};

/// A Plotly chart with the table of its numbers.
///
/// A string in `data` or `layout` that names a CSS variable of the page, such as "--states-1" or
/// "--text", stands for that colour, which follows light and dark. Fonts, backgrounds, grid and
/// legend have defaults.
struct Chart {
  std::string id;         ///< letters, digits, '-' and '_'; unique on its page
  std::string caption;    ///< what the chart shows, in one sentence
  nlohmann::json data;    ///< Plotly's list of traces
  nlohmann::json layout;  ///< Plotly's layout; its `height` in pixels is respected
  Table table;
};

/// A number that stands out, such as {"iteration", "1.24 s"}.
struct KeyFigure {
  std::string label;
  std::string value;
};

enum class CalloutKind { kNote, kGood, kWarning, kBad };

/// A page under construction. Parts appear in the order they are added.
class Page {
 public:
  explicit Page(std::string title);

  /// Adds a heading. @pre level is 2 or 3; the title is 1
  void AddHeading(std::string_view text, int level = 2);
  void AddParagraph(std::string_view text);
  void AddList(const std::vector<std::string>& items);
  void AddCallout(CalloutKind kind, std::string_view text);
  void AddKeyFigures(const std::vector<KeyFigure>& figures);

  /// Adds a table. @pre every row is as long as the headers
  void AddTable(const Table& table, std::string_view caption = {});

  /// Adds a chart, or only its table in a build without Plotly. @pre the id is valid and new
  void AddChart(const Chart& chart);

  /// Returns the page, with scripts and styles inside.
  std::string Html() const;

  /// Writes the page to `path`, whole or not at all.
  Result<void> Write(const std::string& path) const;

 private:
  std::string title_;
  std::string body_;
  std::vector<std::string> chart_ids_;
};

/// Returns the JavaScript of Plotly, or "" in a build without it.
std::string_view PlotlyScript();

}  // namespace palmist::report
