/// Errors: what ends a request, and how a person mends it.
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace palmist {

/// What kind of failure ended a request; the CLI maps each to one exit code.
enum class ErrorKind {
  kUsage,        ///< A wrong option or argument (exit 2).
  kInput,        ///< A bad file or value (exit 2).
  kInfeasible,   ///< No valid answer exists (exit 3).
  kRuntime,      ///< The run itself failed (exit 4).
  kUnavailable,  ///< Not available in this build or on this machine (exit 5).
  kInterrupted,  ///< Stopped by a signal (exit 130).
  kInternal,     ///< A broken invariant: our bug (exit 70).
};

/// Returns the stable lower-case name used in JSON output, such as "input".
const char* ToString(ErrorKind kind);

/// Returns the process exit code of `kind` (docs/guide/exit-codes.md).
int ExitCode(ErrorKind kind);

/// An error a person can act on: what was expected, what came, and how to mend it.
///
/// Thrown for a caller's bad argument; carried by `Result<T>` for untrusted input.
class Error : public std::exception {
 public:
  /// @param message one sentence: what was expected and what came.
  /// @param field   path of the offending value, such as `stages[1].micro_batch`; may be empty.
  /// @param hint    one sentence: how to mend it; may be empty.
  Error(ErrorKind kind, std::string message, std::string field = {}, std::string hint = {});

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const std::string& field() const { return field_; }
  const std::string& hint() const { return hint_; }

  /// Returns "field: message (hint)", leaving out what is empty.
  const char* what() const noexcept override { return what_.c_str(); }

  /// Returns this error with `prefix` put in front of its field path, for nested parsers.
  [[nodiscard]] Error WithFieldPrefix(const std::string& prefix) const;
  /// Returns this error with the path of the file that it is about: "path: field".
  [[nodiscard]] Error WithPath(const std::string& path) const;

 private:
  ErrorKind kind_;
  std::string message_;
  std::string field_;
  std::string hint_;
  std::string what_;
};

/// Returns an `ErrorKind::kInput` error.
inline Error InputError(std::string field, std::string message, std::string hint = {}) {
  return Error(ErrorKind::kInput, std::move(message), std::move(field), std::move(hint));
}

/// Returns an `ErrorKind::kUsage` error.
inline Error UsageError(std::string field, std::string message, std::string hint = {}) {
  return Error(ErrorKind::kUsage, std::move(message), std::move(field), std::move(hint));
}

namespace internal {
[[noreturn]] void AssertFailed(const char* condition, const char* file, int line);
}  // namespace internal

/// Checks an invariant of our own code; never reachable from input. Throws kInternal.
#define PALMIST_ASSERT(condition) \
  (static_cast<bool>(condition)   \
       ? static_cast<void>(0)     \
       : ::palmist::internal::AssertFailed(#condition, __FILE__, __LINE__))

}  // namespace palmist
