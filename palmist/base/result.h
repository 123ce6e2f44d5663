/// `Result<T>`: a value, or the `Error` that says why there is none.
#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "palmist/base/error.h"

namespace palmist {

/// A value of type T or an Error. Returned by whatever reads untrusted bytes.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  /// Returns the value; throws the held Error if there is none.
  T& value() & {
    ThrowIfError();
    return std::get<0>(state_);
  }
  const T& value() const& {
    ThrowIfError();
    return std::get<0>(state_);
  }
  T&& value() && {
    ThrowIfError();
    return std::get<0>(std::move(state_));
  }

  /// @pre !ok()
  const Error& error() const {
    PALMIST_ASSERT(!ok());
    return std::get<1>(state_);
  }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void ThrowIfError() const {
    if (!ok()) throw std::get<1>(state_);
  }

  std::variant<T, Error> state_;
};

/// The outcome of an action without a value.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  void value() const {
    if (error_) throw *error_;
  }
  const Error& error() const {
    PALMIST_ASSERT(error_.has_value());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

#define PALMIST_CONCAT_INNER_(a, b) a##b
#define PALMIST_CONCAT_(a, b) PALMIST_CONCAT_INNER_(a, b)

/// Evaluates a Result expression; returns its Error from the enclosing function, else assigns.
#define PALMIST_ASSIGN_OR_RETURN(lhs, expression)                                                  \
  auto PALMIST_CONCAT_(result_, __LINE__) = (expression);                                          \
  if (!PALMIST_CONCAT_(result_, __LINE__).ok()) return PALMIST_CONCAT_(result_, __LINE__).error(); \
  lhs = std::move(PALMIST_CONCAT_(result_, __LINE__)).value()

/// Evaluates a Result expression and returns its Error from the enclosing function, if any.
#define PALMIST_RETURN_IF_ERROR(expression)                  \
  do {                                                       \
    auto palmist_result = (expression);                      \
    if (!palmist_result.ok()) return palmist_result.error(); \
  } while (false)

}  // namespace palmist
