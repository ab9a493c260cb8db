// Makes the CPU known to the dispatcher.
#pragma once

namespace tocha::cpu {

void register_cpu();

}  // namespace tocha::cpu
