-- Invocations: one execution by a host (a run, a command, a tool call), and its result, recorded once (protocol, section 8).
--
-- Invariants established here:
--   * an invocation has one of five results, once; what is found out later about its effects never rewrites it;
--   * none is `succeeded` while one of its effects has no evidence, or owes a cleanup;
--   * ending it writes the very row that admission locks: none of its effects is admitted afterwards.

create table effects_ledger.invocation (
  invocation_id uuid primary key default effects_ledger.new_id(),
  host          text not null,
  reference     text,
  actor         text not null references effects_ledger.actor,
  started_by    text not null,
  started_at    timestamptz not null default clock_timestamp(),
  outcome       text,
  ended_at      timestamptz,
  ended_by      text,
  constraint "a host is named by 1 to 200 characters" check (length(host) between 1 and 200),
  constraint "a reference has 1 to 200 characters" check (length(reference) between 1 and 200),
  constraint "one of the five results" check (outcome in ('succeeded', 'failed', 'errored', 'cancelled', 'rejected')),
  constraint "ended with a result, at some time, by somebody" check
    ((outcome is null) = (ended_at is null) and (outcome is null) = (ended_by is null))
);
create index invocation_reference on effects_ledger.invocation (reference) where reference is not null;
comment on table effects_ledger.invocation is 'One execution by a host, and what became of it.';

create function effects_ledger.refuse_second_end() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception 'invocation % keeps what was recorded of it', old.invocation_id using errcode = '42501';
  end $$;
create trigger "an invocation ends once" after update on effects_ledger.invocation for each row
  when (old.outcome is not null
        or (old.invocation_id, old.host, old.reference, old.actor, old.started_by, old.started_at)
           is distinct from (new.invocation_id, new.host, new.reference, new.actor, new.started_by, new.started_at))
  execute function effects_ledger.refuse_second_end();
create trigger "an invocation is not deleted" before delete on effects_ledger.invocation
  for each row execute function effects_ledger.refuse_change();
create trigger "invocations are not emptied" before truncate on effects_ledger.invocation
  for each statement execute function effects_ledger.refuse_change();

alter table effects_ledger.request add constraint "an invocation that was started"
  foreign key (invocation) references effects_ledger.invocation;

-- What was in doubt, or still waiting, when an invocation ended: a diagnostic, as of then.
create table effects_ledger.invocation_doubt (
  invocation_id uuid not null references effects_ledger.invocation,
  effect_id     uuid not null references effects_ledger.effect,
  state         text not null,
  primary key (invocation_id, effect_id)
);
call effects_ledger.make_history('effects_ledger.invocation_doubt');

-- Effects of an invocation without evidence of how they ended: waiting, open, or uncertain and not resolved. And those that
-- ended and owe a cleanup.
create function effects_ledger.lacking_evidence(about uuid) returns table (effect_id uuid, state text) language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  begin
    return query select e.effect_id, e.state from effects_ledger.request r
      join effects_ledger.effect e using (effect_id)
     where r.invocation = about
       and (e.state in ('requested', 'prepared', 'admitted')
            or e.state = 'uncertain' and not exists (select from effects_ledger.resolution z where z.effect_id = e.effect_id)
            or exists (select from effects_ledger.open_obligations o where o.effect_id = e.effect_id));
  end $$;

-- Refuses an invocation that a requester's actor has not started. Null names none.
create function effects_ledger.check_invocation(about uuid, acting text) returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if about is not null
       and not exists (select from effects_ledger.invocation v where v.invocation_id = about and v.actor = acting) then
      perform effects_ledger.refuse('PE123', format('invocation_unknown: the actor %s has started no invocation %s', acting, about),
                                    'start it with effects.start_invocation, as the actor that requests');
    end if;
  end $$;

-- Refuses one that has ended. Here that is advice; admission looks again, under its lock.
create function effects_ledger.check_live(about uuid) returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    ended text;
  begin
    select v.outcome into ended from effects_ledger.invocation v where v.invocation_id = about and v.outcome is not null;
    if found then
      perform effects_ledger.refuse('PE124', format('invocation_ended: invocation %s has ended as %s', about, ended),
                                    'start another one');
    end if;
  end $$;

create function effects.start_invocation(host text, reference text) returns uuid language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    id uuid;
  begin
    if host is null or length(host) not between 1 and 200 then
      perform effects_ledger.refuse('22023', 'a host is named by 1 to 200 characters', 'say what runs it: a service, a command, a server of tools');
    elsif length(reference) not between 1 and 200 then
      perform effects_ledger.refuse('22023', 'a reference has 1 to 200 characters', 'give the host''s own id of the execution, or null');
    end if;
    insert into effects_ledger.invocation (host, reference, actor, started_by)
    values (start_invocation.host, start_invocation.reference, effects_ledger.acting(null), session_user)
    returning invocation_id into id;
    return id;
  end $$;
comment on function effects.start_invocation is
  'Records that a host begins one execution, under its own reference to it. The id goes into what that execution requests.';

create function effects.end_invocation(invocation_id uuid, outcome text) returns text language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    about effects_ledger.invocation;
    lacking uuid[];
  begin
    if end_invocation.outcome is null
       or end_invocation.outcome not in ('succeeded', 'failed', 'errored', 'cancelled', 'rejected') then
      perform effects_ledger.refuse('22023', 'the outcome is ' || coalesce(end_invocation.outcome, 'null'),
                                    'give succeeded, failed, errored, cancelled or rejected');
    end if;
    select * into about from effects_ledger.invocation v where v.invocation_id = end_invocation.invocation_id for no key update;
    if not found or (about.actor <> effects_ledger.actor_now() and effects_ledger.spoken_for(about.actor) is null
                     and not effects_ledger.has_role('operator')) then
      perform effects_ledger.refuse('PE123', format('invocation_unknown: there is no invocation %s of this actor''s',
                                      end_invocation.invocation_id), 'an operator ends another one''s');
    elsif about.outcome = 'cancelled' or about.outcome = end_invocation.outcome then
      return about.outcome; -- an accepted cancellation wins, whatever its host says afterwards
    elsif about.outcome is not null then
      perform effects_ledger.refuse('PE124', format('invocation_ended: invocation %s has ended as %s', about.invocation_id, about.outcome),
                                    'a result is recorded once; what is found out later is in audit.effects');
    end if;
    if end_invocation.outcome = 'succeeded' and current_setting('transaction_isolation') = 'repeatable read' then
      -- An effect that was requested and admitted since the snapshot would not be seen, and nothing would say so.
      perform effects_ledger.refuse('55000', 'a snapshot cannot tell that nothing is missing',
                                    'end it in a transaction that is READ COMMITTED or SERIALIZABLE');
    end if;
    select array_agg(l.effect_id order by l.effect_id) into lacking from effects_ledger.lacking_evidence(about.invocation_id) as l;
    if end_invocation.outcome = 'succeeded' and lacking is not null then
      perform effects_ledger.refuse('PE125', format('evidence_missing: %s of its effects have no evidence of how they ended, or owe a cleanup: %s',
                                      cardinality(lacking), array_to_string(lacking[1:10], ', ')),
                                    'wait for them, or have them resolved; else it failed, errored, or was cancelled');
    elsif end_invocation.outcome = 'rejected'
          and exists (select from effects_ledger.request r where r.invocation = about.invocation_id) then
      perform effects_ledger.refuse('22023', 'what requested an effect had started', 'say failed, errored or cancelled');
    end if;
    update effects_ledger.invocation v
       set outcome = end_invocation.outcome, ended_at = clock_timestamp(), ended_by = effects_ledger.actor_now()
     where v.invocation_id = about.invocation_id;
    insert into effects_ledger.invocation_doubt (invocation_id, effect_id, state)
    select about.invocation_id, l.effect_id, l.state from effects_ledger.lacking_evidence(about.invocation_id) as l;
    -- What waits is looked at again at once, and denied.
    perform effects_ledger.requeue(lacking);
    return end_invocation.outcome;
  end $$;
comment on function effects.end_invocation is
  'Records an invocation''s result, once, and answers what is recorded: a cancellation stays one. Not succeeded while an effect of it has no evidence.';

create view audit.invocations as
  select v.invocation_id, v.host, v.outcome, v.ended_at as at,
         (select count(*) from effects_ledger.request r where r.invocation = v.invocation_id) as effects,
         v.reference, v.actor, v.started_by, v.started_at, v.ended_by,
         (select count(*) from effects_ledger.invocation_doubt d where d.invocation_id = v.invocation_id) as effects_in_doubt
    from effects_ledger.invocation v;
comment on view audit.invocations is 'Each execution by a host, its result, and when that was recorded; null while it runs. audit.effects says which effects are its own.';

create view audit.invocation_doubts as
  select d.invocation_id, d.effect_id, d.state from effects_ledger.invocation_doubt d;
comment on view audit.invocation_doubts is 'Effects that were waiting or in doubt when their invocation ended, and where they stood then.';

revoke all on all functions in schema effects, effects_ledger from public;
