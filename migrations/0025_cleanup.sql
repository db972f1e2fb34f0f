-- Cleanup: what an effect leaves of ours at its recipient is owed from its admission on, until a cleanup succeeded (protocol,
-- section 6).
--
-- Invariants established here:
--   * an obligation opens with the admission that owes it, and is closed once, by evidence of a cleanup;
--   * a cleanup runs when its effect is settled: before that, what it would remove may be what somebody has to find. It
--     changes no outcome;
--   * none begins while another one of its effect has time; what fails is tried again, later and later, up to an age; then it
--     stays open, and is shown.

create table effects_ledger.obligation (
  effect_id   uuid primary key references effects_ledger.effect,
  opened_at   timestamptz not null,
  due_at      timestamptz,
  tried_from  timestamptz,
  tries       int not null default 0,
  tried_at    timestamptz,
  busy_until  timestamptz,
  last_fault  text,
  given_up_at timestamptz,
  closed_at   timestamptz,
  evidence_id uuid references effects_payload.evidence,
  constraint "closed by evidence" check ((closed_at is null) = (evidence_id is null)),
  constraint "tried once it is due" check (due_at is not null or tries = 0 and closed_at is null and given_up_at is null),
  constraint "tries are counted from 0" check (tries >= 0)
);
comment on table effects_ledger.obligation is 'What is owed to recipients: the cleanups that admissions opened, and how far each got.';
comment on column effects_ledger.obligation.due_at is 'When its effect was settled; null while it may still be dispatched, or is in doubt.';
comment on column effects_ledger.obligation.tried_from is 'From when its age counts: due_at, or when somebody had it tried again.';
create index obligation_open on effects_ledger.obligation (due_at) where closed_at is null;

create function effects_ledger.refuse_obligation_change() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception 'the cleanup of effect % is closed, or opens again', old.effect_id using errcode = '42501';
  end $$;
create trigger "an obligation is closed once" after update on effects_ledger.obligation for each row
  when (old.closed_at is not null or (old.effect_id, old.opened_at) is distinct from (new.effect_id, new.opened_at)
        or old.due_at is not null and new.due_at is distinct from old.due_at or new.tries < old.tries)
  execute function effects_ledger.refuse_obligation_change();
create trigger "obligations are not deleted" before delete on effects_ledger.obligation
  for each row execute function effects_ledger.refuse_change();
create trigger "obligations are not emptied" before truncate on effects_ledger.obligation
  for each statement execute function effects_ledger.refuse_change();

-- What is owed and not done. An invocation with one of these is not `succeeded`.
create view effects_ledger.open_obligations as
  select o.effect_id, r.invocation, r.operation, o.opened_at, o.due_at, o.tries, o.last_fault, o.given_up_at
    from effects_ledger.obligation o join effects_ledger.request r using (effect_id)
   where o.closed_at is null;

-- Queues cleanups, each by a job of its own, for a worker that has its operation.
create function effects_ledger.queue_cleanup(ids uuid[], run_at timestamptz) returns void language sql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
    select effects_queue.add_job('cleanup:' || r.operation, json_build_object('effect_id', r.effect_id), run_at => $2,
                                 job_key => 'cleanup:' || r.effect_id)
      from unnest(ids) as wanted(effect_id)
      join effects_ledger.obligation o using (effect_id)
      join effects_ledger.request r using (effect_id)
     where o.closed_at is null and o.due_at is not null and o.given_up_at is null
  $$;

-- Makes the cleanups of effects due that are settled now.
create function effects_ledger.owe_cleanup(ids uuid[], moment timestamptz) returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    update effects_ledger.obligation o set due_at = moment, tried_from = moment where o.effect_id = any (ids) and o.due_at is null;
    if found then
      perform effects_ledger.queue_cleanup(ids, now());
    end if;
  end $$;

-- Queues again what is due and has no job: its job was lost, or used up its attempts. Returns how many.
create function effects_ledger.queue_cleanups() returns int language plpgsql security definer
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    lost uuid[];
  begin
    select array_agg(o.effect_id) into lost from effects_ledger.obligation o
     where o.closed_at is null and o.due_at is not null and o.given_up_at is null
       and not exists (select from effects_queue._private_jobs j where j.key = 'cleanup:' || o.effect_id
                          and (j.attempts < j.max_attempts or j.locked_at is not null));
    perform effects_ledger.queue_cleanup(lost, now());
    return coalesce(cardinality(lost), 0);
  end $$;

-- Begins a cleanup and returns what its adapter needs; or `skipped`, with the reason, and begins none. What is skipped for a
-- while is queued again.
create function effects_ledger.begin_cleanup(about uuid, versions int[], longest_ms bigint) returns jsonb language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    moment constant timestamptz := clock_timestamp();
    owed effects_ledger.obligation;
    of_version int;
    later timestamptz;
  begin
    select * into owed from effects_ledger.obligation o where o.effect_id = about for no key update;
    if not found or owed.closed_at is not null or owed.due_at is null or owed.given_up_at is not null then
      return '{"skipped": "not_due"}';
    end if;
    select r.version into strict of_version from effects_ledger.request r where r.effect_id = about;
    if effects_ledger.is_former(about) then
      update effects_ledger.obligation o set given_up_at = moment, last_fault = 'it is the former ledger''s, for reading only here'
       where o.effect_id = about;
      return '{"skipped": "former_ledger"}';
    elsif effects_ledger.identity_standing() <> 'ok' then
      later := moment + interval '1 minute';
    elsif not of_version = any (versions) then
      later := moment + interval '1 minute'; -- a worker that has its version may take it then
    elsif owed.busy_until > moment then
      later := owed.busy_until;
    end if;
    if later is not null then
      perform effects_ledger.queue_cleanup(array[about], later);
      return '{"skipped": "later"}';
    end if;
    update effects_ledger.obligation o
       set tries = o.tries + 1, tried_at = moment, busy_until = moment + make_interval(secs => longest_ms / 1000.0)
     where o.effect_id = about;
    return (select jsonb_build_object('tries', owed.tries + 1, 'key', r.key, 'attempt', coalesce(p.attempt::text, ''),
              'bytes', convert_from(b.bytes, 'UTF8'), 'payload', convert_from(b.payload, 'UTF8'))
              from effects_ledger.request r
              join effects_ledger.effect e using (effect_id)
              left join effects_ledger.permit p using (effect_id) -- none where it is presumed admitted
              join effects_payload.binding b on b.effect_id = r.effect_id and b.revision = e.revision
             where r.effect_id = about);
  end $$;

-- Closes an obligation by what the adapter showed; or, with a fault, leaves it open and queues the next try. A try that ends
-- after another one began says only what it saw.
create function effects_ledger.finish_cleanup(about uuid, of_try int, evidence jsonb, fault text, by_worker text) returns void
  language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    longest constant interval := '3 days'; -- a weekend in which nobody looks
    slowest constant interval := '1 hour';
    moment constant timestamptz := clock_timestamp();
    owed effects_ledger.obligation;
    shown uuid;
  begin
    perform from effects_ledger.effect e where e.effect_id = about for no key update;
    select * into strict owed from effects_ledger.obligation o where o.effect_id = about for no key update;
    if owed.closed_at is not null then
      return;
    end if;
    if fault is null then
      insert into effects_payload.evidence (effect_id, at, source, submitted_by, says, bytes, digest)
      values (about, moment, 'cleanup', by_worker, 'cleaned', decode(evidence ->> 'bytes', 'hex'), decode(evidence ->> 'digest', 'hex'))
      returning evidence_id into shown;
      update effects_ledger.obligation o set closed_at = moment, evidence_id = shown, busy_until = null, last_fault = null
       where o.effect_id = about;
      perform effects_ledger.note_event(about, 'cleaned', jsonb_build_object('evidence_digest', evidence ->> 'digest', 'tries', owed.tries), by_worker);
      return;
    end if;
    update effects_ledger.obligation o
       set last_fault = fault, busy_until = case when owed.tries = of_try then null else o.busy_until end,
           given_up_at = case when owed.tries = of_try and moment - owed.tried_from >= longest then moment end
     where o.effect_id = about;
    if owed.tries > of_try then
      return;
    elsif moment - owed.tried_from >= longest then
      perform effects_ledger.note_event(about, 'cleanup_given_up', jsonb_build_object('reason', fault, 'tries', owed.tries), by_worker);
    else
      if owed.tries = 1 then -- the others are counted, so that a recipient that stays away fills no record
        perform effects_ledger.note_event(about, 'cleanup_failed', jsonb_build_object('reason', fault), by_worker);
      end if;
      perform effects_ledger.queue_cleanup(array[about],
                moment + least(slowest, make_interval(secs => power(2, least(owed.tries, 20)))));
    end if;
  end $$;

create function effects.retry_cleanup(effect_id uuid, reason text) returns void language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  begin
    perform effects_ledger.check_reason(retry_cleanup.reason);
    perform from effects_ledger.effect e where e.effect_id = retry_cleanup.effect_id for no key update;
    update effects_ledger.obligation o set given_up_at = null, tried_from = clock_timestamp()
     where o.effect_id = retry_cleanup.effect_id and o.closed_at is null and o.due_at is not null;
    if not found then
      perform effects_ledger.refuse('PE127', format('cleanup_not_due: effect %s owes no cleanup now', retry_cleanup.effect_id),
                                    'audit.obligations says what is owed, and since when it is due');
    end if;
    perform effects_ledger.note_event(retry_cleanup.effect_id, 'cleanup_retried', jsonb_build_object('reason', retry_cleanup.reason));
    perform effects_ledger.queue_cleanup(array[retry_cleanup.effect_id], now());
  end $$;
comment on function effects.retry_cleanup is 'Has a cleanup tried again at once, and for as long as the first time.';

create view audit.obligations as
  select o.effect_id, r.known_as as name, r.operation, r.invocation, o.opened_at, o.due_at, o.tries, o.tried_at, o.last_fault,
         o.given_up_at, o.closed_at, encode(v.digest, 'hex') as evidence_digest
    from effects_ledger.obligation o
    join effects_ledger.request r using (effect_id)
    left join effects_payload.evidence v using (evidence_id);
comment on view audit.obligations is
  'The cleanups that admissions owe. closed_at: done, by evidence. due_at null: its effect is not settled. given_up_at: nobody tries any more.';

revoke all on all functions in schema effects, effects_ledger from public;
