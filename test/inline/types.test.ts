/**
 * What the compiler says about inline effects: it makes the caller look. Each `@ts-expect-error` is a line that must not
 * compile; `tsc` fails where one does.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { InlineEnd, Run } from "../../src/index.ts";

interface Charge {
  readonly id: string;
}

/** Never called: only its types are looked at. */
export async function callers(run: Run): Promise<string> {
  const charge = async (): Promise<Charge> => ({ id: "ch_1" });
  const end = await run.effect("charge", { run: charge, reconcile: async () => null });
  // @ts-expect-error a proof is there only where it was accepted: look first
  end.proof;
  // @ts-expect-error the same for how it came
  end.via;
  if (end.outcome === "uncertain") {
    // @ts-expect-error what is uncertain has no proof
    return end.proof;
  }
  const via: "run" | "reconcile" = end.via;
  const { id }: Charge = end.proof;

  // @ts-expect-error no other outcome is there to be met
  if (end.outcome === "failed") return via;

  await run.effect("typed", {
    run: charge,
    // @ts-expect-error what reconcile finds is what run returns
    reconcile: async () => ({ receipt: 1 }),
  });
  await run.effect("nothing", {
    // @ts-expect-error a run that returns nothing proves nothing
    run: async () => {},
    reconcile: async () => null,
  });
  // @ts-expect-error without reconcile a lost answer would never be found
  await run.effect("half", { run: charge });
  await run.effect(
    "plain",
    { run: async () => "ch_1", reconcile: async () => null },
    { reconcileTimeoutMs: 1, runTimeoutMs: 0 },
  );
  await run.effect("context", {
    run: async ({ key, effectId, signal }) => `${key} ${effectId} ${signal.aborted}`,
    reconcile: async ({ key, signal }) => (signal.aborted ? null : key),
  });
  return id;
}

/** A switch over every end, without a default: one more would not compile. */
export function told(end: InlineEnd<Charge>): string {
  switch (end.outcome) {
    case "accepted":
      return `${end.proof.id} via ${end.via}`;
    case "uncertain":
      return "nobody can tell";
  }
}

test("a caller that has looked can tell every end", () => {
  assert.equal(told({ outcome: "accepted", proof: { id: "ch_1" }, via: "run" }), "ch_1 via run");
  assert.equal(told({ outcome: "uncertain" }), "nobody can tell");
});
