#pragma once

#include <stdexcept>
#include <string>

#include "graphtune/export.h"

namespace graphtune {

/// Base of everything that graphtune throws. Messages say what is wrong, where (tensor locator,
/// axis, file) and what to do next.
class GRAPHTUNE_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~Error() override;  // defined out of line: one type_info for all shared libraries
};

/// An argument has a value that cannot be used. Python: graphtune.GraphtuneValueError, also a
/// ValueError.
class GRAPHTUNE_API ValueError : public Error {
 public:
  using Error::Error;
  ~ValueError() override;
};

/// An argument has a type that cannot be used. Python: also a TypeError.
class GRAPHTUNE_API TypeError : public Error {
 public:
  using Error::Error;
  ~TypeError() override;
};

/// A call that no tuned graph serves: see miss.h for the reasons.
class GRAPHTUNE_API MissError : public Error {
 public:
  using Error::Error;
  ~MissError() override;
};

/// A bundle or file that is damaged, foreign, or not allowed to be loaded.
class GRAPHTUNE_API BundleError : public Error {
 public:
  using Error::Error;
  ~BundleError() override;
};

/// An engine (or its library) could not be loaded, or failed while it ran.
class GRAPHTUNE_API EngineError : public Error {
 public:
  using Error::Error;
  ~EngineError() override;
};

}  // namespace graphtune
