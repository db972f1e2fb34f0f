import assert from "node:assert/strict";
import { test } from "node:test";
import { isFinal, mayMove, OUTCOMES, STATES, type State } from "../../src/core/state.ts";

/** Protocol, section 2, as a picture: every pair that is not here is no move. */
const MOVES: Readonly<Record<State, readonly State[]>> = {
  requested: ["prepared", "declined"],
  prepared: ["prepared", "admitted", "declined"],
  declined: [],
  admitted: ["accepted", "failed", "no_effect", "uncertain"],
  accepted: [],
  failed: [],
  no_effect: [],
  uncertain: [],
};

test("of all pairs of states exactly the moves of the protocol are moves", () => {
  for (const from of STATES) {
    for (const to of STATES) assert.equal(mayMove(from, to), MOVES[from].includes(to), `${from} to ${to}`);
  }
});

test("declined and the four outcomes are final, and nothing else is", () => {
  assert.deepEqual(STATES.filter(isFinal), ["declined", ...OUTCOMES]);
});

test("only an admission leads to an outcome", () => {
  for (const outcome of OUTCOMES) {
    assert.deepEqual(
      STATES.filter((from) => mayMove(from, outcome)),
      ["admitted"],
    );
  }
});
