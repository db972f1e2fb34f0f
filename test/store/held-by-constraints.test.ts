/** One-use authority, sums and digests hold in the tables themselves, for a superuser with triggers on (protocol, sections 4 to 7). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { attempt } from "../harness/attempt.ts";
import { GALLERY_TASK, openGallery } from "../harness/gallery.ts";
import { openTestLedger } from "../harness/ledger.ts";

const subject = await openTestLedger();
const ids = await openGallery(subject);
const client = await subject.connect();

test("a second permit for an effect is refused, however different it is", async () => {
  const again = `insert into effects_ledger.permit select effect_id, gen_random_uuid(), sha256('other'), issued_under, now(),
    now() + interval '1 hour', now(), gen_random_uuid(), sha256('token') from effects_ledger.permit where effect_id = $1`;
  for (const state of ["admitted", "accepted", "failed", "no_effect", "uncertain"] as const) {
    assert.equal((await attempt(client, again, [ids[state]]))?.constraint, "permit_pkey", state);
  }
});

test("a permit that was not used as it was issued, or that had expired, is refused", async () => {
  const permit = (
    consumed: string,
    expires: string,
  ) => `insert into effects_ledger.permit values ($1, gen_random_uuid(),
    sha256('d'), 'ordinary', now(), ${expires}, ${consumed}, gen_random_uuid(), sha256('token'))`;
  const later = "now() + interval '1 hour'";
  assert.equal(await attempt(client, permit("now()", later), [ids.prepared]), null, "the control: this one is taken");
  const unused = await attempt(client, permit("now() + interval '1 second'", later), [ids.prepared]);
  assert.equal(unused?.constraint, "a permit is used as it is issued");
  const expired = await attempt(client, permit("now()", "now()"), [ids.prepared]);
  assert.equal(expired?.constraint, "a permit is used before it expires");
});

test("a second outcome is refused, and a resolution beside anything but an uncertain one", async () => {
  const outcome =
    "insert into effects_ledger.outcome (effect_id, outcome, via, at, by_role) values ($1, 'uncertain', 'reconcile', now(), 'x')";
  const resolution =
    "insert into effects_ledger.resolution values ($1, 'risk_accepted', null, 'operator', 'x', now(), 'because')";
  for (const state of ["accepted", "failed", "no_effect", "uncertain"] as const) {
    assert.equal((await attempt(client, outcome, [ids[state]]))?.constraint, "outcome_pkey", state);
  }
  for (const [state, id] of Object.entries(ids)) {
    const refusal = await attempt(client, resolution, [id]);
    assert.equal(refusal === null, state === "uncertain", state);
  }
  const twice = `${resolution.replace("$1", `'${ids.uncertain}'`)}; ${resolution.replace("$1", `'${ids.uncertain}'`)}`;
  assert.equal((await attempt(client, twice))?.constraint, "resolution_pkey");
});

test("no outcome is uncertain via dispatch, and none that is certain goes without evidence", async () => {
  const insert =
    "insert into effects_ledger.outcome (effect_id, outcome, via, at, by_role) values ($1, $2, $3, now(), 'x')";
  assert.ok(await attempt(client, insert, [ids.admitted, "uncertain", "dispatch"]));
  for (const outcome of ["accepted", "failed", "no_effect"]) {
    assert.equal(
      (await attempt(client, insert, [ids.admitted, outcome, "reconcile"]))?.constraint,
      "evidence for what is certain",
    );
  }
});

test("a binding whose bytes or payload are not the digested ones is refused", async () => {
  const copy = (bytes: string, payload: string, salt = "salt") => `insert into effects_payload.binding
    select effect_id, revision + 1, binding_version, ${bytes}, digest, ${salt}, ${payload}, payload_digest, implementation,
      release, policy_id, lane, rebound, cost, expires_at, prepared_by, prepared_at from effects_payload.binding where effect_id = $1`;
  assert.equal(await attempt(client, copy("bytes", "payload"), [ids.prepared]), null, "the control: this one is taken");
  const ofBytes = "purged, or the binding's digest is of its bytes";
  const ofPayload = "purged, or the payload's digest is of salt and bytes";
  for (const bytes of ["bytes || ' '", "overlay(bytes placing 'x' from 10)", "null", "''"]) {
    assert.equal((await attempt(client, copy(bytes, "payload"), [ids.prepared]))?.constraint, ofBytes, bytes);
  }
  for (const payload of ["payload || ' '", "''", "null"]) {
    assert.equal((await attempt(client, copy("bytes", payload), [ids.prepared]))?.constraint, ofPayload, payload);
  }
  assert.equal((await attempt(client, copy("bytes", "payload", "salt || 'x'"), [ids.prepared]))?.constraint, ofPayload);
  const edit = "update effects_payload.binding set bytes = bytes || ' ' where effect_id = $1";
  assert.ok(await attempt(client, edit, [ids.accepted]));
});

test("reserved does not rise past the limit, while a settlement and a lower limit are taken", async () => {
  // Before: limit 1000, two effects in doubt hold 10 each, one spent 7.
  const set = (sums: string) =>
    attempt(
      client,
      `update effects_ledger.budget b set ${sums} from effects_ledger.task t where t.task_id = b.task_id and t.name = $1`,
      [GALLERY_TASK],
    );
  assert.equal(await set("reserved = 993"), null);
  assert.equal((await set("reserved = 994"))?.constraint, "reserved does not rise past the limit");
  assert.equal((await set("reserved = 9223372036854775807"))?.constraint, "reserved does not rise past the limit");
  assert.equal(
    (await set("reserved = reserved + 1, overrun = 974"))?.constraint,
    "reserved does not rise past the limit",
  );
  assert.equal(
    (await set("limit_amount = 5, reserved = reserved + 1"))?.constraint,
    "reserved does not rise past the limit",
  );
  assert.equal(await set("limit_amount = 0"), null, "a limit below what is used");
  assert.equal(
    await set("limit_amount = 0, reserved = 0, spent = spent + reserved, overrun = 9223372036854775807"),
    null,
  );
  for (const column of ["limit_amount", "reserved", "spent", "overrun"]) {
    assert.equal((await set(`${column} = -1`))?.code, "23514", column);
  }
});

test("a name is unique in its task, a key in the ledger, and an id of an effect cannot be used again", async () => {
  const copy = (id: string, key: string, name: string) => `insert into effects_ledger.request
    select ${id}, ${key}, operation, version, task_id, ${name}, actor, requested_by, requested_at, given_digest, not_before,
      expires_at, priority, on_denial, trace, recovery_epoch from effects_ledger.request where effect_id = $1`;
  const fresh = ["gen_random_uuid()", "md5('fresh')", "'fresh'"] as const;
  assert.equal(await attempt(client, copy(...fresh), [ids.accepted]), null, "the control: this one is taken");
  const refusal = async (...columns: readonly [string, string, string]) =>
    (await attempt(client, copy(...columns), [ids.accepted]))?.constraint;
  assert.equal(await refusal("effect_id", fresh[1], fresh[2]), "request_pkey");
  assert.equal(await refusal(fresh[0], "key", fresh[2]), "request_key");
  assert.equal(await refusal(fresh[0], fresh[1], "name"), "request_name");
});
