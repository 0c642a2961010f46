// The fake backend as an engine library: for what the tests start as processes, and for the
// registry.
#include "fake_backend.h"

GRAPHTUNE_ENGINE_MODULE(graphtune::test::FakeBackend)
