/// The planner for other languages: JSON text in, JSON text out (see README.md beside this file).
#pragma once

#define PALMIST_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/// Answers a request, `{"call": NAME, …}`, with a JSON object that `palmist_free` must free.
///
/// Never throws and never ends the process: what is wrong with the request, NULL included, comes
/// back as `{"error": {"kind", "message", "field"}}`. NULL only where memory ran out. May be called
/// from several threads at once.
PALMIST_EXPORT char* palmist_call(const char* request_json);

/// Frees an answer; NULL does nothing.
PALMIST_EXPORT void palmist_free(char* text);

/// Returns the version of the library, such as "0.1.0".
PALMIST_EXPORT const char* palmist_version(void);

#ifdef __cplusplus
}
#endif
