// What devices made outside of this library may call (docs/inside/devices.md); everything else is hidden.
#pragma once

#define TOCHA_API __attribute__((visibility("default")))
