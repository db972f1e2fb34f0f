-- Effects: what was asked for (never changed), where it stands (the fold of its events), and the events themselves.
--
-- Invariants established here:
--   * a request and an event are histories;
--   * an effect moves only along the transitions of protocol section 2, and declined and the four outcomes are final;
--   * a name is unique in its task, and that of an inline effect in its actor's run;
--   * each effect's events are numbered without gaps and chained by hash, from a start that names the effect;
--   * stored binding and payload bytes hash to the digests that the record holds, or are purged.

create table effects_ledger.request (
  effect_id      uuid primary key default effects_ledger.new_id(),
  key            text not null,
  operation      text not null,
  version        int not null,
  task_id        uuid not null references effects_ledger.task,
  name           text,
  actor          text not null references effects_ledger.actor,
  requested_by   text not null,
  requested_at   timestamptz not null default clock_timestamp(),
  given_digest   bytea not null,
  not_before     timestamptz,
  expires_at     timestamptz not null,
  priority       int not null,
  on_denial      text not null,
  trace          text,
  recovery_epoch uuid not null,
  spoken_by      text,
  notify         text,
  run            text,
  invocation     uuid,
  follows        uuid references effects_ledger.request,
  follow_max     int,
  followed       int not null default 0,
  follow_reason  text,
  called         text,
  known_as       text generated always as (coalesce(name, called)) stored,
  foreign key (operation, version) references effects_ledger.operation,
  constraint "a key is 32 hex digits" check (key ~ '^[0-9a-f]{32}$'),
  constraint "a name is 1 to 200 characters" check (length(name) between 1 and 200),
  constraint "a run is 1 to 200 characters, and its effects have names" check
    (run is null or length(run) between 1 and 200 and name is not null),
  constraint "a denial makes it wait or decline" check (on_denial in ('wait', 'decline')),
  constraint "an inbox is a short lower-case word" check (notify ~ '^[a-z][a-z0-9_]{0,62}$')
);
create unique index request_key on effects_ledger.request (key);
create unique index request_name on effects_ledger.request (task_id, name) where name is not null and run is null;
create unique index request_run on effects_ledger.request (run, name, actor) where run is not null;
create index request_invocation on effects_ledger.request (invocation) where invocation is not null;
create index request_by_name on effects_ledger.request (known_as) where known_as is not null;
create index request_requested_at on effects_ledger.request (requested_at);
-- Empty where nobody asks for notices: what is recorded then looks nowhere, instead of at each request (8 % of a settlement).
create index request_notify on effects_ledger.request (effect_id) where notify is not null;
call effects_ledger.make_history('effects_ledger.request');

create table effects_ledger.effect (
  effect_id         uuid primary key references effects_ledger.request,
  state             text not null,
  seq               int not null,
  head              bytea not null,
  revision          int,
  waiting_for       text,
  denial_code       text,
  declined_reason   text,
  token_hash        bytea,
  admitted_under    text,
  admitted_at       timestamptz,
  dispatch_deadline timestamptz,
  dispatch_ended_at timestamptz,
  unresolved_since  timestamptz,
  reference         text,
  constraint "a state of the design" check
    (state in ('requested', 'prepared', 'declined', 'admitted', 'accepted', 'failed', 'no_effect', 'uncertain')),
  constraint "a reason where declined" check ((state = 'declined') = (declined_reason is not null)),
  constraint "a reason of the design" check
    (declined_reason in ('invalid', 'denied', 'refused', 'expired', 'revoked', 'cancelled')),
  constraint "bound once prepared" check (revision is not null or state in ('requested', 'declined')),
  constraint "admitted at some time, under something" check
    ((state in ('admitted', 'accepted', 'failed', 'no_effect', 'uncertain')) =
     (admitted_at is not null and admitted_under is not null and dispatch_deadline is not null)),
  constraint "only what is not admitted waits" check (waiting_for is null or state in ('requested', 'prepared')),
  constraint "a token only after admission" check (token_hash is null or admitted_at is not null)
) with (fillfactor = 45);
-- The one index beside the key: a customer names the recipient's id. Admission never changes it, and a settlement that writes
-- one pays some 4 % for it; what has no reference pays nothing.
create index effect_reference on effects_ledger.effect (reference) where reference is not null;
comment on table effects_ledger.effect is 'Where each effect stands: the fold of its events, in one narrow row.';

create table effects_ledger.live (
  effect_id uuid primary key references effects_ledger.effect
);
comment on table effects_ledger.live is
  'Effects that still want something: waiting, being dispatched, or in doubt. Kept apart so that the record needs no index on its state.';

create table effects_ledger.event (
  effect_id     uuid not null references effects_ledger.effect,
  seq           int not null,
  at            timestamptz not null,
  event         text not null,
  from_state    text,
  to_state      text,
  by_role       text not null,
  by_worker     text,
  detail        jsonb not null,
  previous_hash bytea not null,
  hash          bytea not null,
  primary key (effect_id, seq),
  constraint "an event counts from 1" check (seq >= 1)
);
-- Its few rows are asked for by time; no other event is.
create index event_denied on effects_ledger.event (at) where event in ('denied', 'declined');
call effects_ledger.make_history('effects_ledger.event');

-- The hash of one event over the one before it. The first one follows the effect's own id. Anybody can recompute it.
create function effects_ledger.event_hash(previous bytea, effect_id uuid, seq int, at timestamptz, event text,
                                          from_state text, to_state text, by_role text, by_worker text, detail jsonb)
  returns bytea language sql stable
  as $$
    select pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.jsonb_build_array('pg-effects/event/1',
      pg_catalog.encode(previous, 'hex'), effect_id, seq, (extract(epoch from at) * 1000000)::bigint, event,
      from_state, to_state, by_role, by_worker, detail)::text, 'UTF8'))
  $$;
create function effects_ledger.chain_start(effect_id uuid) returns bytea language sql stable
  as $$ select pg_catalog.sha256(pg_catalog.convert_to('pg-effects/chain/1 ' || effect_id::text, 'UTF8')) $$;

-- Every move that the design has; src/core/state.ts holds the same table.
create function effects_ledger.may_move(from_state text, to_state text) returns boolean language sql immutable
  as $$
    select (from_state, to_state) in (
      ('requested', 'prepared'), ('requested', 'declined'),
      ('prepared', 'prepared'), ('prepared', 'admitted'), ('prepared', 'declined'),
      ('admitted', 'accepted'), ('admitted', 'failed'), ('admitted', 'no_effect'), ('admitted', 'uncertain'))
  $$;
create function effects_ledger.refuse_transition() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception 'effect % does not move from % to %', old.effect_id, old.state, new.state
      using errcode = '23514', constraint = 'only the transitions of the design';
  end $$;
create trigger "only the transitions of the design" after update on effects_ledger.effect for each row
  when (old.state <> new.state and not effects_ledger.may_move(old.state, new.state))
  execute function effects_ledger.refuse_transition();

create function effects_ledger.refuse_rewrite() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception 'effect % keeps what admission wrote', old.effect_id using errcode = '42501';
  end $$;
create trigger "an admission is not rewritten" after update on effects_ledger.effect for each row
  when (old.effect_id <> new.effect_id or new.seq < old.seq
        or (old.admitted_at is not null and
            (old.revision, old.token_hash, old.admitted_under, old.admitted_at, old.dispatch_deadline)
            is distinct from
            (new.revision, new.token_hash, new.admitted_under, new.admitted_at, new.dispatch_deadline)))
  execute function effects_ledger.refuse_rewrite();
create trigger "an effect is not deleted" before delete on effects_ledger.effect
  for each row execute function effects_ledger.refuse_change();
create trigger "effects are not emptied" before truncate on effects_ledger.effect
  for each statement execute function effects_ledger.refuse_change();

-- The effects that a batch is about. Statements drive from this array, so that their plans stay index look-ups, however
-- large the tables grow; under SERIALIZABLE a scan would also conflict with everybody.
create function effects_ledger.ids_of(items jsonb) returns uuid[] language sql immutable
  set search_path = pg_catalog, pg_temp
  as $$ select array_agg((i ->> 'effect_id')::uuid) from jsonb_array_elements(items) as i $$;

-- Bodies. ------------------------------------------------------------------------------------------------------------

create table effects_payload.input (
  effect_id uuid primary key references effects_ledger.request,
  given     json,
  purged_at timestamptz,
  constraint "kept or purged" check ((given is null) = (purged_at is not null))
);

create table effects_payload.binding (
  effect_id       uuid not null references effects_ledger.request,
  revision        int not null,
  binding_version int not null,
  bytes           bytea,
  digest          bytea not null,
  salt            bytea,
  payload         bytea,
  payload_digest  bytea not null,
  implementation  text not null,
  release         text not null,
  policy_id       uuid references effects_ledger.policy,
  lane            text,
  rebound         boolean not null default false,
  cost            jsonb not null,
  expires_at      timestamptz not null,
  prepared_by     text not null,
  prepared_at     timestamptz not null,
  purged_at       timestamptz,
  primary key (effect_id, revision),
  constraint "a revision counts from 1" check (revision >= 1),
  constraint "purged, or the binding's digest is of its bytes" check
    (case when purged_at is null
          then bytes is not null
               and digest = sha256(convert_to('pg-effects/binding/' || binding_version || chr(10), 'UTF8') || bytes)
          else bytes is null end),
  constraint "purged, or the payload's digest is of salt and bytes" check
    (case when purged_at is null
          then salt is not null and payload is not null
               and payload_digest = sha256(convert_to('pg-effects/payload/1' || chr(10), 'UTF8') || salt || payload)
          else salt is null and payload is null end),
  constraint "a binding is at most 65536 bytes" check (octet_length(bytes) <= 65536),
  constraint "a maximum cost is amounts by unit, as digits" check
    (jsonb_typeof(cost) = 'object' and not jsonb_path_exists(cost,
      '$.keyvalue() ? (!(@.key like_regex "^[a-z][a-z0-9_]{0,31}$") || @.value.type() != "string"
                       || !(@.value like_regex "^(0|[1-9][0-9]{0,18})$"))'))
);
comment on column effects_payload.binding.rebound is
  'Prepared again because what had been bound no longer held; false for the first one and for one that was only old.';
comment on table effects_payload.binding is
  'Exactly what will be done, as canonical bytes (RFC 8785), each revision beside the ones before it.';

create table effects_payload.evidence (
  evidence_id  uuid primary key default effects_ledger.new_id(),
  effect_id    uuid not null references effects_ledger.request,
  at           timestamptz not null default clock_timestamp(),
  source       text not null,
  submitted_by text not null,
  says         text not null,
  agrees       boolean,
  reference    text,
  bytes        bytea,
  digest       bytea not null,
  purged_at    timestamptz,
  constraint "purged, or the evidence's digest is of its bytes" check
    (case when purged_at is null
          then bytes is not null
               and digest = sha256(convert_to('pg-effects/evidence/1' || chr(10), 'UTF8') || bytes)
          else bytes is null end),
  constraint "a piece of evidence is at most 65536 bytes" check (octet_length(bytes) <= 65536)
);
create index evidence_effect on effects_payload.evidence (effect_id);

-- A body is written once; purging it (which keeps digests) is the one later change.
create function effects_ledger.refuse_body_change() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception '%.% is written once', tg_table_schema, tg_table_name using errcode = '42501',
      hint = 'a body can be purged, nothing else';
  end $$;
create trigger "a binding is written once" before update on effects_payload.binding for each row
  when ((old.effect_id, old.revision, old.binding_version, old.digest, old.payload_digest, old.implementation,
         old.release, old.policy_id, old.lane, old.rebound, old.cost, old.expires_at, old.prepared_by, old.prepared_at)
        is distinct from
        (new.effect_id, new.revision, new.binding_version, new.digest, new.payload_digest, new.implementation,
         new.release, new.policy_id, new.lane, new.rebound, new.cost, new.expires_at, new.prepared_by, new.prepared_at)
        or old.purged_at is not null or new.purged_at is null)
  execute function effects_ledger.refuse_body_change();
create trigger "an input is written once" before update on effects_payload.input for each row
  when (old.effect_id <> new.effect_id or old.purged_at is not null or new.purged_at is null)
  execute function effects_ledger.refuse_body_change();
create trigger "evidence is written once" before update on effects_payload.evidence for each row
  when ((old.evidence_id, old.effect_id, old.at, old.source, old.submitted_by, old.says, old.agrees, old.digest)
        is distinct from
        (new.evidence_id, new.effect_id, new.at, new.source, new.submitted_by, new.says, new.agrees, new.digest)
        or old.purged_at is not null or new.purged_at is null)
  execute function effects_ledger.refuse_body_change();
create trigger "bindings are not deleted" before delete on effects_payload.binding
  for each row execute function effects_ledger.refuse_change();
create trigger "inputs are not deleted" before delete on effects_payload.input
  for each row execute function effects_ledger.refuse_change();
create trigger "evidence is not deleted" before delete on effects_payload.evidence
  for each row execute function effects_ledger.refuse_change();
create trigger "bindings are not emptied" before truncate on effects_payload.binding
  for each statement execute function effects_ledger.refuse_change();
create trigger "inputs are not emptied" before truncate on effects_payload.input
  for each statement execute function effects_ledger.refuse_change();
create trigger "evidence is not emptied" before truncate on effects_payload.evidence
  for each statement execute function effects_ledger.refuse_change();

-- Recovery epochs: where each began, and how it was acknowledged. The first one begins when the ledger is founded.
create table effects_ledger.recovery (
  epoch             uuid primary key,
  ledger_id         uuid not null,
  system_identifier text not null,
  timeline          text not null,
  database_oid      oid not null,
  gap               text,
  acknowledged_by   text not null,
  acknowledged_at   timestamptz not null default clock_timestamp(),
  commits           text not null,
  reason            text not null,
  effects_made_unresolved bigint not null default 0,
  constraint "a copy, nothing lost, or possibly something" check (commits in ('copy', 'lost-nothing', 'possible-loss'))
);
comment on table effects_ledger.recovery is 'Each acknowledged recovery. Requests and approvals carry the epoch in which they were made.';
call effects_ledger.make_history('effects_ledger.recovery');

-- True for an effect of the ledger that this one was copied from: for reading only.
create function effects_ledger.is_former(about uuid) returns boolean language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select exists (select from effects_ledger.request r, effects_ledger.identity i
                    where r.effect_id = about and r.recovery_epoch <> i.recovery_epoch
                      and exists (select from effects_ledger.recovery c where c.commits = 'copy'
                                     and c.acknowledged_at > r.requested_at))
  $$;

-- Approvals. ---------------------------------------------------------------------------------------------------------

create table effects_ledger.approval (
  approval_id  uuid primary key default effects_ledger.new_id(),
  effect_id    uuid not null references effects_ledger.request,
  verdict      text not null,
  approver     text not null,
  key_id       text references effects_ledger.approver,
  digest       bytea,
  expires_at   timestamptz,
  at           timestamptz not null default clock_timestamp(),
  submitted_by text not null,
  statement    bytea,
  signature    bytea,
  reason       text,
  revoked_at   timestamptz,
  constraint "approved or refused" check (verdict in ('approved', 'refused')),
  constraint "an approval is a signed statement about a binding" check (verdict <> 'approved' or
    (key_id is not null and digest is not null and expires_at is not null and statement is not null and signature is not null)),
  constraint "a refusal says why" check (verdict <> 'refused' or reason is not null),
  constraint "an Ed25519 signature has 64 bytes" check (octet_length(signature) = 64),
  constraint "a statement is short" check (octet_length(statement) <= 8192)
);
comment on table effects_ledger.approval is
  'What approvers said about bindings. The database keeps a signature; worker and auditor check it.';
create index approval_effect on effects_ledger.approval (effect_id);
create index approval_key on effects_ledger.approval (key_id);
-- A statement counts once, and stays revoked whoever submits its bytes again.
create unique index approval_statement_once on effects_ledger.approval (key_id, sha256(statement)) where statement is not null;
create function effects_ledger.refuse_approval_change() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception 'approval % is not changed', old.approval_id using errcode = '42501', hint = 'it can be revoked, nothing else';
  end $$;
create trigger "an approval is not changed" after update on effects_ledger.approval for each row
  when (to_jsonb(old) - 'revoked_at' is distinct from to_jsonb(new) - 'revoked_at'
        or old.revoked_at is not null and new.revoked_at is distinct from old.revoked_at)
  execute function effects_ledger.refuse_approval_change();
create trigger "an approval is not deleted" before delete on effects_ledger.approval
  for each row execute function effects_ledger.refuse_change();
create trigger "approvals are not emptied" before truncate on effects_ledger.approval
  for each statement execute function effects_ledger.refuse_change();
