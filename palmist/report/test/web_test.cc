// Opens a page in a real browser, without a network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "palmist/base/file.h"
#include "palmist/report/page.h"
#include "palmist/report/test/example_page.h"

namespace palmist::report {
namespace {

/// Returns whether an attribute of `html` that loads something names another host.
bool LoadsFromOutside(std::string_view html) {
  for (const std::string_view attribute : {"src", "href", "action"}) {
    for (std::size_t at = html.find(attribute); at != std::string_view::npos;
         at = html.find(attribute, at + 1)) {
      std::string_view rest = html.substr(at + attribute.size());
      const auto skip = [&](std::string_view characters) {
        rest.remove_prefix(std::min(rest.find_first_not_of(characters), rest.size()));
      };
      skip(" \t\n");
      if (!rest.starts_with('=')) continue;
      skip("= \t\n\"'");
      if (rest.starts_with("http:") || rest.starts_with("https:") || rest.starts_with("//")) {
        return true;
      }
    }
  }
  return false;
}

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

/// Runs a shell command and returns what it prints.
std::string RunShell(const std::string& command, int& status) {
  std::string output;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 65536> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), n);
  }
  status = pclose(pipe);
  return output;
}

/// Returns the name of an installed Chromium; empty where there is none.
std::string Browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    if (std::system((std::string("command -v ") + name + " >/dev/null 2>&1").c_str()) == 0)
      return name;
  }
  return {};
}

class WebTest : public testing::Test {
 protected:
  void SetUp() override {
    browser_ = Browser();
    if (browser_.empty()) GTEST_SKIP() << "chromium is not installed: run tools/setup.sh test";
    if (PlotlyScript().empty()) GTEST_SKIP() << "this build has no charts";
    folder_ = fs::path(testing::TempDir()) / ("palmist_web_test_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  /// Returns the document after its scripts ran, and puts what they said into `log_`.
  std::string Open(const Page& page, const std::string& flags = {}) {
    const std::string file = folder_ / "page.html", log = folder_ / "log.txt";
    page.Write(file).value();
    int status = -1;
    const std::string document =
        RunShell("timeout 90 " + browser_ +
                     " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage "
                     "--user-data-dir='" +
                     (folder_ / "profile").string() +
                     "' --enable-logging=stderr --v=0 "
                     "--virtual-time-budget=5000 --window-size=1200,1600 " +
                     flags + " --dump-dom 'file://" + file + "' 2>'" + log + "'",
                 status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    log_ = ReadFile(log).value();
    return document;
  }

  std::string browser_;
  fs::path folder_;
  std::string log_;
};

/// Returns the document without the contents of its scripts.
std::string WithoutScripts(const std::string& document) {
  std::string rest;
  std::size_t at = 0;
  while (true) {
    const std::size_t begin = document.find("<script", at);
    rest += document.substr(at, begin - at);
    if (begin == std::string::npos) return rest;
    at = document.find("</script>", begin);
    if (at == std::string::npos) return rest;
  }
}

TEST_F(WebTest, ChartsAreDrawnWithoutErrorsOrRequests) {
  const std::string document = WithoutScripts(Open(test::ExamplePage("<b>gpt2</b>-xl")));
  EXPECT_THAT(log_, Not(HasSubstr("CONSOLE")));
  for (const char* id : {"memory", "time"}) {
    const std::size_t begin = document.find(std::string("id=\"") + id + "\"");
    ASSERT_NE(begin, std::string::npos) << id;
    const std::string chart = document.substr(begin, document.find("</figure>", begin) - begin);
    EXPECT_THAT(chart, HasSubstr("<svg class=\"main-svg\"")) << id;
    EXPECT_THAT(chart, HasSubstr("<g class=\"point\"><path d=\"M")) << id;
  }
  EXPECT_THAT(document, HasSubstr(">limit</text>"));
  EXPECT_FALSE(LoadsFromOutside(document));
  EXPECT_TRUE(LoadsFromOutside("<img src = ' https://example.org/x.png'>"));
  EXPECT_TRUE(LoadsFromOutside("<a href=//example.org>"));
}

TEST_F(WebTest, ChartsTakeTheColoursOfThePage) {
  const Page page = test::ExamplePage("gpt2-xl");
  const std::string light = WithoutScripts(Open(page));
  const std::string dark = WithoutScripts(Open(page, "--blink-settings=preferredColorScheme=0"));
  EXPECT_THAT(light, HasSubstr("fill: rgb(31, 78, 140)"));
  EXPECT_THAT(dark, HasSubstr("fill: rgb(63, 121, 194)"));
  EXPECT_THAT(dark, Not(HasSubstr("fill: rgb(31, 78, 140)")));
}

}  // namespace
}  // namespace palmist::report
