import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { remainingMs } from "../../src/dispatch/window.ts";

const OPENED = { monotonicMs: 5_000, wallMs: 1_800_000_000_000 };
const WINDOW_MS = 30_000;
const left = (monotonicMs: number, wallMs: number) =>
  remainingMs(OPENED, WINDOW_MS, { monotonicMs: OPENED.monotonicMs + monotonicMs, wallMs: OPENED.wallMs + wallMs });

describe("what is left of a dispatch window", () => {
  test("is all of it in the turn in which it opens", () => assert.equal(left(0, 0), WINDOW_MS));

  test("goes by whichever clock has run further", () => {
    assert.equal(left(1_000, 1_000), 29_000);
    assert.equal(left(1_000, 20_000), 10_000); // suspended: the monotonic clock stood still
    assert.equal(left(20_000, 1_000), 10_000); // the wall clock was set back
    assert.equal(left(20_000, -86_400_000), 10_000);
  });

  test("is nothing at its very end, and less after it", () => {
    assert.equal(left(WINDOW_MS, 0), 0);
    assert.equal(left(0, WINDOW_MS), 0);
    assert.ok(left(WINDOW_MS + 1, 0) < 0);
  });

  test("is measured by this process's clocks where none are given", () => {
    const opened = { monotonicMs: performance.now(), wallMs: Date.now() };
    const remaining = remainingMs(opened, WINDOW_MS);
    assert.ok(remaining > 0 && remaining <= WINDOW_MS);
    assert.ok(remainingMs({ ...opened, wallMs: opened.wallMs - WINDOW_MS }, WINDOW_MS) <= 0);
    assert.ok(remainingMs({ ...opened, monotonicMs: opened.monotonicMs - WINDOW_MS }, WINDOW_MS) <= 0);
  });
});
