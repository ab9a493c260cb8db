// AMX in plain C++: what each instruction does to the tiles of a thread, and nothing beyond what it may read or write.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "core/half.h"
#include "cpu/units/tiles.h"

TOCHA_ISA_BEGIN
namespace units {

struct EmulatedTiles {
  struct State {
    TileConfig config;
    bool configured = false;
    alignas(64) uint32_t tiles[8][kTileRows][kTileBytes / 4];
  };
  static State& state() {
    thread_local const std::unique_ptr<State> s =
        std::make_unique<State>();  // too large for a module's own thread memory
    return *s;
  }
  static int rows(int t) { return state().configured ? state().config.rows[t] : 0; }

  static void configure(const TileConfig& config) {
    state().config = config;
    state().configured = true;
    std::memset(state().tiles, 0xff, sizeof(state().tiles));  // not a number
  }
  static void release() { state().configured = false; }
  template <int t>
  static void zero() {
    std::memset(state().tiles[t], 0, sizeof(state().tiles[t]));
  }
  template <int t>
  static void load(const void* from, int64_t row) {
    for (int r = 0; r < rows(t); ++r)
      std::memcpy(state().tiles[t][r], static_cast<const char*>(from) + r * row, kTileBytes);
  }
  template <int t>
  static void store(void* to, int64_t row) {
    for (int r = 0; r < rows(t); ++r) std::memcpy(static_cast<char*>(to) + r * row, state().tiles[t][r], kTileBytes);
  }
  // f(word of the sum, word of a, word of b) for all products of two tiles.
  template <int sum, int a, int b, class F>
  static void for_products(F f) {
    State& s = state();
    for (int r = 0; r < rows(a); ++r)
      for (int k = 0; k < kTileBytes / 4; ++k)
        for (int j = 0; j < kTileBytes / 4; ++j)
          s.tiles[sum][r][j] = f(s.tiles[sum][r][j], s.tiles[a][r][k], s.tiles[b][k][j]);
  }
};

struct EmulatedBFloat16Tiles : EmulatedTiles {
  static float part(uint32_t word, int i) { return std::bit_cast<float>(i ? word & 0xffff0000u : word << 16); }
  template <int sum, int a, int b>
  static void dot() {
    for_products<sum, a, b>([](uint32_t c, uint32_t x, uint32_t y) {
      float total = std::bit_cast<float>(c);
      for (int i = 0; i < 2; ++i) total += part(x, i) * part(y, i);
      return std::bit_cast<uint32_t>(total);
    });
  }
};

struct EmulatedInt8Tiles : EmulatedTiles {
  static uint32_t part(uint32_t word, int i) { return static_cast<uint32_t>(static_cast<int8_t>(word >> 8 * i)); }
  template <int sum, int a, int b>
  static void dot() {
    for_products<sum, a, b>([](uint32_t c, uint32_t x, uint32_t y) {
      for (int i = 0; i < 4; ++i) c += part(x, i) * part(y, i);
      return c;
    });
  }
};

}  // namespace units
TOCHA_ISA_END
