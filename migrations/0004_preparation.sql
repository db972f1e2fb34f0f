-- Preparation: what a worker reads before it prepares an effect, and what it writes when it did, could not, or must not.
--
-- Invariants established here:
--   * a binding's revisions count up by one, and only an effect that is not yet admitted or declined takes one;
--   * every move appends its event in the statement that makes it.

-- One policy as facts; what it covers and wants, and what was used of it.
create function effects_ledger.policy_facts(p effects_ledger.policy) returns jsonb language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select jsonb_build_object('policy_id', p.policy_id, 'name', p.name, 'revision', p.revision, 'revoked', p.revoked_at is not null,
             'suspended', p.suspended_at is not null)
      || case when p.operation is null then '{"kind": "ordinary"}'
              else jsonb_build_object('kind', 'owner', 'operation', p.operation, 'version', p.version, 'task_id', p.task_id,
                'task_depth', (select cardinality(t.lineage) from effects_ledger.task t where t.task_id = p.task_id),
                'actor', p.actor, 'target', p.target, 'target_match', p.target_match, 'costs', p.costs,
                'admissions_max', p.admissions_max::text, 'admissions_used', p.admissions_used::text,
                'open_max', p.open_max::text, 'open_now', p.open_now::text, 'approvals_needed', p.approvals_needed,
                'requester_excluded', p.requester_excluded, 'precondition_enforced', p.precondition_enforced,
                'prepared_within_ms', floor(extract(epoch from p.prepared_within) * 1000),
                'expires_at_ms', floor(extract(epoch from p.expires_at) * 1000),
                'added_at_ms', floor(extract(epoch from p.added_at) * 1000),
                'approvers', (select coalesce(jsonb_agg(a.approver order by a.approver), '[]')
                                from effects_ledger.policy_approver a where a.policy_id = p.policy_id)) end
  $$;

-- The live policies that could cover a request: the ordinary one for what is not protected.
create function effects_ledger.policies_for(guarded boolean, operation text, version int, actor text, lineage uuid[])
  returns jsonb language sql stable set search_path = pg_catalog, pg_temp
  as $$
    select case when not guarded
      then (select jsonb_build_array(effects_ledger.policy_facts(p)) from effects_ledger.policy p where p.name = 'ordinary')
      else (select coalesce(jsonb_agg(effects_ledger.policy_facts(p)), '[]') from effects_ledger.policy p
             where p.operation = policies_for.operation and p.version = policies_for.version
               and p.task_id = any (policies_for.lineage) and (p.actor is null or p.actor = policies_for.actor)
               and p.revoked_at is null and (p.expires_at is null or p.expires_at > clock_timestamp())) end
  $$;

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
      'protected', o.protected or l.strict, 'allowed_implementation', o.allowed_implementation,
      'policies', effects_ledger.policies_for(o.protected or l.strict, r.operation, r.version, r.actor, t.lineage),
      'bound', case when b.revision is not null then jsonb_build_object(
        'implementation', b.implementation, 'release', b.release,
        'prepared_at_ms', floor(extract(epoch from b.prepared_at) * 1000),
        'policy_kind', case when p.policy_id is not null then case when p.operation is null then 'ordinary' else 'owner' end end,
        'prepared_within_ms', floor(extract(epoch from p.prepared_within) * 1000),
        'rebindings', case when b.revision = 1 then 0 else
          (select count(*) from effects_payload.binding x where x.effect_id = b.effect_id and x.rebound) end) end)
    from unnest(ids) as wanted(effect_id)
    join effects_ledger.effect e using (effect_id)
    join effects_ledger.request r using (effect_id)
    join effects_ledger.task t using (task_id)
    cross join effects_ledger.identity l
    join effects_ledger.operation o using (operation, version)
    left join effects_payload.input i using (effect_id)
    left join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
    left join effects_ledger.policy p on p.policy_id = b.policy_id
    left join lateral (select min(a.deadline) as deadline from effects_ledger.task a
                        where a.task_id = any (t.lineage)) d on true
  $$;

-- What a worker would run for an effect: what its owner allowed, else what was registered last.
create function effects_ledger.registered_running(about uuid) returns jsonb language sql stable security definer
  set search_path = pg_catalog, pg_temp
  as $$
    select jsonb_build_object('implementation', coalesce(o.allowed_implementation, o.implementation), 'release', o.release,
             'precondition', o.contract ->> 'precondition', 'prepared_within_ms', (o.contract ->> 'preparedWithinMs')::numeric)
      from effects_ledger.request r join effects_ledger.operation o using (operation, version) where r.effect_id = about
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
        lane text, rebound boolean, cost jsonb, expires_at_ms bigint)
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
        payload_digest, implementation, release, policy_id, lane, rebound, cost, expires_at, prepared_by, prepared_at)
      select s.effect_id, s.revision, s.binding_version, convert_to(s.bytes, 'UTF8'), decode(s.digest, 'hex'),
             decode(s.salt, 'hex'), convert_to(s.payload, 'UTF8'), decode(s.payload_digest, 'hex'), s.implementation,
             s.release, s.policy_id, s.lane, s.rebound, s.cost, to_timestamp(s.expires_at_ms / 1000.0), worker, moment
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
    declined uuid[];
  begin
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
    ), unfollowed as (
      delete from effects_ledger.follower f using step s where f.effect_id = any (ids) and f.effect_id = s.effect_id
    ), unlined as (
      delete from effects_ledger.lane_waiting w using step s where w.effect_id = any (ids) and w.effect_id = s.effect_id
    ), moved as (
      update effects_ledger.effect e
         set state = 'declined', seq = s.seq, head = s.hash, waiting_for = null, denial_code = s.code,
             declined_reason = s.reason
        from step s where e.effect_id = any (ids) and e.effect_id = s.effect_id
      returning e.effect_id
    )
    select array_agg(m.effect_id) into declined from moved m;
    perform effects_ledger.give_notice(declined, 'declined');
    return query select unnest(declined);
  end $$;

-- Which follower an effect has, of those that were not declined: its key is what keeps a second one out. What follows a declined
-- follower has the place of whatever that one followed, too, so that no line of followers ever branches.
create table effects_ledger.follower (
  predecessor uuid primary key references effects_ledger.effect,
  effect_id   uuid not null references effects_ledger.effect
);
create index follower_effect on effects_ledger.follower (effect_id);

-- What waits for a lane, so that the next one is queued when it is free. Only advice: a waiting effect is looked at anyway.
create table effects_ledger.lane_waiting (
  effect_id uuid primary key references effects_ledger.request,
  operation text not null,
  lane      text not null,
  priority  int not null
);
create index lane_waiting_next on effects_ledger.lane_waiting (operation, lane, priority, effect_id);

-- Leaves effects waiting, and queues their jobs again at the moment given; an event only where the code is a new one.
create function effects_ledger.record_waiting(items jsonb, worker text) returns void language plpgsql
  security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    ids constant uuid[] := effects_ledger.ids_of(items);
    moment constant timestamptz := clock_timestamp();
    actor constant text := effects_ledger.actor_now();
    awaiting_approval uuid[];
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
    ), moved as (
      update effects_ledger.effect e
         set seq = s.seq, head = s.hash, waiting_for = s.waiting_for, denial_code = s.code
        from step s where e.effect_id = any (ids) and e.effect_id = s.effect_id
      returning e.effect_id, e.waiting_for
    )
    select array_agg(m.effect_id) into awaiting_approval from moved m where m.waiting_for = 'approval';
    perform effects_ledger.give_notice(awaiting_approval, 'awaiting_approval');

    insert into effects_ledger.lane_waiting (effect_id, operation, lane, priority)
    select r.effect_id, r.operation, b.lane, r.priority
      from jsonb_to_recordset(items) as i(effect_id uuid, waiting_for text)
      join effects_ledger.request r using (effect_id)
      join effects_ledger.effect e using (effect_id)
      join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
     where i.waiting_for = 'lane' and b.lane is not null
    on conflict (effect_id) do nothing;

    perform effects_queue.add_job(r.operation, json_build_object('effect_id', r.effect_id),
              run_at => moment + make_interval(secs => i.retry_after_ms / 1000.0), job_key => r.effect_id::text,
              priority => r.priority)
       from jsonb_to_recordset(items) as i(effect_id uuid, retry_after_ms bigint)
       join effects_ledger.request r using (effect_id)
       join effects_ledger.effect e using (effect_id)
      where r.effect_id = any (ids) and e.effect_id = any (ids) and e.state in ('requested', 'prepared');
  end $$;
