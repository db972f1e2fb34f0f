-- Outcomes: what was recorded first about an admitted effect, what came later beside it, and how its cost was settled.
--
-- Invariants established here:
--   * one outcome an effect, never rewritten; one resolution, only beside `uncertain`, and after an accepted risk at most
--     one more, of evidence;
--   * a settlement follows its outcome in the same transaction, is never refused, and releases each reservation once;
--   * an outcome via dispatch is recorded only with the attempt's token.

create table effects_ledger.outcome (
  effect_id   uuid primary key references effects_ledger.effect,
  outcome     text not null,
  via         text not null,
  at          timestamptz not null,
  evidence_id uuid references effects_payload.evidence,
  by_role     text not null,
  by_worker   text,
  constraint "one of the four outcomes" check (outcome in ('accepted', 'failed', 'no_effect', 'uncertain')),
  constraint "via dispatch, a host's run, reconcile, or a person who cannot tell" check
    (via in ('dispatch', 'run', 'reconcile') or via = 'resolve' and outcome = 'uncertain'),
  constraint "a dispatch is never uncertain by itself" check (outcome <> 'uncertain' or via not in ('dispatch', 'run')),
  constraint "evidence for what is certain" check (evidence_id is not null or outcome = 'uncertain')
);
create index outcome_at on effects_ledger.outcome (at);
call effects_ledger.make_history('effects_ledger.outcome');

create table effects_ledger.resolution (
  effect_id   uuid primary key references effects_ledger.outcome,
  kind        text not null,
  says        text,
  source      text not null,
  by_role     text not null,
  at          timestamptz not null,
  reason      text,
  reference   text,
  evidence_id uuid references effects_payload.evidence,
  constraint "by evidence, reached, or with the risk accepted" check (kind in ('evidence', 'reached', 'risk_accepted')),
  constraint "evidence where it is by evidence" check ((kind = 'evidence') <= (evidence_id is not null and says is not null)),
  constraint "it says what an outcome says" check (says in ('accepted', 'failed', 'no_effect')),
  constraint "an accepted risk says nothing about what happened" check (kind <> 'risk_accepted' or (says is null and reason is not null))
);
call effects_ledger.make_history('effects_ledger.resolution');

-- Evidence that came after somebody had accepted the risk: a resolution, and no contradiction. It changes no sum.
create table effects_ledger.resolution_after_risk (
  effect_id   uuid primary key references effects_ledger.resolution,
  says        text not null,
  source      text not null,
  by_role     text not null,
  at          timestamptz not null,
  reason      text,
  reference   text,
  evidence_id uuid not null references effects_payload.evidence,
  constraint "it says what an outcome says" check (says in ('accepted', 'failed', 'no_effect'))
);
call effects_ledger.make_history('effects_ledger.resolution_after_risk');
create function effects_ledger.check_after_risk() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if not exists (select from effects_ledger.resolution z where z.effect_id = new.effect_id and z.kind = 'risk_accepted') then
      raise exception 'effect % is resolved, and not by an accepted risk', new.effect_id
        using errcode = '23514', constraint = 'only an accepted risk is resolved again';
    end if;
    return null;
  end $$;
create trigger "only an accepted risk is resolved again" after insert on effects_ledger.resolution_after_risk
  for each row execute function effects_ledger.check_after_risk();

create function effects_ledger.check_resolution() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if not exists (select from effects_ledger.outcome o where o.effect_id = new.effect_id and o.outcome = 'uncertain') then
      raise exception 'effect % is not uncertain, so nothing resolves it', new.effect_id
        using errcode = '23514', constraint = 'only what is uncertain is resolved';
    end if;
    return null;
  end $$;
create trigger "only what is uncertain is resolved" after insert on effects_ledger.resolution
  for each row execute function effects_ledger.check_resolution();

-- Who may submit evidence, under which name, and whether its word settles anything.
create table effects_ledger.source (
  source        text primary key,
  submitted_by  text,
  authoritative boolean not null,
  added_by      text not null,
  added_at      timestamptz not null default clock_timestamp(),
  revoked_at    timestamptz,
  constraint "a source's name is a short lower-case word" check (source ~ '^[a-z][a-z0-9_]{0,62}$'),
  constraint "a source is nobody else" check (source not in ('dispatch', 'run', 'reconcile', 'operator', 'cleanup'))
);

-- Frees the lanes of effects that are open no more, and queues again at once what waits for one.
create function effects_ledger.free_lanes(ids uuid[]) returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    freed effects_ledger.lane;
  begin
    for freed in delete from effects_ledger.lane l where l.effect_id = any (ids) returning l.* loop
      perform effects_queue.add_job(r.operation, json_build_object('effect_id', r.effect_id), job_key => r.effect_id::text,
                priority => r.priority)
         from (select w.effect_id from effects_ledger.lane_waiting w
                where w.operation = freed.operation and w.lane = freed.lane
                order by w.priority, w.effect_id limit 1) as next
         join effects_ledger.request r using (effect_id);
    end loop;
  end $$;

-- Settles the costs of effects and moves their reservations to spent and overrun on every budget they were drawn on.
-- Sums of overrun stop at the largest bigint instead of refusing a settlement.
create function effects_ledger.settle(items jsonb, moment timestamptz) returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    ids constant uuid[] := effects_ledger.ids_of(items);
    tasks uuid[];
  begin
    select array_agg(distinct a.task_id) into tasks
      from effects_ledger.request r join effects_ledger.task t using (task_id)
      cross join unnest(t.lineage) as a(task_id)
     where r.effect_id = any (ids);
    update effects_ledger.policy p set open_now = p.open_now - x.ended
      from (select b.policy_id, count(*) as ended
              from effects_ledger.effect e
              join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
             where e.effect_id = any (ids) and e.admitted_under = 'policy' group by 1) as x
     where p.policy_id = x.policy_id;
    perform effects_ledger.free_lanes(ids);
    perform from effects_ledger.budget b where b.task_id = any (tasks) order by b.task_id, b.unit for no key update;

    with part as materialized (
      select i.effect_id, i.standing, s.unit, s.settled::bigint as settled, s.overrun::bigint as overrun, s.source
        from jsonb_to_recordset(items) as i(effect_id uuid, standing text, settlements jsonb)
        cross join jsonb_to_recordset(i.settlements) as s(unit text, settled text, overrun text, source text)
    ), costed as (
      update effects_ledger.cost c
         set settled = part.settled, overrun = part.overrun, standing = part.standing, source = part.source, at = moment
        from part where c.effect_id = any (ids) and c.effect_id = part.effect_id and c.unit = part.unit
    ), added as (
      insert into effects_ledger.cost (effect_id, unit, reserved, settled, overrun, standing, source, at)
      select part.effect_id, part.unit, 0, part.settled, part.overrun, part.standing, part.source, moment from part
       where not exists (select from effects_ledger.cost c
                          where c.effect_id = any (ids) and c.effect_id = part.effect_id and c.unit = part.unit)
    ), delta as (
      select a.task_id, part.unit, sum(coalesce(v.amount, 0)) as released,
             sum(case when v.amount is null then 0 else part.settled end) as spent, sum(part.overrun) as overrun
        from part
        join (select r.effect_id, t.lineage from effects_ledger.request r join effects_ledger.task t using (task_id)
               where r.effect_id = any (ids)) as of_effect using (effect_id)
        cross join unnest(of_effect.lineage) as a(task_id)
        left join effects_ledger.reservation v
          on v.effect_id = any (ids)
             and v.effect_id = part.effect_id and v.task_id = a.task_id and v.unit = part.unit
       group by 1, 2
    )
    update effects_ledger.budget b
       set reserved = b.reserved - d.released::bigint, spent = b.spent + d.spent::bigint,
           overrun = least(b.overrun + d.overrun, 9223372036854775807)::bigint
      from delta d where b.task_id = any (tasks) and b.task_id = d.task_id and b.unit = d.unit;

    delete from effects_ledger.live v where v.effect_id = any (ids);
    perform effects_ledger.owe_cleanup(ids, moment);
  end $$;

-- Records reports about admitted effects. Says for each what became of it:
--   recorded: the outcome is the report's; same: it was already, by the same evidence;
--   resolved: the effect was uncertain, and the report resolved it; after_risk: the same, after the risk was accepted;
--   late: something else was recorded before, and the report is kept beside it; refused: not this attempt's token.
create function effects_ledger.record_outcomes(items jsonb, worker text) returns jsonb language plpgsql
  security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    ids constant uuid[] := effects_ledger.ids_of(items);
    moment constant timestamptz := clock_timestamp();
    actor constant text := effects_ledger.actor_now();
    fates jsonb;
    kept jsonb;
    contradicted uuid[];
  begin
    -- In the order of an admission: policies before effects.
    perform from effects_ledger.policy p
      where p.operation is not null
        and p.policy_id in (select b.policy_id from effects_ledger.effect e
                              join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
                             where e.effect_id = any (ids) and e.admitted_under = 'policy')
      order by p.policy_id for no key update;
    with item as materialized (
      select * from jsonb_to_recordset(items) as i(effect_id uuid, token_hash text, outcome text, via text, evidence jsonb,
                                                   resolution text)
    ), locked as materialized (
      select e.effect_id, e.state, e.token_hash from effects_ledger.effect e
       where e.effect_id = any (ids)
       order by e.effect_id for no key update
    )
    select jsonb_object_agg(i.effect_id, case
        when i.via in ('dispatch', 'run') and l.token_hash is distinct from decode(i.token_hash, 'hex') then 'refused'
        when l.state = 'admitted' then 'recorded'
        when o.outcome = i.outcome and o.digest = decode(i.evidence ->> 'digest', 'hex') then 'same'
        when l.state = 'uncertain' and (i.outcome <> 'uncertain' or i.resolution is not null) and z.effect_id is null
          then 'resolved'
        when l.state = 'uncertain' and i.outcome <> 'uncertain' and z.kind = 'risk_accepted' and y.effect_id is null
          then 'after_risk'
        else 'late' end)
      into fates
      from item i join locked l using (effect_id)
      left join (select o.effect_id, o.outcome, v.digest from effects_ledger.outcome o
                   left join effects_payload.evidence v using (evidence_id)
                  where o.effect_id = any (ids) offset 0) as o using (effect_id)
      left join effects_ledger.resolution z on z.effect_id = any (ids) and z.effect_id = i.effect_id
      left join effects_ledger.resolution_after_risk y on y.effect_id = any (ids) and y.effect_id = i.effect_id;

    with item as materialized (
      select i.*, fates ->> i.effect_id::text as fate
        from jsonb_to_recordset(items) as i(effect_id uuid, outcome text, via text, evidence jsonb, reference text,
                                            resolution text, reason text, source text)
       where fates ->> i.effect_id::text in ('recorded', 'resolved', 'after_risk', 'late')
    ), shown as materialized (
      select i.*, case when i.evidence is null then null else effects_ledger.new_id() end as evidence_id,
             case when i.fate = 'late' and i.outcome <> 'uncertain'
                  then coalesce(y.says, z.says, nullif(o.outcome, 'uncertain')) = i.outcome end as agrees
        from item i
        left join effects_ledger.outcome o on o.effect_id = any (ids) and o.effect_id = i.effect_id
        left join effects_ledger.resolution z on z.effect_id = any (ids) and z.effect_id = i.effect_id
        left join effects_ledger.resolution_after_risk y on y.effect_id = any (ids) and y.effect_id = i.effect_id
    ), stored as (
      insert into effects_payload.evidence (evidence_id, effect_id, at, source, submitted_by, says, agrees, reference,
                                            bytes, digest)
      select s.evidence_id, s.effect_id, moment, coalesce(s.source, s.via), coalesce(worker, actor),
             case when s.resolution = 'reached' then 'reached' else s.outcome end,
             s.agrees, s.reference, decode(s.evidence ->> 'bytes', 'hex'), decode(s.evidence ->> 'digest', 'hex')
        from shown s where s.evidence_id is not null
    ), step as materialized (
      select s.*, word.event, e.state as from_state, case when s.fate = 'recorded' then s.outcome else e.state end as to_state,
             e.seq + 1 as seq, e.head as previous, detail.detail,
             effects_ledger.event_hash(e.head, e.effect_id, e.seq + 1, moment, word.event, e.state,
               case when s.fate = 'recorded' then s.outcome else e.state end, actor, worker, detail.detail) as hash
        from shown s
        join (select f.effect_id, f.state, f.seq, f.head from effects_ledger.effect f
               where f.effect_id = any (ids) offset 0) as e using (effect_id)
        cross join lateral (select case when s.fate = 'recorded' then s.outcome
                                        when s.fate in ('resolved', 'after_risk') then 'resolved'
                                        when not s.agrees then 'contradicted'
                                        else 'late_evidence' end) as word(event)
        cross join lateral (select jsonb_strip_nulls(jsonb_build_object('via', s.via, 'says', s.outcome,
                              'resolution', s.resolution, 'reason', s.reason, 'source', s.source,
                              'reference', s.reference, 'evidence_digest', s.evidence ->> 'digest'))) as detail(detail)
    ), logged as (
      insert into effects_ledger.event (effect_id, seq, at, event, from_state, to_state, by_role, by_worker, detail,
        previous_hash, hash)
      select s.effect_id, s.seq, moment, s.event, s.from_state, s.to_state, actor, worker, s.detail, s.previous, s.hash
        from step s
    ), moved as (
      update effects_ledger.effect e
         set state = s.to_state, seq = s.seq, head = s.hash, reference = coalesce(e.reference, s.reference),
             dispatch_ended_at = case when s.via in ('dispatch', 'run') then coalesce(e.dispatch_ended_at, moment)
                                      else e.dispatch_ended_at end,
             unresolved_since = case when s.to_state = 'uncertain' then coalesce(e.unresolved_since, e.dispatch_deadline)
                                     else e.unresolved_since end
        from step s where e.effect_id = any (ids) and e.effect_id = s.effect_id
    ), concluded as (
      insert into effects_ledger.outcome (effect_id, outcome, via, at, evidence_id, by_role, by_worker)
      select s.effect_id, s.outcome, s.via, moment, s.evidence_id, actor, worker from step s where s.fate = 'recorded'
    ), resolved as (
      insert into effects_ledger.resolution (effect_id, kind, says, source, by_role, at, reason, reference, evidence_id)
      select s.effect_id, coalesce(s.resolution, 'evidence'), case when s.resolution is null then s.outcome end,
             coalesce(s.source, s.via), actor, moment, s.reason, s.reference, s.evidence_id
        from step s where s.fate = 'resolved' or s.fate = 'recorded' and s.resolution is not null
    ), resolved_after_risk as (
      insert into effects_ledger.resolution_after_risk (effect_id, says, source, by_role, at, reason, reference, evidence_id)
      select s.effect_id, s.outcome, coalesce(s.source, s.via), actor, moment, s.reason, s.reference, s.evidence_id
        from step s where s.fate = 'after_risk'
    )
    select (select jsonb_agg(i) from jsonb_array_elements(items) as i
             where fates ->> (i ->> 'effect_id') in ('recorded', 'resolved')
               and (i ->> 'outcome' <> 'uncertain' or i ->> 'resolution' is not null)),
           (select array_agg(s.effect_id) from step s where s.event = 'contradicted')
      into kept, contradicted;

    if kept is not null then
      perform effects_ledger.settle(kept, moment);
    end if;
    perform effects_ledger.give_notice(f.ids, f.word)
       from (select array_agg(f.key::uuid) as ids, case when f.value = 'recorded' then 'outcome' else 'resolution' end as word
               from jsonb_each_text(fates) as f where f.value in ('recorded', 'resolved', 'after_risk') group by 2) as f;
    perform effects_ledger.give_notice(contradicted, 'contradiction');
    if items @? '$[*].again_after_ms' then
      perform effects_ledger.follow_at_once((select jsonb_agg(i) from jsonb_array_elements(items) as i
        where i ? 'again_after_ms' and i ->> 'via' = 'dispatch' and fates ->> (i ->> 'effect_id') = 'recorded'
          and i ->> 'outcome' in ('failed', 'no_effect')), worker);
    end if;
    return fates;
  end $$;

-- Records that an attempt gave no answer to go by: the effect stays admitted and is unresolved from now on. Beside an
-- outcome that was recorded meanwhile it is a late report, which changes nothing and must not read as the last word.
create function effects_ledger.record_unresolved(items jsonb, worker text) returns void language plpgsql
  security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    ids constant uuid[] := effects_ledger.ids_of(items);
    moment constant timestamptz := clock_timestamp();
    actor constant text := effects_ledger.actor_now();
    unresolved uuid[];
  begin
    with item as materialized (
      select * from jsonb_to_recordset(items) as i(effect_id uuid, token_hash text, event text, ended boolean, detail jsonb)
    ), locked as materialized (
      select e.effect_id, e.state, e.seq, e.head, e.token_hash from effects_ledger.effect e
       where e.effect_id = any (ids)
       order by e.effect_id for no key update
    ), step as materialized (
      select i.effect_id, i.ended, i.detail, word.event, l.state, l.seq + 1 as seq, l.head as previous,
             effects_ledger.event_hash(l.head, l.effect_id, l.seq + 1, moment, word.event, l.state, l.state, actor, worker,
                                       i.detail) as hash
        from locked l join item i using (effect_id)
        cross join lateral (select case when i.event = 'unresolved' and l.state <> 'admitted' then 'late_report'
                                        else i.event end) as word(event)
       where l.token_hash = decode(i.token_hash, 'hex')
    ), logged as (
      insert into effects_ledger.event (effect_id, seq, at, event, from_state, to_state, by_role, by_worker, detail,
        previous_hash, hash)
      select s.effect_id, s.seq, moment, s.event, s.state, s.state, actor, worker, s.detail, s.previous, s.hash from step s
    ), moved as (
      update effects_ledger.effect e
         set seq = s.seq, head = s.hash,
             unresolved_since = case when s.state = 'admitted' and s.event = 'unresolved'
                                     then coalesce(e.unresolved_since, moment) else e.unresolved_since end,
             dispatch_ended_at = case when s.ended then coalesce(e.dispatch_ended_at, moment) else e.dispatch_ended_at end,
             reference = coalesce(s.detail ->> 'reference', e.reference)
        from step s where e.effect_id = any (ids) and e.effect_id = s.effect_id
      returning e.effect_id, s.state, s.event
    )
    select array_agg(m.effect_id) into unresolved from moved m where m.state = 'admitted' and m.event = 'unresolved';
    perform effects_ledger.give_notice(unresolved, 'unresolved');
  end $$;
