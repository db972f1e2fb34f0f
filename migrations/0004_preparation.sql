-- Preparation: what a worker reads before it prepares an effect, and what it writes when it did, could not, or must not.
--
-- Invariants established here:
--   * a binding's revisions count up by one, and only an effect that is not yet admitted or declined takes one;
--   * every move appends its event in the statement that makes it.

-- The facts of effects for their jobs, one row each, in no order. Reads only.
create function effects_ledger.load_effects(ids uuid[]) returns setof jsonb language sql stable security definer
  set search_path = pg_catalog, pg_temp
  as $$
    select jsonb_build_object(
      'effect_id', e.effect_id, 'state', e.state, 'revision', e.revision, 'token_hash', encode(e.token_hash, 'hex'),
      'key', r.key, 'operation', r.operation, 'version', r.version, 'actor', r.actor, 'input', i.given,
      'requested_at_ms', floor(extract(epoch from r.requested_at) * 1000),
      'expires_at_ms', floor(extract(epoch from least(r.expires_at, d.deadline)) * 1000),
      'now_ms', floor(extract(epoch from clock_timestamp()) * 1000),
      'priority', r.priority,
      'task_id', t.task_id, 'task_name', t.name, 'lineage', to_jsonb(t.lineage), 'subject', t.subject,
      'ledger_id', l.ledger_id, 'recovery_epoch', l.recovery_epoch,
      'policy_id', p.policy_id, 'policy_name', p.name, 'policy_revision', p.revision,
      'implementation', b.implementation)
    from unnest(ids) as wanted(effect_id)
    join effects_ledger.effect e using (effect_id)
    join effects_ledger.request r using (effect_id)
    join effects_ledger.task t using (task_id)
    cross join effects_ledger.identity l
    join effects_ledger.policy p on p.name = 'ordinary'
    left join effects_payload.input i using (effect_id)
    left join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
    left join lateral (select min(a.deadline) as deadline from effects_ledger.task a
                        where a.task_id = any (t.lineage)) d on true
  $$;

-- Records bindings. Returns the effects that took theirs; one that has moved on meanwhile is left out.
create function effects_ledger.record_prepared(items jsonb, worker text) returns setof uuid language plpgsql
  security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    ids constant uuid[] := effects_ledger.ids_of(items);
    moment constant timestamptz := clock_timestamp();
    actor constant text := effects_ledger.actor_now();
  begin
    return query
    with item as materialized (
      select * from jsonb_to_recordset(items) as i(effect_id uuid, revision int, binding_version int, bytes text,
        digest text, salt text, payload text, payload_digest text, implementation text, release text, policy_id uuid,
        cost jsonb, expires_at_ms bigint)
    ), locked as materialized (
      select e.effect_id, e.state, e.seq, e.head, e.revision from effects_ledger.effect e
       where e.effect_id = any (ids)
       order by e.effect_id for no key update
    ), step as materialized (
      select i.*, l.state as from_state, l.seq + 1 as seq, l.head as previous, detail.detail,
             effects_ledger.event_hash(l.head, l.effect_id, l.seq + 1, moment, 'prepared', l.state, 'prepared', actor,
                                       worker, detail.detail) as hash
        from locked l join item i using (effect_id)
        cross join lateral (select jsonb_build_object('revision', i.revision, 'digest', i.digest,
                                                      'implementation', i.implementation)) as detail(detail)
       where l.state in ('requested', 'prepared') and coalesce(l.revision, 0) + 1 = i.revision
    ), bound as (
      insert into effects_payload.binding (effect_id, revision, binding_version, bytes, digest, salt, payload,
        payload_digest, implementation, release, policy_id, cost, expires_at, prepared_by, prepared_at)
      select s.effect_id, s.revision, s.binding_version, convert_to(s.bytes, 'UTF8'), decode(s.digest, 'hex'),
             decode(s.salt, 'hex'), convert_to(s.payload, 'UTF8'), decode(s.payload_digest, 'hex'), s.implementation,
             s.release, s.policy_id, s.cost, to_timestamp(s.expires_at_ms / 1000.0), worker, moment
        from step s
    ), logged as (
      insert into effects_ledger.event (effect_id, seq, at, event, from_state, to_state, by_role, by_worker, detail,
        previous_hash, hash)
      select s.effect_id, s.seq, moment, 'prepared', s.from_state, 'prepared', actor, worker, s.detail, s.previous,
             s.hash
        from step s
    )
    update effects_ledger.effect e
       set state = 'prepared', seq = s.seq, head = s.hash, revision = s.revision, waiting_for = null,
           denial_code = null
      from step s where e.effect_id = any (ids) and e.effect_id = s.effect_id
    returning e.effect_id;
  end $$;

-- Declines effects that are not admitted, each for its own reason. Returns those it declined.
create function effects_ledger.record_declined(items jsonb, worker text) returns setof uuid language plpgsql
  security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    ids constant uuid[] := effects_ledger.ids_of(items);
    moment constant timestamptz := clock_timestamp();
    actor constant text := effects_ledger.actor_now();
  begin
    return query
    with item as materialized (
      select * from jsonb_to_recordset(items) as i(effect_id uuid, reason text, code text, detail jsonb)
    ), locked as materialized (
      select e.effect_id, e.state, e.seq, e.head from effects_ledger.effect e
       where e.effect_id = any (ids)
       order by e.effect_id for no key update
    ), step as materialized (
      select i.effect_id, i.reason, i.code, l.state as from_state, l.seq + 1 as seq, l.head as previous, detail.detail,
             effects_ledger.event_hash(l.head, l.effect_id, l.seq + 1, moment, 'declined', l.state, 'declined', actor,
                                       worker, detail.detail) as hash
        from locked l join item i using (effect_id)
        cross join lateral (select jsonb_build_object('declined_reason', i.reason, 'code', i.code)
                                   || coalesce(i.detail, '{}')) as detail(detail)
       where l.state in ('requested', 'prepared')
    ), logged as (
      insert into effects_ledger.event (effect_id, seq, at, event, from_state, to_state, by_role, by_worker, detail,
        previous_hash, hash)
      select s.effect_id, s.seq, moment, 'declined', s.from_state, 'declined', actor, worker, s.detail, s.previous,
             s.hash
        from step s
    ), settled as (
      delete from effects_ledger.live v using step s where v.effect_id = any (ids) and v.effect_id = s.effect_id
    )
    update effects_ledger.effect e
       set state = 'declined', seq = s.seq, head = s.hash, waiting_for = null, denial_code = s.code,
           declined_reason = s.reason
      from step s where e.effect_id = any (ids) and e.effect_id = s.effect_id
    returning e.effect_id;
  end $$;

-- Leaves effects waiting, and queues their jobs again at the moment given; an event only where the code is a new one.
create function effects_ledger.record_waiting(items jsonb, worker text) returns void language plpgsql
  security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    ids constant uuid[] := effects_ledger.ids_of(items);
    moment constant timestamptz := clock_timestamp();
    actor constant text := effects_ledger.actor_now();
  begin
    with item as materialized (
      select * from jsonb_to_recordset(items) as i(effect_id uuid, code text, waiting_for text, detail jsonb)
    ), locked as materialized (
      select e.effect_id, e.state, e.seq, e.head, e.denial_code from effects_ledger.effect e
       where e.effect_id = any (ids)
       order by e.effect_id for no key update
    ), step as materialized (
      select i.effect_id, i.code, i.waiting_for, l.state, l.seq + 1 as seq, l.head as previous, detail.detail,
             effects_ledger.event_hash(l.head, l.effect_id, l.seq + 1, moment, 'denied', l.state, l.state, actor,
                                       worker, detail.detail) as hash
        from locked l join item i using (effect_id)
        cross join lateral (select jsonb_build_object('code', i.code, 'waiting_for', i.waiting_for)
                                   || coalesce(i.detail, '{}')) as detail(detail)
       where l.state in ('requested', 'prepared') and l.denial_code is distinct from i.code
    ), logged as (
      insert into effects_ledger.event (effect_id, seq, at, event, from_state, to_state, by_role, by_worker, detail,
        previous_hash, hash)
      select s.effect_id, s.seq, moment, 'denied', s.state, s.state, actor, worker, s.detail, s.previous, s.hash
        from step s
    )
    update effects_ledger.effect e
       set seq = s.seq, head = s.hash, waiting_for = s.waiting_for, denial_code = s.code
      from step s where e.effect_id = any (ids) and e.effect_id = s.effect_id;

    perform effects_queue.add_job(r.operation, json_build_object('effect_id', r.effect_id),
              run_at => moment + make_interval(secs => i.retry_after_ms / 1000.0), job_key => r.effect_id::text,
              priority => r.priority)
       from jsonb_to_recordset(items) as i(effect_id uuid, retry_after_ms bigint)
       join effects_ledger.request r using (effect_id)
       join effects_ledger.effect e using (effect_id)
      where r.effect_id = any (ids) and e.effect_id = any (ids) and e.state in ('requested', 'prepared');
  end $$;
