#include "graphtune/error.h"

namespace graphtune {

Error::~Error() = default;
ValueError::~ValueError() = default;
TypeError::~TypeError() = default;
MissError::~MissError() = default;
BundleError::~BundleError() = default;
EngineError::~EngineError() = default;

}  // namespace graphtune
