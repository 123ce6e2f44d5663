#include "palmist/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "palmist/base/file.h"
#include "palmist/base/text.h"
#include "palmist/base/version.h"
#include "palmist/report/assets.h"

namespace palmist::report {
namespace {

using nlohmann::json;

std::string_view Asset(std::string_view name) {
  const auto asset = std::find_if(
      kAssets.begin(), kAssets.end(), [&](const EmbeddedFile& file) { return file.name == name; });
  PALMIST_ASSERT(asset != kAssets.end());
  return asset->content;
}

/// Returns JSON that cannot end the script element it stands in.
std::string JsonForScript(const json& value) {
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    // Only within strings can these occur, so the escapes are legal.
    switch (c) {
      case '<':
        safe += "\\u003c";
        break;
      case '>':
        safe += "\\u003e";
        break;
      case '&':
        safe += "\\u0026";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

const char* ToString(CalloutKind kind) {
  switch (kind) {
    case CalloutKind::kNote:
      return "note";
    case CalloutKind::kGood:
      return "good";
    case CalloutKind::kWarning:
      return "warning";
    case CalloutKind::kBad:
      return "bad";
  }
  return "note";
}

std::string TableHtml(const Table& table, std::string_view caption) {
  const auto cell_class = [&](std::size_t column) {
    return column < table.alignment.size() && table.alignment[column] == 'r' ? " class=\"number\""
                                                                             : "";
  };
  std::string html = "<div class=\"table\" tabindex=\"0\">\n<table>\n";
  if (!caption.empty()) html += "<caption>" + EscapeHtml(caption) + "</caption>\n";
  html += "<thead><tr>";
  for (std::size_t i = 0; i < table.headers.size(); ++i) {
    html += fmt::format("<th scope=\"col\"{}>{}</th>", cell_class(i), EscapeHtml(table.headers[i]));
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    PALMIST_ASSERT(row.size() == table.headers.size());
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const char* tag = i == 0 ? "th scope=\"row\"" : "td";
      html += fmt::format(
          "<{}{}>{}</{}>", tag, cell_class(i), EscapeHtml(row[i]), i == 0 ? "th" : "td");
    }
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table>\n</div>\n";
}

bool IsChartId(std::string_view id) {
  return !id.empty() && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string escaped;
  for (const char c : Printable(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string ChartText(std::string_view text) {
  // Plotly knows these entities and, unlike a browser, few others.
  std::string escaped;
  for (const char c : Printable(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

Page::Page(std::string title) : title_(std::move(title)) {}

void Page::AddHeading(std::string_view text, int level) {
  PALMIST_ASSERT(level == 2 || level == 3);
  body_ += fmt::format("<h{0}>{1}</h{0}>\n", level, EscapeHtml(text));
}

void Page::AddParagraph(std::string_view text) { body_ += "<p>" + EscapeHtml(text) + "</p>\n"; }

void Page::AddList(const std::vector<std::string>& items) {
  body_ += "<ul>\n";
  for (const std::string& item : items) body_ += "<li>" + EscapeHtml(item) + "</li>\n";
  body_ += "</ul>\n";
}

void Page::AddCallout(CalloutKind kind, std::string_view text) {
  body_ += fmt::format(
      "<p class=\"callout {}\" role=\"note\">{}</p>\n", ToString(kind), EscapeHtml(text));
}

void Page::AddKeyFigures(const std::vector<KeyFigure>& figures) {
  body_ += "<dl class=\"figures\">\n";
  for (const KeyFigure& figure : figures) {
    body_ += fmt::format(
        "<div><dt>{}</dt><dd>{}</dd></div>\n", EscapeHtml(figure.label), EscapeHtml(figure.value));
  }
  body_ += "</dl>\n";
}

void Page::AddTable(const Table& table, std::string_view caption) {
  body_ += TableHtml(table, caption);
}

void Page::AddChart(const Chart& chart) {
  PALMIST_ASSERT(IsChartId(chart.id));
  PALMIST_ASSERT(std::find(chart_ids_.begin(), chart_ids_.end(), chart.id) == chart_ids_.end());
  if (PlotlyScript().empty()) {
    AddTable(chart.table, chart.caption);
    return;
  }
  chart_ids_.push_back(chart.id);
  body_ += fmt::format(
      "<figure>\n<figcaption>{0}</figcaption>\n"
      "<div class=\"chart\" id=\"{1}\" role=\"img\" aria-label=\"{0}\"></div>\n"
      "<script type=\"application/json\" id=\"{1}-json\">{2}</script>\n",
      EscapeHtml(chart.caption),
      chart.id,
      JsonForScript({{"data", chart.data}, {"layout", chart.layout}}));
  body_ += "<details>\n<summary>Numbers of this chart</summary>\n" + TableHtml(chart.table, {}) +
           "</details>\n</figure>\n";
}

std::string Page::Html() const {
  // No source but this file: the policy makes the browser refuse any request.
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"palmist {}\">\n<title>{}</title>\n<style>\n",
      EscapeHtml(Version()),
      EscapeHtml(title_));
  html += Asset("page.css");
  html += "</style>\n</head>\n<body>\n<main>\n<h1>" + EscapeHtml(title_) + "</h1>\n";
  html += body_;
  html += "</main>\n";
  if (!chart_ids_.empty()) {
    html += "<script>\n";
    html += PlotlyScript();
    html += "\n</script>\n<script>\n";
    html += Asset("page.js");
    html += "</script>\n";
  }
  return html + "</body>\n</html>\n";
}

Result<void> Page::Write(const std::string& path) const { return WriteFileAtomic(path, Html()); }

}  // namespace palmist::report
