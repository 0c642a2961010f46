#include "graphtune/engines/engine.h"

namespace graphtune {

// Out of line: one vtable and one type_info for all shared libraries.
Engine::~Engine() = default;
Backend::~Backend() = default;

}  // namespace graphtune
