#include "palmist/base/error.h"

#include <string>
#include <utility>

namespace palmist {
namespace {

std::string ComposeWhat(const std::string& message,
                        const std::string& field,
                        const std::string& hint) {
  std::string what = field.empty() ? message : field + ": " + message;
  if (!hint.empty()) what += " (" + hint + ")";
  return what;
}

}  // namespace

const char* ToString(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kInput:
      return "input";
    case ErrorKind::kInfeasible:
      return "infeasible";
    case ErrorKind::kRuntime:
      return "runtime";
    case ErrorKind::kUnavailable:
      return "unavailable";
    case ErrorKind::kInterrupted:
      return "interrupted";
    case ErrorKind::kInternal:
      return "internal";
  }
  return "internal";
}

int ExitCode(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
    case ErrorKind::kInput:
      return 2;
    case ErrorKind::kInfeasible:
      return 3;
    case ErrorKind::kRuntime:
      return 4;
    case ErrorKind::kUnavailable:
      return 5;
    case ErrorKind::kInterrupted:
      return 130;
    case ErrorKind::kInternal:
      return 70;
  }
  return 70;
}

Error::Error(ErrorKind kind, std::string message, std::string field, std::string hint)
    : kind_(kind),
      message_(std::move(message)),
      field_(std::move(field)),
      hint_(std::move(hint)),
      what_(ComposeWhat(message_, field_, hint_)) {}

Error Error::WithFieldPrefix(const std::string& prefix) const {
  const bool joins_directly = field_.empty() || prefix.empty() || field_.front() == '[';
  return Error(kind_, message_, prefix + (joins_directly ? "" : ".") + field_, hint_);
}

Error Error::WithPath(const std::string& path) const {
  return Error(kind_, message_, field_.empty() ? path : path + ": " + field_, hint_);
}

namespace internal {

void AssertFailed(const char* condition, const char* file, int line) {
  throw Error(
      ErrorKind::kInternal,
      std::string("a broken invariant at ") + file + ":" + std::to_string(line) + ": " + condition,
      {},
      "this is a defect of Palmist: please report it with the command that led here");
}

}  // namespace internal
}  // namespace palmist
