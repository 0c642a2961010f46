#pragma once

#include <string>
#include <string_view>

#include <c10/util/StringUtil.h>

#include "graphtune/error.h"

namespace graphtune {

// No fmt beside torch's headers: they hide an fmt of their own among them, whose library is not the
// one that we link.
template <typename... Parts>
[[nodiscard]] EngineError engine_error(std::string_view backend, const Parts&... parts) {
  return EngineError(c10::str("engine '", backend, "': ", parts...));
}

/// The exception that is being handled, in one line and without torch's stack trace. Must be called
/// in a catch block.
[[nodiscard]] std::string current_reason();

}  // namespace graphtune
