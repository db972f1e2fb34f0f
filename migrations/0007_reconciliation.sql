-- Reconciliation: a request with a fixed scope and deadline, and what each inspection found.
--
-- Invariants established here:
--   * a request's scope, permissions and deadline never change; it starts and ends at most once;
--   * an inspection's row is committed before its adapter is called, and its report is a second, later row;
--   * an effect is inspected by one request at a time, and never while its dispatch may still be running.

create table effects_ledger.reconciliation (
  reconciliation_id uuid primary key default effects_ledger.new_id(),
  requested_by      text not null,
  requested_at      timestamptz not null default clock_timestamp(),
  scope             text not null,
  scope_name        text,
  allow_fence       boolean not null,
  allow_resubmit    boolean not null,
  include_uncertain boolean not null,
  deadline          timestamptz not null,
  constraint "a scope of the design" check (scope in ('effect', 'task', 'operation', 'all')),
  constraint "everything is asked for by name" check ((scope = 'all') = (scope_name is null)),
  constraint "a fence and a resubmission exclude each other" check (not (allow_fence and allow_resubmit)),
  constraint "a deadline lies ahead, at most 24 hours" check
    (deadline > requested_at and deadline <= requested_at + interval '24 hours')
);
call effects_ledger.make_history('effects_ledger.reconciliation');

create table effects_ledger.reconciliation_effect (
  reconciliation_id uuid not null references effects_ledger.reconciliation,
  effect_id         uuid not null references effects_ledger.effect,
  operation         text not null,
  primary key (reconciliation_id, effect_id)
);
create index reconciliation_effect_effect on effects_ledger.reconciliation_effect (effect_id);
comment on table effects_ledger.reconciliation_effect is 'The scope as it was when asked: what was unresolved then.';
call effects_ledger.make_history('effects_ledger.reconciliation_effect');

-- One job for each operation in scope, so that only a worker that has the operation takes it. It runs once.
create table effects_ledger.reconciliation_run (
  reconciliation_id uuid not null references effects_ledger.reconciliation,
  operation         text not null,
  worker            text not null,
  started_at        timestamptz not null default clock_timestamp(),
  ended_at          timestamptz,
  ended             text,
  primary key (reconciliation_id, operation),
  constraint "ended in some way" check ((ended_at is null) = (ended is null)),
  constraint "finished, expired or stopped" check (ended in ('finished', 'expired', 'stopped'))
);
create function effects_ledger.refuse_second_run() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception 'reconciliation % has run for %', old.reconciliation_id, old.operation using errcode = '42501';
  end $$;
create trigger "a run ends once" after update on effects_ledger.reconciliation_run for each row
  when (old.ended_at is not null
        or (old.reconciliation_id, old.operation, old.worker, old.started_at)
           is distinct from (new.reconciliation_id, new.operation, new.worker, new.started_at))
  execute function effects_ledger.refuse_second_run();
create trigger "runs are not deleted" before delete on effects_ledger.reconciliation_run
  for each row execute function effects_ledger.refuse_change();
create trigger "runs are not emptied" before truncate on effects_ledger.reconciliation_run
  for each statement execute function effects_ledger.refuse_change();

create table effects_ledger.inspection (
  inspection_id     uuid primary key default effects_ledger.new_id(),
  reconciliation_id uuid not null,
  effect_id         uuid not null,
  kind              text not null,
  begun_at          timestamptz not null,
  worker            text not null,
  implementation    text not null,
  foreign key (reconciliation_id, effect_id) references effects_ledger.reconciliation_effect,
  constraint "a lookup, a fence or a resubmission" check (kind in ('lookup', 'fence', 'resubmit'))
);
create index inspection_effect on effects_ledger.inspection (effect_id);
create index inspection_reconciliation on effects_ledger.inspection (reconciliation_id);
call effects_ledger.make_history('effects_ledger.inspection');

create table effects_ledger.inspection_report (
  inspection_id uuid primary key references effects_ledger.inspection,
  at            timestamptz not null,
  report        text not null,
  recorded      text,
  reason        text,
  evidence_id   uuid references effects_payload.evidence,
  took_ms       bigint not null,
  conclusive_at timestamptz,
  constraint "a report of the design" check
    (report in ('accepted', 'failed', 'fenced', 'absent', 'reached', 'ambiguous', 'unknown', 'could_not_ask')),
  constraint "could not ask is not not there" check (report <> 'could_not_ask' or recorded is null)
);
call effects_ledger.make_history('effects_ledger.inspection_report');

-- Starts a reconciliation's run for one operation. Returns what to do, or null where it ran already or is too late.
create function effects_ledger.begin_reconciliation(wanted uuid, for_operation text, by_worker text) returns jsonb
  language plpgsql security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    asked effects_ledger.reconciliation;
  begin
    select * into strict asked from effects_ledger.reconciliation r where r.reconciliation_id = wanted;
    if asked.deadline <= clock_timestamp() then
      return null;
    end if;
    insert into effects_ledger.reconciliation_run (reconciliation_id, operation, worker)
      values (wanted, for_operation, by_worker) on conflict do nothing;
    if not found then
      return null;
    end if;
    return jsonb_build_object('allow_fence', asked.allow_fence, 'allow_resubmit', asked.allow_resubmit,
      'remaining_ms', floor(extract(epoch from asked.deadline - clock_timestamp()) * 1000),
      'effects', (select coalesce(jsonb_agg(jsonb_build_object('effect_id', x.effect_id, 'root', t.lineage[1])
                                            order by x.effect_id), '[]')
                    from effects_ledger.reconciliation_effect x
                    join effects_ledger.request r using (effect_id)
                    join effects_ledger.task t using (task_id)
                   where x.reconciliation_id = wanted and x.operation = for_operation));
  end $$;

create function effects_ledger.end_reconciliation(wanted uuid, for_operation text, how text) returns void
  language sql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
    update effects_ledger.reconciliation_run r set ended_at = clock_timestamp(), ended = how
     where r.reconciliation_id = wanted and r.operation = for_operation
  $$;

-- Opens an inspection and returns what its adapter needs; or `skipped`, with the reason, and opens none.
create function effects_ledger.begin_inspection(wanted uuid, inspected uuid, as_kind text, by_worker text,
                                                by_implementation text, versions int[]) returns jsonb
  language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    asked effects_ledger.reconciliation;
    standing effects_ledger.effect;
    opened effects_ledger.inspection;
    ledger effects_ledger.identity;
    of_version int;
  begin
    select * into strict standing from effects_ledger.effect e where e.effect_id = inspected for no key update;
    select * into strict asked from effects_ledger.reconciliation r where r.reconciliation_id = wanted;
    select * into strict ledger from effects_ledger.identity;
    select r.version into strict of_version from effects_ledger.request r where r.effect_id = inspected;
    if asked.deadline <= clock_timestamp() then
      return jsonb_build_object('skipped', 'deadline');
    elsif effects_ledger.identity_standing() <> 'ok' then
      return jsonb_build_object('skipped', 'ledger_closed');
    elsif ledger.role_prefix is not null and not effects_ledger.is_member(asked.requested_by, ledger.role_prefix || 'operator') then
      return jsonb_build_object('skipped', 'not_permitted');
    elsif standing.state <> 'admitted' and not (asked.include_uncertain and standing.state = 'uncertain'
            and not exists (select from effects_ledger.resolution z where z.effect_id = inspected)) then
      return jsonb_build_object('skipped', standing.state);
    elsif standing.state = 'admitted' and standing.unresolved_since is null and standing.dispatch_deadline > clock_timestamp() then
      return jsonb_build_object('skipped', 'being_dispatched');
    elsif effects_ledger.is_former(inspected) then
      return jsonb_build_object('skipped', 'former_ledger');
    elsif not of_version = any (versions) then
      return jsonb_build_object('skipped', 'another_version');
    elsif as_kind = 'fence' and not asked.allow_fence or as_kind = 'resubmit' and not asked.allow_resubmit then
      return jsonb_build_object('skipped', 'not_allowed');
    elsif exists (select from effects_ledger.inspection i
                    join effects_ledger.reconciliation r using (reconciliation_id)
                    left join effects_ledger.inspection_report p using (inspection_id)
                   where i.effect_id = inspected and i.reconciliation_id <> wanted and p.inspection_id is null
                     and r.deadline > clock_timestamp()
                     -- What a worker began that is known to be gone will not be answered.
                     and not exists (select from effects_ledger.worker w where w.worker = i.worker
                                        and (w.stopped_at is not null or w.freed_at is not null))) then
      return jsonb_build_object('skipped', 'being_inspected');
    end if;
    insert into effects_ledger.inspection (reconciliation_id, effect_id, kind, begun_at, worker, implementation)
      values (wanted, inspected, as_kind, clock_timestamp(), by_worker, by_implementation) returning * into opened;
    return (select jsonb_build_object('inspection_id', opened.inspection_id,
              'begun_at_ms', floor(extract(epoch from opened.begun_at) * 1000),
              'remaining_ms', floor(extract(epoch from asked.deadline - opened.begun_at) * 1000),
              'admitted_at_ms', floor(extract(epoch from standing.admitted_at) * 1000),
              'dispatch_deadline_ms', floor(extract(epoch from standing.dispatch_deadline) * 1000),
              'dispatch_ended_at_ms', floor(extract(epoch from standing.dispatch_ended_at) * 1000),
              'effect_id', inspected, 'state', standing.state, 'key', r.key, 'attempt', coalesce(p.attempt::text, ''), 'version', r.version, 'root', t.lineage[1],
              'bytes', convert_from(b.bytes, 'UTF8'), 'payload', convert_from(b.payload, 'UTF8'),
              'cost', b.cost)
              from effects_ledger.request r
              join effects_ledger.task t using (task_id)
              left join effects_ledger.permit p using (effect_id) -- none where it is presumed admitted
              join effects_payload.binding b on b.effect_id = r.effect_id and b.revision = standing.revision
             where r.effect_id = inspected);
  end $$;

-- What a resubmission wants to know of the first dispatch.
create function effects_ledger.first_dispatch(about uuid) returns jsonb language sql stable security definer
  set search_path = pg_catalog, pg_temp
  as $$
    select jsonb_build_object('dispatch_ended', e.dispatch_ended_at is not null,
             'since_admission_ms', floor(extract(epoch from clock_timestamp() - e.admitted_at) * 1000),
             'same_epoch', r.recovery_epoch = i.recovery_epoch)
      from effects_ledger.effect e
      join effects_ledger.request r using (effect_id)
      cross join effects_ledger.identity i
     where e.effect_id = about
  $$;

-- Opens inspections, each on its own terms. Answers come by effect.
create function effects_ledger.begin_inspections(items jsonb, by_worker text) returns jsonb
  language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    item record;
    answers jsonb := '{}';
  begin
    for item in select * from jsonb_to_recordset(items) as i(reconciliation_id uuid, effect_id uuid, kind text,
                                                             implementation text, versions int[]) order by i.effect_id loop
      answers := answers || jsonb_build_object(item.effect_id, effects_ledger.begin_inspection(item.reconciliation_id,
                   item.effect_id, item.kind, by_worker, item.implementation, item.versions));
    end loop;
    return answers;
  end $$;

-- Closes inspections with their reports and, where a report decides something, records that in the same transaction.
create function effects_ledger.finish_inspections(items jsonb, by_worker text) returns jsonb
  language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    answered constant timestamptz := clock_timestamp();
    outcomes constant jsonb := (select jsonb_agg(i -> 'outcome') from jsonb_array_elements(items) as i
                                 where jsonb_typeof(i -> 'outcome') = 'object');
    fates jsonb := '{}';
  begin
    if outcomes is not null then
      fates := effects_ledger.record_outcomes(outcomes, by_worker);
    end if;
    insert into effects_payload.evidence (effect_id, source, submitted_by, says, bytes, digest)
    select n.effect_id, 'reconcile', by_worker, i.report, decode(i.evidence ->> 'bytes', 'hex'), decode(i.evidence ->> 'digest', 'hex')
      from jsonb_to_recordset(items) as i(inspection_id uuid, report text, outcome jsonb, evidence jsonb)
      join effects_ledger.inspection n using (inspection_id)
     where i.outcome is null and i.evidence is not null;
    insert into effects_ledger.inspection_report (inspection_id, at, report, recorded, reason, evidence_id, took_ms, conclusive_at)
    select i.inspection_id, answered, i.report,
           case when fates ->> n.effect_id::text in ('recorded', 'resolved', 'after_risk')
                then coalesce(i.outcome ->> 'resolution', i.outcome ->> 'outcome') end,
           i.reason,
           (select v.evidence_id from effects_payload.evidence v
             where v.effect_id = n.effect_id
               and v.digest = decode(coalesce(i.outcome #>> '{evidence,digest}', i.evidence ->> 'digest'), 'hex')
             order by v.at desc limit 1),
           i.took_ms, to_timestamp(i.conclusive_at_ms / 1000.0)
      from jsonb_to_recordset(items) as i(inspection_id uuid, report text, reason text, took_ms bigint, outcome jsonb,
                                          evidence jsonb, conclusive_at_ms bigint)
      join effects_ledger.inspection n using (inspection_id);
    return fates;
  end $$;
