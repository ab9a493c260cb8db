// What devices made outside of this library may call (docs/inside/devices.md); everything else is hidden. Inside, such
// names are bound as directly as hidden ones.
#pragma once

#if defined(TOCHA_BUILD)
#define TOCHA_API __attribute__((visibility("protected")))
#else
#define TOCHA_API
#endif
