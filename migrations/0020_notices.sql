-- What applications call beside asking for one effect: ask for many, take notice of where they stand, cancel.
--
-- Invariants established here:
--   * many requests are checked as one is, by the same functions, and written all or none;
--   * a notice is written in the transaction that records what it is about, and gone with the one that took it;
--   * at one time one transaction has an effect's notices; so whoever takes them has where it stands after all of them;
--   * a cancellation declines what is not admitted, and claims nothing about what is.

-- Many. ----------------------------------------------------------------------------------------------------------------

-- Reads requests as an application gives them: what is left out is as in effects.enqueue, what is null is null.
create function effects_ledger.read_requests(requests json) returns effects_ledger.asked[] language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    batch_max constant int := 10000; -- some 20 MB of this session's memory, and a second or two
    element record;
    field record;
    given text;
    key text;
    each effects_ledger.asked;
    asked effects_ledger.asked[] := '{}';
    seen text[];
    place int;
    code text;
    said text;
    advice text;
  begin
    if requests is null or json_typeof(requests) <> 'array' then
      perform effects_ledger.refuse('22023', 'requests is not an array', 'give [{"input": …, "name": …}]: the parameters of effects.enqueue by name');
    elsif json_array_length(requests) > batch_max then
      perform effects_ledger.refuse('22023', format('%s requests are too many for one call, at most %s are taken', json_array_length(requests), batch_max),
                                    'make several calls in the same transaction');
    end if;
    for element in select e.value, e.place from json_array_elements(requests) with ordinality as e(value, place) loop
      place := element.place;
      each := row(place, null, 'default', null, null, null, null, 0, 'wait', null, null, null, null, null)::effects_ledger.asked;
      seen := '{}';
      key := null;
      if json_typeof(element.value) <> 'object' then
        perform effects_ledger.refuse('22023', 'it is no object', 'give {"input": …, "name": …}: the parameters of effects.enqueue by name');
      end if;
      for field in select f.key, f.value, json_typeof(f.value) as kind, f.value #>> '{}' as words from json_each(element.value) as f loop
        key := field.key;
        given := case when field.kind <> 'null' then field.words end;
        if key = any (seen) then
          perform effects_ledger.refuse('PE102', format('input_unfaithful: it repeats the key %s', effects_ledger.quoted(key)), 'give each key once');
        elsif key in ('task', 'name', 'notify', 'not_before', 'expires_at', 'on_denial', 'follows', 'actor', 'invocation', 'trace')
              and field.kind not in ('string', 'null') then
          perform effects_ledger.refuse('22023', format('%s is no string', key), 'give it as a string');
        elsif key in ('priority', 'follow_max') and given !~ '^-?[0-9]{1,9}$' or key in ('priority', 'follow_max') and field.kind = 'string' then
          perform effects_ledger.refuse('22023', format('%s is no integer', key), 'give it as a JSON number');
        end if;
        seen := seen || key;
        case key
          when 'input' then each.input := field.value;
          when 'task' then each.task := given;
          when 'name' then each.name := given;
          when 'notify' then each.notify := given;
          when 'not_before' then each.not_before := given::timestamptz;
          when 'expires_at' then each.expires_at := given::timestamptz;
          when 'priority' then each.priority := given::int;
          when 'on_denial' then each.on_denial := given;
          when 'follows' then each.follows := given::uuid;
          when 'follow_max' then each.follow_max := given::int;
          when 'actor' then each.actor := given;
          when 'invocation' then each.invocation := given::uuid;
          when 'trace' then each.trace := given;
          else perform effects_ledger.refuse('22023', format('it has the unknown key %s', effects_ledger.quoted(key)),
                                             'the keys are the parameters of effects.enqueue beside operation');
        end case;
      end loop;
      asked := asked || each;
    end loop;
    return asked;
  exception when others then
    get stacked diagnostics code = returned_sqlstate, said = message_text, advice = pg_exception_hint;
    if place is null or code !~ '^(PE|22)' then
      raise;
    elsif code in ('22P05', '22P02') and key is null then
      -- A string somewhere in it cannot be stored. `faithful` finds the place.
      begin
        perform effects_ledger.faithful(element.value);
      exception when sqlstate 'PE102' then
        get stacked diagnostics code = returned_sqlstate, said = message_text, advice = pg_exception_hint;
      end;
    elsif code ~ '^22' and code <> '22023' then
      code := '22023';
      said := format('%s is refused: %s', key, said);
      advice := 'give a moment in ISO 8601, or an id as effects.enqueue returned it';
    end if;
    raise exception using errcode = code, message = format('%s (request %s)', said, place), hint = advice,
                          detail = json_build_object('ordinal', place);
  end $$;

create function effects.enqueue_many(operation text, requests json)
  returns table (ordinal int, effect_id uuid, replayed boolean)
  language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  begin
    return query select r.ordinal, r.effect_id, r.replayed
      from effects_ledger.request_effects(operation, effects_ledger.read_requests(requests), true) as r order by r.ordinal;
  end $$;
comment on function effects.enqueue_many is
  'Requests many effects of one operation, all or none: an array of objects with the parameters of effects.enqueue by name.';

-- Notices. -------------------------------------------------------------------------------------------------------------

-- A queue, and no history: what it was about is in the record. Rows are only added and taken, so nobody who records ever
-- waits for somebody who takes. An effect's notices are written by whoever holds its row, so their order is its order.
create table effects_ledger.notice (
  notice_id bigint generated always as identity,
  inbox     text not null,
  actor     text not null,
  effect_id uuid not null,
  about     text not null,
  at        timestamptz not null,
  primary key (effect_id, notice_id),
  constraint "about what is worth a notice" check
    (about in ('awaiting_approval', 'declined', 'outcome', 'unresolved', 'resolution', 'contradiction'))
);
create index notice_order on effects_ledger.notice (inbox, actor, notice_id);
comment on table effects_ledger.notice is 'What is not yet taken from inboxes.';

-- Writes a notice for those of the effects that were asked for with `notify`. To be called after their rows are locked.
create function effects_ledger.give_notice(ids uuid[], word text) returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if coalesce(cardinality(ids), 0) = 0 then
      return;
    end if;
    insert into effects_ledger.notice (inbox, actor, effect_id, about, at)
    select r.notify, r.actor, r.effect_id, word, clock_timestamp()
      from effects_ledger.request r where r.effect_id = any (ids) and r.notify is not null;
    if found then
      perform pg_notify('effects_notices', x.notify)
         from (select distinct r.notify from effects_ledger.request r where r.effect_id = any (ids) and r.notify is not null) as x;
    end if;
  end $$;

create function effects_ledger.check_inbox(inbox text) returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if coalesce(inbox, '') !~ '^[a-z][a-z0-9_]{0,62}$' then
      perform effects_ledger.refuse('22023', format('the inbox %s is refused', effects_ledger.quoted(inbox)),
                                    'an inbox is a lower-case word of at most 63 characters');
    end if;
  end $$;

create function effects.take_notices(inbox text, max int default 100)
  returns table (effect_id uuid, seq int, name text, operation text, state text, unresolved boolean, waiting_for text,
                 resolution text, reference text, at timestamptz)
  language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
  as $$
  #variable_conflict use_column
  declare
    effects_max constant int := 1000; -- a transaction of the consumer's, not a backlog
    acting constant text := effects_ledger.actor_now();
    taker text;
    still int := take_notices.max;
    taken bigint;
  begin
    perform effects_ledger.check_inbox(take_notices.inbox);
    if still is null or still not between 1 and effects_max then
      perform effects_ledger.refuse('22023', format('max is %s', coalesce(still::text, 'null')), format('give 1 to %s', effects_max));
    end if;
    -- Its own, and those of actors that it speaks for. Taking takes away, so nobody else may who could only look.
    for taker in select acting union all
                 (select s.actor from effects_ledger.speaker s where s.spoken_by = acting and s.actor <> acting order by s.actor)
    loop
      -- An effect's first notice is what is locked. Whoever finds it locked leaves the later ones too, and whoever has it has
      -- all that this statement sees; its standing is as of the same moment.
      return query
      with chosen as materialized (
        select n.effect_id, n.notice_id from effects_ledger.notice n
         where n.inbox = take_notices.inbox and n.actor = taker
           and not exists (select from effects_ledger.notice e where e.effect_id = n.effect_id and e.notice_id < n.notice_id)
         order by n.notice_id limit still for update of n skip locked
      ), gone as (
        delete from effects_ledger.notice n using chosen c where n.effect_id = c.effect_id returning n.effect_id, n.notice_id, n.at
      ), each as (
        select g.effect_id, min(g.notice_id) as first, pg_catalog.max(g.at) as at from gone g group by g.effect_id
      )
      -- One by one, by the key: the view has more tables than a planner turns around, and would be read whole.
      select s.effect_id, s.seq, s.name, s.operation, s.state, s.unresolved, s.waiting_for, s.resolution ->> 'kind', s.reference, x.at
        from each x
        cross join lateral (select v.* from effects_ledger.standing v where v.effect_id = x.effect_id offset 0) as s
       order by x.first;
      get diagnostics taken = row_count;
      still := still - taken;
      exit when still <= 0;
    end loop;
  end $$;
comment on function effects.take_notices is
  'Takes notices out of an inbox, inside the caller''s own transaction: each effect once, as it stands now. Keep the highest seq of each.';

-- Cancel. --------------------------------------------------------------------------------------------------------------

create function effects.cancel(effect_id uuid) returns text language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    asked effects_ledger.request;
    about uuid := cancel.effect_id;
    stands text;
  begin
    select * into asked from effects_ledger.request r where r.effect_id = cancel.effect_id;
    if not found or (asked.actor <> effects_ledger.actor_now() and effects_ledger.spoken_for(asked.actor) is null
                     and not effects_ledger.has_role('operator')) then
      perform effects_ledger.refuse('PE109', format('effect_unknown: there is no effect %s of this actor''s', cancel.effect_id),
                                    'an operator cancels another one''s');
    end if;
    loop
      -- Of a line of followers the last one is meant: what has ended cannot be cancelled, and what tries it again can.
      about := effects_ledger.newest_of(about);
      -- Locks the row that admission locks: whichever comes second sees the first. Its job stays, and will find it declined: a
      -- caller that holds the job's row for as long as its transaction lasts would hold up whoever queues anything again.
      perform effects_ledger.record_declined(jsonb_build_array(jsonb_build_object('effect_id', about,
                'reason', 'cancelled', 'code', 'cancelled')), null);
      select e.state into strict stands from effects_ledger.effect e where e.effect_id = about;
      exit when effects_ledger.newest_of(about) = about;
    end loop;
    if stands = 'admitted' then
      if not exists (select from effects_ledger.cancel_requested(array[about])) then
        perform effects_ledger.note_event(about, 'cancel_requested', '{}');
      end if;
      return 'cancel_requested';
    end if;
    return case stands when 'declined' then 'declined' else 'ended' end;
  end $$;
comment on function effects.cancel is
  'Before its admission an effect is declined. After it, the wish is recorded and its dispatch is told; nothing is claimed. Answers declined, cancel_requested or ended.';

-- Of effects that are being dispatched, those that somebody asked to cancel: what a worker looks at once a second.
create function effects_ledger.cancel_requested(ids uuid[]) returns setof uuid language sql stable security definer
  set search_path = pg_catalog, pg_temp
  as $$
    select v.effect_id from effects_ledger.event v where v.effect_id = any (ids) and v.event = 'cancel_requested'
  $$;

revoke all on all functions in schema effects, effects_ledger from public;
