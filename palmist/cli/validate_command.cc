#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "palmist/accuracy/validate.h"
#include "palmist/base/file.h"
#include "palmist/cli/command.h"

namespace palmist::cli {
namespace {

struct ValidateArguments {
  std::string runs, calibration, by;
};

}  // namespace

void AddValidateCommand(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<ValidateArguments>();
  CLI::App* command = AddCommand(
      app,
      context,
      "validate",
      "score the cost model against measured runs",
      "palmist validate runs.csv --by gpu,model",
      [&context, arguments] {
        const std::string text = ReadFile(arguments->runs).value();
        const accuracy::RunsFile runs = accuracy::ReadRuns(text).value();
        accuracy::ValidateOptions options;
        for (std::size_t begin = 0; begin < arguments->by.size();) {
          const std::size_t end = std::min(arguments->by.find(',', begin), arguments->by.size());
          options.group_by.push_back(arguments->by.substr(begin, end - begin));
          begin = end + 1;
        }
        cluster::Calibration calibration;
        if (!arguments->calibration.empty()) {
          calibration = cluster::ReadCalibration(arguments->calibration).value();
        }
        const accuracy::ValidationReport report =
            accuracy::Validate(
                runs, arguments->calibration.empty() ? nullptr : &calibration, options)
                .value();
        if (context.json) {
          PrintJson(context, accuracy::ToJson(report));
        } else {
          *context.out << accuracy::FormatReport(report);
        }
        return 0;
      });
  command->add_option("RUNS", arguments->runs, "a CSV file of measured runs")->required();
  command->add_option("--calibration", arguments->calibration, "a calibration file");
  command->add_option("--by", arguments->by, "group by keys such as gpu,model,system");
}

}  // namespace palmist::cli
