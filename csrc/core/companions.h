// Objects that live as long as a storage does: what weak references to storages watch. The address of a storage says
// nothing once it has ended, another may have taken it.
#pragma once

#include "core/storage.h"

namespace tocha {

// The object that lives as long as this storage: the one it has, or from now on this one. Not counted.
PyObject* companion_of(const Storage& s, PyObject* fresh);

}  // namespace tocha
