#pragma once

// The library is compiled with hidden visibility: what other libraries, the Python extension, tools
// and tests use carries this mark. Put it on classes (`class GRAPHTUNE_API Locator`, exceptions
// too, so that they can be caught on the other side of a library boundary) and on free functions;
// templates and wholly inline code need none.
#define GRAPHTUNE_API __attribute__((visibility("default")))
