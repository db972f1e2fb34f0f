-- Admission: the facts that it locks, and the permit, reservations and intent that it writes in the same transaction.
--
-- Invariants established here:
--   * one permit an effect, used in the transaction that writes it;
--   * what was reserved on which budget is a history, so that every sum can be recomputed;
--   * a cost is settled or released once; afterwards only its overrun may rise, by evidence;
--   * a lane holds one open effect at most, a policy's admissions and open effects do not rise past their bounds.

create table effects_ledger.permit (
  effect_id      uuid primary key references effects_ledger.effect,
  permit_id      uuid not null default gen_random_uuid(),
  digest         bytea not null,
  issued_under   text not null,
  issued_at      timestamptz not null,
  expires_at     timestamptz not null,
  consumed_at    timestamptz not null,
  attempt        uuid not null,
  attempt_digest bytea not null,
  constraint "a permit is used as it is issued" check (consumed_at = issued_at),
  constraint "a permit is used before it expires" check (consumed_at < expires_at)
);
comment on table effects_ledger.permit is
  'The one-use authority to dispatch one binding once. Unique by effect; the attempt''s token is known to its holder only.';
call effects_ledger.make_history('effects_ledger.permit');

create table effects_ledger.cost (
  effect_id uuid not null,
  unit      text not null,
  reserved  bigint not null,
  settled   bigint,
  overrun   bigint not null default 0,
  standing  text not null default 'reserved',
  source    text,
  at        timestamptz not null,
  primary key (effect_id, unit),
  constraint "reserved, settled or released" check (standing in ('reserved', 'settled', 'released')),
  constraint "measured, the maximum or none" check (source in ('measured', 'maximum', 'none')),
  constraint "settled once it is not reserved" check ((standing = 'reserved') = (settled is null)),
  constraint "a source where it is settled" check ((settled is null) = (source is null)),
  constraint "amounts are not negative" check (reserved >= 0 and settled >= 0 and overrun >= 0),
  constraint "what is beyond the reservation is overrun" check (settled <= reserved)
) with (fillfactor = 45);

create function effects_ledger.refuse_second_settlement() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception 'the cost of effect % in % is % already', old.effect_id, old.unit, old.standing
      using errcode = '23514', constraint = 'a cost is settled once';
  end $$;
create trigger "a cost is settled once" after update on effects_ledger.cost for each row
  when (new.reserved <> old.reserved
        or old.standing <> 'reserved'
           and ((old.settled, old.standing, old.source, old.at) is distinct from (new.settled, new.standing, new.source, new.at)
                or new.overrun <= old.overrun))
  execute function effects_ledger.refuse_second_settlement();

create table effects_ledger.reservation (
  effect_id uuid not null,
  task_id   uuid not null,
  unit      text not null,
  amount    bigint not null,
  primary key (effect_id, task_id, unit),
  constraint "a reservation is not negative" check (amount >= 0)
);
comment on table effects_ledger.reservation is 'Which budgets an admission drew on. The cost row tells how it ended.';
call effects_ledger.make_history('effects_ledger.reservation');

-- Which effect holds a lane: one that is open. The key is what keeps a second one out, whatever a worker decides.
create table effects_ledger.lane (
  operation text not null,
  lane      text not null,
  effect_id uuid not null unique references effects_ledger.effect,
  constraint "one open effect a lane" primary key (operation, lane)
);

-- The approvals that an admission counted.
create table effects_ledger.permit_approval (
  effect_id   uuid not null references effects_ledger.permit,
  approval_id uuid not null references effects_ledger.approval,
  primary key (effect_id, approval_id)
);
call effects_ledger.make_history('effects_ledger.permit_approval');

-- Locks, in one fixed order, every row that an admission decides from, and returns the facts as of the moment after the
-- last lock. Configuration is locked FOR SHARE: whoever takes authority away updates it, and is then ahead of us or
-- makes us fail with 40001. Payload and binding bytes are hashed here, in the statement that returns them.
create function effects_ledger.lock_admission(ids uuid[], remembered uuid default null) returns jsonb language plpgsql
  volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    tasks uuid[];
    bound_policies uuid[];
    ledger jsonb;
    moment timestamptz;
    facts jsonb;
    sums jsonb;
    authority jsonb;
    approvals jsonb;
    followed uuid[];
  begin
    select jsonb_build_object('ledger_id', i.ledger_id, 'strict', i.strict, 'recovery_epoch', i.recovery_epoch,
                              'violated', i.violated_at is not null)
      into strict ledger from effects_ledger.identity i for share;
    perform from effects_ledger.operation o
      where (o.operation, o.version) in (select r.operation, r.version from effects_ledger.request r
                                          where r.effect_id = any (ids))
      order by o.operation, o.version for share;
    select array_agg(distinct a.task_id) into tasks
      from unnest(ids) as wanted(effect_id)
      join effects_ledger.request r using (effect_id)
      join effects_ledger.task t using (task_id)
      cross join unnest(t.lineage) as a(task_id);
    perform from effects_ledger.task t where t.task_id = any (tasks) order by t.task_id for share;
    perform from effects_ledger.actor a
      where a.actor in (select r.actor from effects_ledger.request r where r.effect_id = any (ids))
      order by a.actor for share;
    perform from effects_ledger.invocation v
      where v.invocation_id in (select r.invocation from effects_ledger.request r where r.effect_id = any (ids))
      order by v.invocation_id for share;
    select array_agg(distinct b.policy_id) into bound_policies
      from unnest(ids) as wanted(effect_id)
      join effects_ledger.effect e using (effect_id)
      join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision;
    perform from effects_ledger.policy p
      where p.policy_id = any (bound_policies) and p.operation is null order by p.policy_id for share;
    perform from effects_ledger.policy p
      where p.policy_id = any (bound_policies) and p.operation is not null order by p.policy_id for no key update;
    if found then
      perform from effects_ledger.approver k
        where k.key_id in (select a.key_id from effects_ledger.approval a where a.effect_id = any (ids))
        order by k.key_id for share;
      perform from effects_ledger.approval a where a.effect_id = any (ids) order by a.approval_id for share;
      select jsonb_object_agg(x.effect_id, x.approvals) into approvals
        from (select a.effect_id, jsonb_agg(jsonb_build_object('approval_id', a.approval_id, 'approver', a.approver,
                       'public_key', encode(k.public_key, 'hex'), 'key_revoked', k.revoked_at is not null,
                       'revoked', a.revoked_at is not null, 'statement', encode(a.statement, 'hex'),
                       'signature', encode(a.signature, 'hex')) order by a.approval_id) as approvals
                from effects_ledger.approval a join effects_ledger.approver k using (key_id)
               where a.effect_id = any (ids) and a.verdict = 'approved' group by a.effect_id) as x;
    end if;
    select array_agg(l.predecessor) into followed from effects_ledger.line_above(ids) as l;
    if followed is not null then
      perform from effects_ledger.effect e where e.effect_id = any (followed) order by e.effect_id for share;
    end if;
    perform from effects_ledger.effect e where e.effect_id = any (ids) order by e.effect_id for no key update;
    perform from effects_ledger.budget b where b.task_id = any (tasks) order by b.task_id, b.unit for no key update;
    moment := clock_timestamp();

    select jsonb_build_object(
      'tasks', (select jsonb_object_agg(t.task_id, jsonb_build_object('name', t.name,
                  'ended', t.ended_at is not null, 'revoked', t.revoked_at is not null,
                  'deadline_ms', floor(extract(epoch from t.deadline) * 1000)))
                  from effects_ledger.task t where t.task_id = any (tasks)),
      'actors', (select jsonb_object_agg(a.actor, jsonb_build_object('revoked', a.revoked_at is not null))
                   from effects_ledger.actor a
                  where a.actor in (select r.actor from effects_ledger.request r where r.effect_id = any (ids))),
      'pauses', (select coalesce(jsonb_agg(jsonb_build_object('scope', p.scope, 'target', p.target, 'reason', p.reason)), '[]')
                   from effects_ledger.pause p where p.until is null or p.until > moment),
      'policies', (select jsonb_object_agg(p.policy_id, effects_ledger.policy_facts(p)) from effects_ledger.policy p
                    where p.policy_id = any (bound_policies)),
      'approvals', approvals,
      'against', case when followed is not null then effects_ledger.predecessors_against(ids) end,
      'busy_lanes', (select jsonb_agg(jsonb_build_object('operation', l.operation, 'lane', l.lane))
                       from unnest(ids) as wanted(effect_id)
                       join effects_ledger.effect e using (effect_id)
                       join effects_ledger.request r using (effect_id)
                       join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
                       join effects_ledger.lane l on l.operation = r.operation and l.lane = b.lane))
      into authority;
    select coalesce(jsonb_agg(jsonb_build_object('task_id', b.task_id, 'unit', b.unit, 'limit', b.limit_amount::text,
             'reserved', b.reserved::text, 'spent', b.spent::text, 'overrun', b.overrun::text,
             'suspended', b.suspended_at is not null)), '[]')
      into sums from effects_ledger.budget b where b.task_id = any (tasks);
    select coalesce(jsonb_agg(jsonb_build_object(
        'effect_id', e.effect_id, 'state', e.state, 'revision', e.revision,
        'operation', r.operation, 'version', r.version, 'actor', r.actor, 'requested_by', r.requested_by,
        'entitled', effects_ledger.may_serve(r.actor, r.spoken_by),
        'invocation_ended', r.invocation is not null and exists (select from effects_ledger.invocation v
           where v.invocation_id = r.invocation and v.outcome is not null),
        'lineage', to_jsonb(t.lineage),
        'not_before_ms', floor(extract(epoch from r.not_before) * 1000), 'on_denial', r.on_denial, 'follows', r.follows,
        'operation_withdrawn', o.withdrawn_at is not null,
        'operation_protected', o.protected or (ledger ->> 'strict')::boolean,
        'allowed_implementation', o.allowed_implementation,
        'policy_id', b.policy_id, 'cost', b.cost, 'lane', b.lane, 'implementation', b.implementation, 'release', b.release,
        'prepared_at_ms', floor(extract(epoch from b.prepared_at) * 1000),
        'rebindings', case when e.revision = 1 then 0 else
          (select count(*) from effects_payload.binding x where x.effect_id = e.effect_id and x.rebound) end,
        'expires_at_ms', floor(extract(epoch from b.expires_at) * 1000),
        'digest', encode(b.digest, 'hex'),
        'bytes', convert_from(b.bytes, 'UTF8'), 'payload', convert_from(b.payload, 'UTF8'),
        'bytes_match', b.bytes is not null and b.digest =
           sha256(convert_to('pg-effects/binding/' || b.binding_version || chr(10), 'UTF8') || b.bytes),
        'payload_match', b.payload is not null and b.payload_digest =
           sha256(convert_to('pg-effects/payload/1' || chr(10), 'UTF8') || b.salt || b.payload))), '[]')
      into facts
      from unnest(ids) as wanted(effect_id)
      join effects_ledger.effect e using (effect_id)
      join effects_ledger.request r using (effect_id)
      join effects_ledger.task t using (task_id)
      join effects_ledger.operation o using (operation, version)
      left join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision;
    return jsonb_build_object('now_ms', floor(extract(epoch from moment) * 1000),
      -- The newest admission that this process had confirmed; where it is gone, so may others be (protocol, section 10).
      'remembered', remembered is null
                    or exists (select from effects_ledger.effect e where e.effect_id = remembered and e.admitted_at is not null),
      'identity', effects_ledger.identity_standing(), 'durability_gap', effects_ledger.durability_gap(),
      'transaction_id', pg_current_xact_id()::text, 'ledger', ledger, 'effects', facts, 'budgets', sums) || authority;
  end $$;

-- Writes permits, reservations and intents. One effect that cannot have its permit fails the whole transaction.
create function effects_ledger.record_admitted(items jsonb, worker text) returns void language plpgsql
  security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    moment constant timestamptz := clock_timestamp();
    actor constant text := effects_ledger.actor_now();
    ids constant uuid[] := effects_ledger.ids_of(items);
    written bigint;
  begin
    insert into effects_ledger.permit (effect_id, digest, issued_under, issued_at, expires_at, consumed_at, attempt,
                                       attempt_digest)
    select i.effect_id, decode(i.digest, 'hex'), i.issued_under, moment, to_timestamp(i.permit_expires_at_ms / 1000.0),
           moment, i.attempt, decode(i.token_hash, 'hex')
      from jsonb_to_recordset(items) as i(effect_id uuid, digest text, issued_under text, permit_expires_at_ms bigint,
                                          attempt uuid, token_hash text);

    insert into effects_ledger.cost (effect_id, unit, reserved, at)
    select i.effect_id, c.unit, c.amount::bigint, moment
      from jsonb_to_recordset(items) as i(effect_id uuid, cost jsonb)
      cross join jsonb_each_text(i.cost) as c(unit, amount);

    insert into effects_ledger.permit_approval (effect_id, approval_id)
    select i.effect_id, a.approval_id::uuid
      from jsonb_to_recordset(items) as i(effect_id uuid, approvals jsonb)
      cross join jsonb_array_elements_text(i.approvals) as a(approval_id);

    insert into effects_ledger.lane (operation, lane, effect_id)
    select r.operation, i.lane, i.effect_id
      from jsonb_to_recordset(items) as i(effect_id uuid, lane text)
      join effects_ledger.request r using (effect_id)
     where i.lane is not null;

    delete from effects_ledger.lane_waiting w where w.effect_id = any (ids);

    if items @? '$[*] ? (@.cleanup == true)' then
      insert into effects_ledger.obligation (effect_id, opened_at)
      select i.effect_id, moment from jsonb_to_recordset(items) as i(effect_id uuid, cleanup boolean) where i.cleanup;
    end if;

    update effects_ledger.policy p
       set admissions_used = p.admissions_used + i.admitted, open_now = p.open_now + i.admitted
      from (select x.policy_id, count(*) as admitted from jsonb_to_recordset(items) as x(policy_id uuid, issued_under text)
             where x.issued_under = 'policy' group by 1) as i
     where p.policy_id = i.policy_id;

    with charge as materialized (
      select i.effect_id, c.task_id, c.unit, c.amount::bigint as amount
        from jsonb_to_recordset(items) as i(effect_id uuid, charges jsonb)
        cross join jsonb_to_recordset(i.charges) as c(task_id uuid, unit text, amount text)
    ), reserved as (
      insert into effects_ledger.reservation (effect_id, task_id, unit, amount)
      select charge.effect_id, charge.task_id, charge.unit, charge.amount from charge
    )
    update effects_ledger.budget b set reserved = b.reserved + c.amount
      from (select charge.task_id, charge.unit, sum(charge.amount)::bigint as amount from charge group by 1, 2) c
     where b.task_id = c.task_id and b.unit = c.unit;

    with item as materialized (
      select i.*, jsonb_build_object('attempt', i.attempt, 'attempt_digest', i.token_hash, 'digest', i.digest,
                                     'issued_under', i.issued_under, 'cost', i.cost,
                                     'dispatch_timeout_ms', i.dispatch_timeout_ms)
                  || case when i.cleanup then '{"cleanup": "owed"}' else '{}'::jsonb end as detail
        from jsonb_to_recordset(items) as i(effect_id uuid, digest text, issued_under text, attempt uuid,
                                            token_hash text, cost jsonb, dispatch_timeout_ms bigint, cleanup boolean)
    ), step as materialized (
      select i.*, e.seq + 1 as seq, e.head as previous,
             effects_ledger.event_hash(e.head, e.effect_id, e.seq + 1, moment, 'admitted', 'prepared', 'admitted',
                                       actor, worker, i.detail) as hash
        from item i
        join (select f.effect_id, f.seq, f.head from effects_ledger.effect f
               where f.effect_id = any (ids) and f.state = 'prepared' offset 0) as e using (effect_id)
    ), logged as (
      insert into effects_ledger.event (effect_id, seq, at, event, from_state, to_state, by_role, by_worker, detail,
        previous_hash, hash)
      select s.effect_id, s.seq, moment, 'admitted', 'prepared', 'admitted', actor, worker, s.detail, s.previous,
             s.hash
        from step s
    )
    update effects_ledger.effect e
       set state = 'admitted', seq = s.seq, head = s.hash, waiting_for = null, denial_code = null,
           token_hash = decode(s.token_hash, 'hex'), admitted_under = s.issued_under, admitted_at = moment,
           dispatch_deadline = moment + make_interval(secs => s.dispatch_timeout_ms / 1000.0)
      from step s where e.effect_id = any (ids) and e.effect_id = s.effect_id;
    get diagnostics written = row_count;
    if written <> jsonb_array_length(items) then
      raise exception 'an effect left the state prepared under our lock' using errcode = 'PE999';
    end if;
  end $$;

-- What became of an admission whose COMMIT was not confirmed, asked from a new connection (protocol, section 5). The
-- transaction's fate is read first: what the next statement does not see of a committed one was never in it.
create function effects_ledger.admission_fate(transaction_id text, ids uuid[], hashes text[]) returns jsonb
  language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    fate constant text := case when transaction_id is not null then pg_xact_status(transaction_id::xid8) end;
  begin
    return (select jsonb_build_object(
      'identity', effects_ledger.identity_standing(),
      'ledger_id', (select i.ledger_id from effects_ledger.identity i),
      'held', coalesce((select jsonb_agg(e.effect_id) from unnest(ids, hashes) as w(effect_id, hash)
                         join effects_ledger.effect e using (effect_id)
                        where e.token_hash = decode(w.hash, 'hex')), '[]'),
      'units', coalesce((select jsonb_object_agg(u.effect_id, u.units)
                           from (select c.effect_id, jsonb_agg(c.unit) as units from effects_ledger.cost c
                                  where c.effect_id = any (ids) group by 1) as u), '{}'),
      'transaction', fate));
  end $$;
