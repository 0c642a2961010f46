#pragma once

#include "graphtune/export.h"

namespace graphtune {

// The threads of a runtime's pool may spin for some milliseconds after a call, waiting for the next
// one. When that comes from another engine, they take the cores that its threads need: MiniLM on
// OpenVINO takes up to 1.7x as long right after a call of AOTInductor, whose OpenMP spins so.

/// By who leaves such threads of the calling thread behind: `end` ends their spinning, and is
/// called on the same thread.
GRAPHTUNE_API void leave_spinning(void (*end)() noexcept) noexcept;

/// By engines with threads of their own, before they run: ends what this thread left spinning
/// lately.
GRAPHTUNE_API void end_spinning() noexcept;

}  // namespace graphtune
