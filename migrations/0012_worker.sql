-- Workers: which operations they run, that they are alive, and what is taken up again when one is not.
--
-- Invariants established here:
--   * registering an operation allows nothing on a protected one;
--   * a silent worker's jobs are freed, and what waits without a job gets one; neither admits or sends anything.

create table effects_ledger.worker (
  worker       text primary key,
  pools        text[] not null default '{}',
  release      text not null,
  operations   text[] not null,
  started_at   timestamptz not null default clock_timestamp(),
  heartbeat_at timestamptz not null default clock_timestamp(),
  stopped_at   timestamptz,
  freed_at     timestamptz,
  last_admission uuid,
  confirmed_on text
);
comment on column effects_ledger.worker.confirmed_on is
  'Where its newest confirmed admission was last found in place: server, database and timeline.';
comment on table effects_ledger.worker is 'Worker processes by heartbeat. A row says who is alive, not what happened.';

-- Registers what a worker runs. It allows nothing: a protected operation's effects are admitted for the implementation that
-- the owner allowed, whichever is registered. A new version of a protected operation is protected from the start.
create function effects_ledger.register_operations(items jsonb) returns void language plpgsql
  security definer set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- So that a new version and the protection of its name see each other.
    lock table effects_ledger.operation in share row exclusive mode;
    insert into effects_ledger.operation as o (operation, version, contract, contract_digest, input_schema, implementation,
                                               release, protected, registered_by)
    select i.operation, i.version, i.contract, decode(i.contract_digest, 'hex'), i.input_schema, i.implementation,
           i.release, exists (select from effects_ledger.operation p where p.operation = i.operation and p.protected),
           effects_ledger.actor_now()
      from jsonb_to_recordset(items) as i(operation text, version int, contract jsonb, contract_digest text,
                                          input_schema jsonb, implementation text, release text)
     order by i.operation, i.version
    on conflict (operation, version) do update
      set contract = excluded.contract, contract_digest = excluded.contract_digest, input_schema = excluded.input_schema,
          implementation = excluded.implementation, release = excluded.release
      where (o.contract_digest, o.implementation, o.release)
            is distinct from (excluded.contract_digest, excluded.implementation, excluded.release);
  end $$;

-- A beat says that a worker is alive, and looks for the newest admission that was confirmed to it: where that is gone, a
-- commit was lost, and the ledger closes for all (protocol, section 10).
create function effects_ledger.heartbeat(me text, my_pools text[], my_release text, my_operations text[], remembered uuid)
  returns void language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    place constant text := effects_ledger.place_now();
  begin
    if remembered is not null
       and not exists (select from effects_ledger.effect e where e.effect_id = remembered and e.admitted_at is not null) then
      perform effects_ledger.close_for_loss(remembered);
    end if;
    insert into effects_ledger.worker as w (worker, pools, release, operations, last_admission, confirmed_on)
      values (me, my_pools, my_release, my_operations, remembered, place)
    on conflict (worker) do update set heartbeat_at = clock_timestamp(), pools = excluded.pools, freed_at = null,
      last_admission = excluded.last_admission, confirmed_on = excluded.confirmed_on;
  end $$;

create function effects_ledger.close_for_loss(missing uuid) returns void language sql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
    update effects_ledger.identity i set lost_admission = missing, written_by = pg_current_xact_id() where i.lost_admission is null
  $$;

-- Says that a worker has stopped. Whatever its queue could not give back is freed in the same transaction: a worker that
-- is on record as stopped holds no job.
create function effects_ledger.stop_worker(me text) returns void language plpgsql
  security definer set search_path = pg_catalog, pg_temp
  as $$
  begin
    perform effects_queue.force_unlock_workers(w.pools) from effects_ledger.worker w where w.worker = me;
    update effects_ledger.worker w set stopped_at = clock_timestamp() where w.worker = me;
  end $$;

-- Frees the jobs of workers that have been silent for longer than given, through graphile-worker's own function, and
-- returns these workers. A worker that was only frozen goes on afterwards; the ledger keeps it from sending twice.
create function effects_ledger.free_silent(silent_ms bigint) returns setof text language plpgsql
  security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    silent effects_ledger.worker;
  begin
    for silent in
      select * from effects_ledger.worker w
       where w.stopped_at is null and w.freed_at is null
         and w.heartbeat_at < clock_timestamp() - make_interval(secs => silent_ms / 1000.0)
       order by w.worker for no key update skip locked
    loop
      perform effects_queue.force_unlock_workers(silent.pools);
      update effects_ledger.worker w set freed_at = clock_timestamp() where w.worker = silent.worker;
      return next silent.worker;
    end loop;
  end $$;

-- Frees jobs locked for longer than given by a pool of no live worker: one that died before its first heartbeat, or took
-- jobs after it was told to stop.
create function effects_ledger.free_unnamed(silent_ms bigint) returns void language sql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
    select effects_queue.force_unlock_workers(array_agg(distinct j.locked_by))
      from effects_queue._private_jobs j
     where j.locked_at < clock_timestamp() - make_interval(secs => silent_ms / 1000.0)
       and not exists (select from effects_ledger.worker w where j.locked_by = any (w.pools) and w.stopped_at is null)
    having count(*) > 0
  $$;

-- The next two walk the small table of what is live and look the rest up: their plans must not turn to scanning all effects.

-- Queues again what waits without a job (its job was lost, or used up its attempts). Returns how many.
create function effects_ledger.queue_waiting() returns int language plpgsql
  security definer set search_path = pg_catalog, pg_temp set enable_hashjoin = off set enable_mergejoin = off set jit = off
  as $$
  declare
    queued int;
  begin
    perform effects_queue.add_job(r.operation, json_build_object('effect_id', r.effect_id),
              run_at => greatest(r.not_before, now()), job_key => r.effect_id::text, priority => r.priority)
       from effects_ledger.live v
       join effects_ledger.effect e using (effect_id)
       join effects_ledger.request r using (effect_id)
      where e.state in ('requested', 'prepared')
        and not exists (select from effects_queue._private_jobs j
                         where j.key = r.effect_id::text and (j.attempts < j.max_attempts or j.locked_at is not null));
    get diagnostics queued = row_count;
    return queued;
  end $$;

-- Appends `overdue` to what was admitted and has passed its window without a word. It asks nobody. Returns how many.
create function effects_ledger.mark_overdue(by_worker text) returns int language plpgsql
  security definer set search_path = pg_catalog, pg_temp set enable_hashjoin = off set enable_mergejoin = off set jit = off
  as $$
  declare
    moment constant timestamptz := clock_timestamp();
    actor constant text := effects_ledger.actor_now();
    marked uuid[];
  begin
    with locked as materialized (
      select e.effect_id, e.seq, e.head, e.dispatch_deadline from effects_ledger.effect e
       where e.effect_id in (select v.effect_id from effects_ledger.live v)
         and e.state = 'admitted' and e.unresolved_since is null and e.dispatch_deadline <= moment
       order by e.effect_id for no key update skip locked
    ), step as materialized (
      select l.*, l.seq + 1 as next_seq, detail.detail,
             effects_ledger.event_hash(l.head, l.effect_id, l.seq + 1, moment, 'overdue', 'admitted', 'admitted', actor,
                                       by_worker, detail.detail) as hash
        from locked l
        cross join lateral (select jsonb_build_object('since',
                              (extract(epoch from l.dispatch_deadline) * 1000)::bigint)) as detail(detail)
    ), logged as (
      insert into effects_ledger.event (effect_id, seq, at, event, from_state, to_state, by_role, by_worker, detail,
        previous_hash, hash)
      select s.effect_id, s.next_seq, moment, 'overdue', 'admitted', 'admitted', actor, by_worker, s.detail, s.head, s.hash
        from step s
    ), moved as (
      update effects_ledger.effect e set seq = s.next_seq, head = s.hash, unresolved_since = s.dispatch_deadline
        from step s where e.effect_id = s.effect_id
      returning e.effect_id
    )
    select array_agg(m.effect_id) into marked from moved m;
    perform effects_ledger.give_notice(marked, 'unresolved');
    return coalesce(cardinality(marked), 0);
  end $$;

-- Queues effects again at once: their jobs were taken by a worker that is stopping, or that bound another implementation.
create function effects_ledger.requeue(ids uuid[]) returns void language sql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
    select effects_queue.add_job(r.operation, json_build_object('effect_id', r.effect_id), job_key => r.effect_id::text,
             priority => r.priority)
      from unnest(ids) as wanted(effect_id)
      join effects_ledger.request r using (effect_id)
      join effects_ledger.effect e using (effect_id)
     where e.state in ('requested', 'prepared')
  $$;

-- A job that nobody runs: a worker looks at it under its own role before it starts, and rolls it back.
create function effects_ledger.add_probe_job() returns bigint language sql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$ select j.id from effects_queue.add_job('pg_effects_probe') as j $$;

-- Why an admitted effect should go no further, or null: what `assertAuthority` asks before each protected step.
create function effects_ledger.authority_gap(admitted uuid) returns text language plpgsql stable
  security definer set search_path = pg_catalog, pg_temp
  as $$
  begin
    return (select case
        when effects_ledger.identity_standing() <> 'ok' then 'recovery_unacknowledged'
        when exists (select from effects_ledger.invocation v
                      where v.invocation_id = r.invocation and v.outcome is not null) then 'invocation_ended'
        when o.withdrawn_at is not null then 'operation_withdrawn'
        when (o.protected or i."strict") and o.allowed_implementation is distinct from b.implementation then 'operation_not_allowed'
        when chain.revoked then 'task_revoked'
        when chain.ended then 'task_ended'
        when chain.expired then 'task_expired'
        when a.revoked_at is not null or not effects_ledger.may_serve(r.actor, r.spoken_by) then 'actor_revoked'
        when p.revoked_at is not null then 'policy_revoked'
        when p.expires_at <= clock_timestamp() then 'policy_expired'
        when exists (select from effects_ledger.permit_approval c
                       join effects_ledger.approval y using (approval_id)
                       join effects_ledger.approver k using (key_id)
                      where c.effect_id = admitted and (y.revoked_at is not null or k.revoked_at is not null
                                                        or y.expires_at <= clock_timestamp())) then 'approval_required'
        when followed.said is not null then 'predecessor_' || followed.said end
      from effects_ledger.request r
      join effects_ledger.effect e using (effect_id)
      join effects_ledger.operation o using (operation, version)
      cross join effects_ledger.identity i
      join effects_ledger.actor a on a.actor = r.actor
      join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
      join effects_ledger.policy p on p.policy_id = b.policy_id
      join effects_ledger.task t on t.task_id = r.task_id
      cross join lateral (select bool_or(x.revoked_at is not null) as revoked, bool_or(x.ended_at is not null) as ended,
                                 bool_or(x.deadline <= clock_timestamp()) as expired
                            from effects_ledger.task x where x.task_id = any (t.lineage)) as chain
      left join lateral (select min(effects_ledger.said_against(l.predecessor)) as said
                           from effects_ledger.line_above(array[admitted]) as l) as followed on true
     where r.effect_id = admitted);
  end $$;
