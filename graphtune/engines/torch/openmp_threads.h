#pragma once

namespace graphtune {

/// To be called after torch computed something: the threads of its OpenMP may spin now.
void leave_openmp_spinning() noexcept;

}  // namespace graphtune
