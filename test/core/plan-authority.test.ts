/** The plan of a file of authority: what would be added, changed and revoked, in which order, and what cannot be. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { planAuthority } from "../../src/core/plan-authority.ts";
import type { PolicyRules, PresentAuthority, WantedAuthority } from "../../src/core/wanted-authority.ts";

const [REVIEWED, OTHER] = ["a".repeat(64), "b".repeat(64)];
const KEY = "c".repeat(64);

const RULES: PolicyRules = {
  operation: "charge_card",
  version: 1,
  task: "shop",
  actor: null,
  target: null,
  target_match: null,
  costs: { usd_cents: "4000" },
  admissions_max: null,
  open_max: "20",
  approvals_needed: 2,
  approvers: ["ana", "ben"],
  requester_excluded: true,
  precondition_enforced: false,
  prepared_within_ms: null,
  expires_at: null,
};

const PRESENT: PresentAuthority = {
  ledger: { name: "shop", strict: false },
  actors: [],
  speakers: [],
  tasks: [],
  budgets: [],
  operations: [
    {
      operation: "charge_card",
      version: 1,
      implementation: REVIEWED,
      allowed_implementation: null,
      protected: false,
      withdrawn: false,
    },
  ],
  approvers: [],
  policies: [],
};
const [REGISTERED] = PRESENT.operations;
assert.ok(REGISTERED);

const NOTHING: WantedAuthority = {
  ledger: { name: undefined, strict: undefined },
  actors: [],
  tasks: [],
  operations: [],
  approvers: [],
  policies: [],
};
const ROOT = { name: "shop", subject: undefined, actor: undefined, deadline: undefined, budgets: {}, revoked: false };
const STANDS = { name: "shop", root: true, subject: null, actor: null, deadline: null, over: false };

const WHOLE: WantedAuthority = {
  ledger: { name: "shop", strict: true },
  actors: [{ actor: "agent_7", spoken_by: [{ login: "shop_app", revoked: false }], revoked: false }],
  tasks: [{ ...ROOT, budgets: { usd_cents: "100000" } }],
  operations: [
    {
      operation: "charge_card",
      protected: true,
      versions: [{ version: 1, allowed_implementation: REVIEWED, withdrawn: false }],
    },
  ],
  approvers: [{ approver: "ana", public_key: KEY, revoked: false }],
  policies: [{ name: "charges", rules: RULES }],
};

function plan(wanted: Partial<WantedAuthority>, present: Partial<PresentAuthority> = {}) {
  return planAuthority({ ...NOTHING, ...wanted }, { ...PRESENT, ...present });
}
const did = ({ changes }: ReturnType<typeof plan>) => changes.map(({ change }) => change.do);

describe("a plan", () => {
  test("makes what others stand on first, and protects when implementation and policy are there", () => {
    const whole = planAuthority(WHOLE, PRESENT);
    assert.deepEqual(whole.problems, []);
    assert.deepEqual(did(whole), [
      "add_actor",
      "open_root_task",
      "add_approver",
      "allow_operation",
      "add_policy",
      "protect_operation",
      "set_ledger",
    ]);
    assert.deepEqual(
      whole.changes.map(({ at, kind }) => `${kind} ${at}`),
      [
        "added actors[0].spoken_by",
        "added tasks[0]",
        "added approvers[0]",
        "added operations[0].versions[0].allowed_implementation",
        "added policies[0]",
        "changed operations[0].protected",
        "changed ledger.strict",
      ],
    );
  });

  test("is empty where everything stands, whatever else the ledger holds", () => {
    const stands = planAuthority(WHOLE, {
      ledger: { name: "shop", strict: true },
      actors: [
        { actor: "agent_7", revoked: false },
        { actor: "agent_8", revoked: false },
      ],
      speakers: [
        { actor: "agent_7", spoken_by: "shop_app" },
        { actor: "agent_7", spoken_by: "other_app" },
      ],
      tasks: [STANDS],
      budgets: [
        { task: "shop", unit: "usd_cents", limit: "100000" },
        { task: "shop", unit: "mails", limit: "5" },
      ],
      operations: [{ ...REGISTERED, implementation: OTHER, allowed_implementation: REVIEWED, protected: true }],
      approvers: [{ key_id: "k1", approver: "ana", public_key: KEY, revoked: false }],
      policies: [{ name: "charges", revoked: false, rules: { ...RULES, approvers: ["ben", "ana"] } }],
    });
    assert.deepEqual(stands, { changes: [], problems: [] });
  });

  test("of nothing is nothing", () => {
    assert.deepEqual(plan({}), { changes: [], problems: [] });
  });

  test("takes away before it gives, so that what covers the same can be added", () => {
    const replaced = plan(
      {
        policies: [
          { name: "new", rules: RULES },
          { name: "old", rules: null },
        ],
        tasks: [ROOT, { ...ROOT, name: "gone", revoked: true }],
      },
      {
        policies: [{ name: "old", revoked: false, rules: RULES }],
        tasks: [{ ...STANDS, name: "gone" }],
      },
    );
    assert.deepEqual(did(replaced), ["revoke_policy", "revoke_task", "open_root_task", "add_policy"]);
  });

  test("changes a limit from what it is, and adds one that is not there", () => {
    const { changes } = plan(
      { tasks: [{ ...ROOT, budgets: { usd_cents: "5", mails: "7" } }] },
      { tasks: [STANDS], budgets: [{ task: "shop", unit: "usd_cents", limit: "9" }] },
    );
    assert.deepEqual(
      changes.map(({ at, kind, before, after }) => [at, kind, before, after]),
      [
        ["tasks[0].budgets.usd_cents", "changed", "9", "5"],
        ["tasks[0].budgets.mails", "added", null, "7"],
      ],
    );
  });

  test("revokes every key of a person, or the one that is named, and none twice", () => {
    const approvers = [
      { key_id: "k1", approver: "ana", public_key: KEY, revoked: false },
      { key_id: "k2", approver: "ana", public_key: "d".repeat(64), revoked: false },
      { key_id: "k3", approver: "ana", public_key: "e".repeat(64), revoked: true },
    ];
    const keys = (public_key: string | undefined) =>
      plan({ approvers: [{ approver: "ana", public_key, revoked: true }] }, { approvers }).changes.map(
        ({ change }) => change,
      );
    assert.deepEqual(keys(undefined), [
      { do: "revoke_approver", approver: "k1" },
      { do: "revoke_approver", approver: "k2" },
    ]);
    assert.deepEqual(keys(KEY), [{ do: "revoke_approver", approver: "k1" }]);
    assert.deepEqual(keys("e".repeat(64)), []);
  });

  test("revokes who speaks for an actor, and leaves the actor", () => {
    const changes = did(
      plan(
        { actors: [{ actor: "a", spoken_by: [{ login: "app", revoked: true }], revoked: false }] },
        { actors: [{ actor: "a", revoked: false }], speakers: [{ actor: "a", spoken_by: "app" }] },
      ),
    );
    assert.deepEqual(changes, ["revoke_speaker"]);
  });
});

describe("a problem is named with its path:", () => {
  const cases: readonly (readonly [what: string, at: string, Partial<WantedAuthority>, Partial<PresentAuthority>?])[] =
    [
      ["another ledger", "ledger.name", { ledger: { name: "bank", strict: undefined } }],
      [
        "an actor that is revoked, for good",
        "actors[0]",
        { actors: WHOLE.actors },
        { actors: [{ actor: "agent_7", revoked: true }] },
      ],
      ["a revocation that meets nothing", "tasks[0]", { tasks: [{ ...ROOT, revoked: true }] }],
      ["a task that is no root", "tasks[0]", { tasks: [ROOT] }, { tasks: [{ ...STANDS, root: false }] }],
      ["a task that is over", "tasks[0]", { tasks: [ROOT] }, { tasks: [{ ...STANDS, over: true }] }],
      [
        "a deadline that is another one",
        "tasks[0].deadline",
        { tasks: [{ ...ROOT, deadline: new Date("2030-01-01T00:00:00Z") }] },
        { tasks: [{ ...STANDS, deadline: new Date("2031-01-01T00:00:00Z") }] },
      ],
      ["an operation that nobody registered", "operations[0]", { operations: WHOLE.operations }, { operations: [] }],
      [
        "an implementation that is not the one registered now",
        "operations[0].versions[0].allowed_implementation",
        { operations: WHOLE.operations },
        { operations: [{ ...REGISTERED, implementation: OTHER }] },
      ],
      [
        "a version that is withdrawn",
        "operations[0].versions[0]",
        { operations: WHOLE.operations },
        { operations: [{ ...REGISTERED, withdrawn: true }] },
      ],
      [
        "a key that is another person's",
        "approvers[0].public_key",
        { approvers: WHOLE.approvers },
        { approvers: [{ key_id: "k", approver: "ben", public_key: KEY, revoked: false }] },
      ],
      ["a policy's task that is nowhere", "policies[0].task", { policies: WHOLE.policies }],
      [
        "a policy's version that is not registered",
        "policies[0].operation",
        { policies: [{ name: "p", rules: { ...RULES, version: 2 } }] },
      ],
      [
        "a policy that has other rules",
        "policies[0].costs",
        { policies: WHOLE.policies },
        { policies: [{ name: "charges", revoked: false, rules: { ...RULES, costs: { usd_cents: "4001" } } }] },
      ],
      [
        "a policy that is revoked",
        "policies[0]",
        { policies: WHOLE.policies },
        { policies: [{ name: "charges", revoked: true, rules: RULES }] },
      ],
    ];
  for (const [what, at, wanted, present] of cases) {
    test(what, () => {
      const { problems } = plan(wanted, present);
      assert.deepEqual(
        problems.map((problem) => problem.at),
        [at],
      );
    });
  }
});
